import { Command, Option } from "commander";
import { readFileSync } from "node:fs";
import { RunError } from "../shared/errors.ts";
import type { CancelOptions } from "./cancel.ts";
import type { EnqueueOptions } from "./enqueue.ts";
import type { ExitCode } from "./exit-codes.ts";
import type { FollowOptions } from "./follow.ts";
import { parseDurationMs, parsePort, parsePositive } from "./option-values.ts";
import { addRequestOptions } from "./request-options.ts";
import type { ResultOptions } from "./result.ts";
import type { RunOptions } from "./run.ts";
import type { SkillsOptions } from "./skills.ts";
import type { Terminal } from "./terminal.ts";
import type { WorkerCommandOptions } from "./worker.ts";

/** Told by the command that ran: the exit status. */
type Done = (exitCode: ExitCode) => void;

const LOG_LEVELS = ["silent", "fatal", "error", "warn", "info", "debug", "trace"] as const;

/**
 * The whole command line. Each command's code is loaded when it runs, so that `--help` is quick.
 *
 * Parsing throws commander's errors (exit codes are the entry point's) and what the commands throw.
 */
export function createProgram(terminal: Terminal, done: Done): Command {
  const program = new Command("skilldock")
    .description("Runs agent skills from a queue, in order, in a sandbox.")
    .version(readVersion(), "--version", "print the version")
    .helpOption("-h, --help", "print help")
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => terminal.stdout.write(text),
      // Errors are printed once, by the entry point; help that was not asked for is part of one.
      writeErr: (text) => {
        if (!text.startsWith("error:")) terminal.stderr.write(text);
      },
    })
    .exitOverride()
    .option("--config <file>", "default: ./skilldock.yaml, where it exists")
    .option("--tenant <id>", "whose run it is (default: default)")
    .addOption(new Option("--json", "print one JSON object").conflicts("jsonl"))
    .option("--jsonl", "print one JSON object a line")
    .addOption(new Option("--log-level <level>", "what is logged to stderr").choices(LOG_LEVELS));
  addRunCommands(program, terminal, done);
  addWorkerCommands(program, terminal, done);
  addUnbuiltCommands(program);
  return program;
}

function addRunCommands(program: Command, terminal: Terminal, done: Done): void {
  addRequestOptions(program.command("run").description("enqueue a run and follow it to its end; Ctrl-C cancels it"))
    .option("--timeout <duration>", "cancel the run when it has not ended by then (exit 7)", parseDurationMs)
    .option("--quiet", "no progress on stderr")
    .option("--local", "run in this process, without Redis; needs --skills")
    .option("--skills <dir...>", "with --local: directories of skills")
    .option("--tools <module>", "with --local: a module that exports caller tools")
    .addOption(new Option("--sandbox <engine>", "with --local").choices(["docker", "none"]))
    .action(async (_options: unknown, command: Command) => {
      const { runCommand } = await import("./run.ts");
      done(await runCommand(terminal, command.optsWithGlobals<RunOptions>()));
    });
  addRequestOptions(program.command("enqueue").description("put a run on the queue and print its id")).action(
    async (_options: unknown, command: Command) => {
      const { enqueueCommand } = await import("./enqueue.ts");
      done(await enqueueCommand(terminal, command.optsWithGlobals<EnqueueOptions>()));
    },
  );
  program
    .command("follow")
    .description("print a run's events and its result; Ctrl-C detaches")
    .argument("<runId>")
    .option("--from <sequence>", "begin at this event (default: 1)", parsePositive)
    .action(async (runId: string, _options: unknown, command: Command) => {
      const { followCommand } = await import("./follow.ts");
      done(await followCommand(terminal, runId, command.optsWithGlobals<FollowOptions>()));
    });
  program
    .command("result")
    .description("print the result of a run")
    .argument("<runId>")
    .option("--wait <duration>", "wait for the run's end so long (exit 7 when it does not end)", parseDurationMs)
    .action(async (runId: string, _options: unknown, command: Command) => {
      const { resultCommand } = await import("./result.ts");
      done(await resultCommand(terminal, runId, command.optsWithGlobals<ResultOptions>()));
    });
  program
    .command("cancel")
    .description("end a run")
    .argument("<runId>")
    .option("--reason <text>", "recorded with the run's end")
    .action(async (runId: string, _options: unknown, command: Command) => {
      const { cancelCommand } = await import("./cancel.ts");
      done(await cancelCommand(terminal, runId, command.optsWithGlobals<CancelOptions>()));
    });
}

function addWorkerCommands(program: Command, terminal: Terminal, done: Done): void {
  program
    .command("worker")
    .description("take runs from the queue and execute them, until SIGTERM or Ctrl-C")
    .option("--skills <dir...>", "directories of skills")
    .option("--concurrency <n>", "runs at a time", parsePositive)
    .option("--tools <module>", "a module that exports caller tools")
    .addOption(
      new Option("--sandbox <engine>", "engine for workspace capabilities (default: docker)").choices([
        "docker",
        "none",
      ]),
    )
    .option(
      "--metrics-port <port>",
      "port of /metrics, /healthz and /readyz; 0 takes a free one (default: 9464)",
      parsePort,
    )
    .option("--metrics-host <address>", "address of the metrics port (default: 127.0.0.1)")
    .option("--grace <duration>", "how long runs may finish after SIGTERM (default: 20s)", parseDurationMs)
    .action(async (_options: unknown, command: Command) => {
      const { workerCommand } = await import("./worker.ts");
      done(await workerCommand(terminal, command.optsWithGlobals<WorkerCommandOptions>()));
    });
  const skills = program.command("skills").description("look at directories of skills").helpCommand(false);
  skills
    .command("list")
    .description("print the skills that a worker would hold")
    .argument("<dir...>")
    .action(async (directories: readonly string[], _options: unknown, command: Command) => {
      const { listSkillsCommand } = await import("./skills.ts");
      done(await listSkillsCommand(terminal, directories, command.optsWithGlobals<SkillsOptions>()));
    });
  skills
    .command("check")
    .description("fail (exit 1) where a skill cannot be loaded")
    .argument("<dir...>")
    .option("--strict", "hold skills to the open format's own rules")
    .action(async (directories: readonly string[], _options: unknown, command: Command) => {
      const { checkSkillsCommand } = await import("./skills.ts");
      done(await checkSkillsCommand(terminal, directories, command.optsWithGlobals<SkillsOptions>()));
    });
}

/** Commands that the contract names and this version does not have: they say so. */
function addUnbuiltCommands(program: Command): void {
  for (const name of ["runs", "why", "tenant", "doctor"]) {
    program
      .command(name, { hidden: true })
      .argument("[arguments...]")
      .allowUnknownOption()
      .helpOption(false)
      .action(() => {
        throw new RunError("not_supported", {
          message: `skilldock ${name} is not part of this version.`,
          details: { command: name },
        });
      });
  }
}

function readVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version; // our own file
}
