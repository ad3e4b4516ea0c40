import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { EventLines, type EventLine } from "./event-lines.ts";
import { formatCount, formatDuration, formatPlural, summarize } from "./figures.ts";
import { printable, printableLine } from "./printable.ts";
import type { Output } from "./terminal.ts";

const TEXT_LINES = 14;
const INDENT = " ".repeat(11);

/** Prints one run of the demonstration: a heading, a line an event with its time, and what came out. */
export class DemoPrinter {
  readonly #output: Output;
  #startedAt: number | undefined;
  #previewed = 0;
  readonly #lines = new EventLines();

  constructor(output: Output) {
    this.#output = output;
  }

  heading(number: number, title: string): void {
    const { style } = this.#bound();
    this.#output.line("");
    this.#output.line(style("bold", `${number}  ${title}`));
  }

  /** A line of ours between the events. */
  note(text: string): void {
    this.#output.line(`${INDENT}${this.#output.style("yellow", `→ ${text}`)}`);
  }

  event(event: RunEvent): void {
    const at = Date.parse(event.time);
    this.#startedAt ??= at;
    const since = `${((at - this.#startedAt) / 1_000).toFixed(2)} s`;
    const preview = event.type === "model.delta" ? this.#preview(event) : undefined;
    for (const line of preview === undefined ? this.#lines.next(event) : [preview]) this.#line(line, since);
    if (event.type === "tool.result") this.#commandOutput(event.data.output);
  }

  #line(line: EventLine, since: string): void {
    const head = `${line.sequence.padStart(4)} ${since.padStart(8)}  ${line.type.padEnd(18)} `;
    const detail = printableLine(line.detail, Math.max(40, this.#output.columns - head.length - 1));
    const { style } = this.#bound();
    const text = line.tone === "good" ? style("green", detail) : line.tone === "bad" ? style("red", detail) : detail;
    this.#output.line(`${style("dim", head)}${text}`.trimEnd());
  }

  /** The final text, and a line about what the run used. */
  result(result: RunResult): void {
    if (result.outputText !== "") this.#block(result.outputText, "  │ ");
    const { style } = this.#bound();
    const parts = [summarize(result), formatPlural(result.receipts.length, "receipt")];
    if (result.usage.sandboxMs > 0) parts.push(`sandbox lived ${formatDuration(result.usage.sandboxMs)}`);
    this.#output.line(style(result.status === "succeeded" ? "green" : "yellow", `  = ${parts.join(" · ")}`));
    if (result.error !== undefined) {
      this.#output.line(style("red", `    ${printableLine(`${result.error.code}: ${result.error.message}`, 400)}`));
    }
  }

  /** The first text of a turn; of later ones only their numbers are shown, since `model.completed` has the whole. */
  #preview(event: Extract<RunEvent, { readonly type: "model.delta" }>): EventLine | undefined {
    const { turn, text } = event.data;
    if (turn === this.#previewed) return undefined;
    this.#previewed = turn;
    return {
      sequence: String(event.sequence),
      type: event.type,
      detail: `${printableLine(text, 60)} …`,
      tone: "plain",
    };
  }

  /** What a command printed, where the output of a tool is that of a command. */
  #commandOutput(output: string): void {
    const stdout = stdoutOf(output);
    if (stdout !== undefined && stdout.trim() !== "") this.#block(stdout, `${INDENT}│ `);
  }

  #block(text: string, margin: string): void {
    const lines = printable(text).trimEnd().split("\n");
    const { style } = this.#bound();
    for (const line of lines.slice(0, TEXT_LINES)) {
      const shown = printableLine(line, 160);
      const indent = /^ */.exec(line)?.[0].slice(0, 40) ?? "";
      this.#output.line(`${style("cyan", margin)}${indent}${shown}`.trimEnd());
    }
    if (lines.length > TEXT_LINES)
      this.#output.line(style("dim", `${margin}… ${formatCount(lines.length - TEXT_LINES)} more lines`));
  }

  #bound(): { readonly style: Output["style"] } {
    return { style: (format, text) => this.#output.style(format, text) };
  }
}

function stdoutOf(output: string): string | undefined {
  try {
    const value: unknown = JSON.parse(output);
    const hasStdout =
      typeof value === "object" && value !== null && "stdout" in value && typeof value.stdout === "string";
    return hasStdout ? String(value.stdout) : undefined;
  } catch {
    return undefined;
  }
}
