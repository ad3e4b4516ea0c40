/** The entry of `npm start`: the demonstration, with the process's streams, environment and exit status. */
import { parseArgs } from "node:util";
import { RunError } from "../shared/errors.ts";
import { runDemo } from "./demo.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { reportError } from "./report-error.ts";
import { Output, type Terminal } from "./terminal.ts";

const USAGE = `Usage: npm start [-- --model <route>[:<model>]]

Starts a Redis and a worker, shows three runs, and ends. Nothing is paid but with --model openai (OPENAI_API_KEY).
REDIS_URL names a Redis to be used instead.`;

const closed = new AbortController();
const terminal: Terminal = {
  stdin: process.stdin,
  stdout: new Output(process.stdout, process.env, () => closed.abort()),
  stderr: new Output(process.stderr, process.env, () => undefined),
  environment: process.env,
  outputClosed: closed.signal,
  exitNow: (code) => process.exit(code),
};

async function main(): Promise<ExitCode> {
  const { values } = readArguments();
  if (values.help === true) {
    terminal.stdout.line(USAGE);
    return EXIT.ok;
  }
  return runDemo(terminal, values.model === undefined ? {} : { model: values.model });
}

function readArguments(): { readonly values: { readonly help?: boolean; readonly model?: string } } {
  try {
    return parseArgs({ options: { model: { type: "string" }, help: { type: "boolean", short: "h" } } });
  } catch (error) {
    const why = error instanceof Error ? (error.message.split("\n", 1)[0] ?? "") : "";
    throw new RunError("invalid_request", { message: `${why}\n${USAGE}` });
  }
}

let exitCode: ExitCode;
try {
  exitCode = await main();
} catch (error) {
  exitCode = reportError(terminal, error, {});
}
await Promise.all([terminal.stdout.flush(), terminal.stderr.flush()]);
process.exit(exitCode);
