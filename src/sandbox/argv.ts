import type { WorkspacePolicy } from "../shared/contracts/policy.ts";
import { RunError } from "../shared/errors.ts";

/** What Linux takes as one argument, without its closing NUL. */
const MAX_ARGUMENT_BYTES = 131_071;
const MAX_ARGUMENTS_BYTES = 1_000_000;
/** Linux gives arguments and environment 2 MiB together, their pointers included. */
const MAX_TOTAL_BYTES = 1_900_000;
const POINTER_BYTES = 8;

/**
 * Checks an argument vector before anything sees it: what is wrong with it would otherwise look like the
 * command's own doing.
 *
 * @param environment The variables that the command will have; they share its space.
 * @throws {RunError} `invalid_arguments`.
 */
export function checkArgv(argv: readonly string[], environment: WorkspacePolicy["environment"]): void {
  const [program] = argv;
  if (program === undefined || program === "") throw invalid("argv needs a program as its first entry.");
  if (program.startsWith("-") || program.includes("=")) {
    throw invalid("The program's name may neither begin with - nor contain =.");
  }
  if (argv.some((argument) => argument.includes("\0"))) throw invalid("An argument holds a NUL character.");
  if (argv.some((argument) => !argument.isWellFormed())) throw invalid("An argument is not well-formed Unicode.");
  if (argv.some((argument) => Buffer.byteLength(argument) > MAX_ARGUMENT_BYTES)) {
    throw invalid(`An argument has more than ${MAX_ARGUMENT_BYTES} bytes.`);
  }
  const argumentsBytes = bytesOf(argv);
  if (argumentsBytes > MAX_ARGUMENTS_BYTES) throw invalid(`The arguments have more than ${MAX_ARGUMENTS_BYTES} bytes.`);
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  if (argumentsBytes + bytesOf(variables) > MAX_TOTAL_BYTES) {
    throw invalid(`The arguments and the policy's environment have more than ${MAX_TOTAL_BYTES} bytes together.`);
  }
}

function bytesOf(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1 + POINTER_BYTES, 0);
}

function invalid(message: string): RunError {
  return new RunError("invalid_arguments", { message });
}
