/** The entry of the command `skilldock`: the process, its streams, its environment and its exit status. */
import { CommanderError } from "commander";
import { RunError } from "../shared/errors.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { createProgram } from "./program.ts";
import { reportError, type AnswerOptions } from "./report-error.ts";
import { Output, type Terminal } from "./terminal.ts";

const closed = new AbortController();
const terminal: Terminal = {
  stdin: process.stdin,
  stdout: new Output(process.stdout, process.env, () => closed.abort()),
  stderr: new Output(process.stderr, process.env, () => undefined),
  environment: process.env,
  outputClosed: closed.signal,
  exitNow: (code) => process.exit(code),
};

async function main(argv: readonly string[]): Promise<ExitCode> {
  let exitCode: ExitCode = EXIT.usage;
  const program = createProgram(terminal, (code) => (exitCode = code));
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    if (!(error instanceof CommanderError)) return reportError(terminal, error, answerOptions(argv));
    // Help and version that were asked for.
    if (error.exitCode === 0) return EXIT.ok;
    const message = error.code === "commander.help" ? "Name a command." : error.message.replace(/^error: /, "");
    return reportError(terminal, new RunError("invalid_request", { message }), answerOptions(argv));
  }
}

/** How to answer, read without parsing: the arguments may be what is wrong. */
function answerOptions(argv: readonly string[]): AnswerOptions {
  const level = argv.find(
    (argument, index) => argv[index - 1] === "--log-level" || argument.startsWith("--log-level="),
  );
  return {
    json: argv.includes("--json"),
    jsonl: argv.includes("--jsonl"),
    ...(level === undefined ? {} : { logLevel: level.replace("--log-level=", "") }),
  };
}

async function exit(exitCode: ExitCode): Promise<never> {
  await Promise.all([terminal.stdout.flush(), terminal.stderr.flush()]);
  const { failure } = terminal.stdout;
  if (failure !== undefined) terminal.stderr.line(`skilldock: the output could not be written: ${failure}`);
  process.exit(failure !== undefined && exitCode === EXIT.ok ? EXIT.notSucceeded : exitCode);
}

const argv = process.argv.slice(2);
process.on("uncaughtException", (error) => void exit(reportError(terminal, error, answerOptions(argv))));
await exit(await main(argv));
