import { RunError } from "../shared/errors.ts";

/** What Linux takes as one argument, without its closing NUL. */
const MAX_ARGUMENT_BYTES = 131_071;
const MAX_TOTAL_BYTES = 1_000_000;

/**
 * Checks an argument vector before anything sees it: what is wrong with it would otherwise look like the
 * command's own doing.
 *
 * @throws {RunError} `invalid_arguments`.
 */
export function checkArgv(argv: readonly string[]): void {
  const [program] = argv;
  if (program === undefined || program === "") throw invalid("argv needs a program as its first entry.");
  if (program.startsWith("-") || program.includes("=")) {
    throw invalid("The program's name may neither begin with - nor contain =.");
  }
  if (argv.some((argument) => argument.includes("\0"))) throw invalid("An argument holds a NUL character.");
  if (argv.some((argument) => !argument.isWellFormed())) throw invalid("An argument is not well-formed Unicode.");
  const sizes = argv.map((argument) => Buffer.byteLength(argument));
  if (sizes.some((size) => size > MAX_ARGUMENT_BYTES))
    throw invalid(`An argument has more than ${MAX_ARGUMENT_BYTES} bytes.`);
  const total = sizes.reduce((sum, size) => sum + size + 1, 0);
  if (total > MAX_TOTAL_BYTES) throw invalid(`The arguments have more than ${MAX_TOTAL_BYTES} bytes together.`);
}

function invalid(message: string): RunError {
  return new RunError("invalid_arguments", { message });
}
