import { RunError, type ErrorCode } from "../shared/errors.ts";
import { EXIT, exitCodeOfError, type ExitCode } from "./exit-codes.ts";
import { printable } from "./printable.ts";
import type { Terminal } from "./terminal.ts";

/** How the command answers: for people, or for machines. */
export interface AnswerOptions {
  readonly json?: boolean;
  readonly jsonl?: boolean;
  readonly logLevel?: string;
}

/** Ends of a command that are nobody's failure, and no codes of a run. */
type CommandCode = "wait_expired" | "interrupted";

/** What `--json` prints instead of an answer. */
interface ErrorAnswer {
  readonly code: ErrorCode | CommandCode;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
}

/**
 * Prints an error that ended the command: one JSON object on stdout with `--json` and `--jsonl`, else a sentence on
 * stderr. A stack shows at `--log-level debug` only.
 *
 * @returns The exit status that belongs to it.
 */
export function reportError(terminal: Terminal, caught: unknown, options: AnswerOptions): ExitCode {
  if (options.logLevel === "debug" || options.logLevel === "trace") printStacks(terminal, caught);
  const error =
    caught instanceof RunError
      ? caught
      : new RunError("internal", { message: "Skilldock itself failed. --log-level debug shows where." });
  const { code, message, details } = error;
  printAnswer(terminal, { code, message, ...(details === undefined ? {} : { details }) }, options);
  return exitCodeOfError(code);
}

/** Prints that `--timeout` or `--wait` ran out. @returns 7. */
export function reportWaitExpired(terminal: Terminal, message: string, options: AnswerOptions): ExitCode {
  printAnswer(terminal, { code: "wait_expired", message }, options);
  return EXIT.timeRanOut;
}

/** Says, where an object is expected, that there is none because of an interrupt. @returns 130. */
export function reportInterrupted(terminal: Terminal, message: string, options: AnswerOptions): ExitCode {
  printAnswer(terminal, { code: "interrupted", message }, options);
  return EXIT.interrupted;
}

function printAnswer(terminal: Terminal, error: ErrorAnswer, options: AnswerOptions): void {
  if (options.json === true || options.jsonl === true) {
    terminal.stdout.line(JSON.stringify({ error }));
    return;
  }
  const { stderr } = terminal;
  stderr.line(`${stderr.style("red", "skilldock:")} ${printable(error.message).trimEnd()} (${error.code})`);
  for (const problem of problemsOf(error)) stderr.line(`  - ${printable(problem)}`);
}

/** The single problems of an invalid request or configuration, where the message does not name them all. */
function problemsOf(error: ErrorAnswer): readonly string[] {
  const problems = error.details?.["problems"];
  if (!Array.isArray(problems)) return [];
  return problems
    .map((problem: unknown) =>
      typeof problem === "object" && problem !== null && "message" in problem ? String(problem.message) : "",
    )
    .filter((message) => message !== "" && !error.message.includes(message));
}

function printStacks(terminal: Terminal, caught: unknown): void {
  for (let error = caught, depth = 0; error instanceof Error && depth < 5; error = error.cause, depth += 1) {
    terminal.stderr.line(printable(error.stack ?? error.message));
  }
}
