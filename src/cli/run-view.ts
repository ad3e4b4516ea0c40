import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { formatEventLine, type EventLine } from "./event-lines.ts";
import { printableLine } from "./printable.ts";
import type { Output } from "./terminal.ts";

/** How a run is shown while it goes on and when it has ended. */
export interface RunView {
  event(event: RunEvent): void;
  result(result: RunResult): void;
  /** Something to say in between, such as that a cancellation is on its way. */
  notice(text: string): void;
  /** Leaves the screen tidy. Safe to call again. */
  close(): void;
}

/** Prints the final text on stdout, with a newline at its end. */
export function printFinalText(stdout: Output, text: string): void {
  if (text !== "") stdout.writeForeign(text.endsWith("\n") ? text : `${text}\n`);
}

/** Says on stderr how a run ended that did not succeed. */
export function printOutcome(stderr: Output, result: RunResult): void {
  if (result.status === "succeeded") return;
  const { error } = result;
  const why = result.status === "cancelled" ? result.cancelReason : error && `${error.code}: ${error.message}`;
  const sentence = `run ${result.runId} ended ${result.status}${why === undefined ? "" : `: ${why}`}`;
  stderr.line(
    stderr.style(result.status === "cancelled" ? "yellow" : "red", `skilldock: ${printableLine(sentence, 2_000)}`),
  );
}

const TONE_FORMATS = { good: "green", bad: "red", quiet: "dim", plain: undefined } as const;

/** An event's line in the colour of its tone. */
export function styleEventLine(output: Output, line: EventLine): string {
  const text = formatEventLine(line);
  const format = TONE_FORMATS[line.tone];
  return format === undefined ? text : output.style(format, text);
}
