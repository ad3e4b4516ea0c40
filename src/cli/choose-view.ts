import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { EventLines } from "./event-lines.ts";
import { LiveView } from "./live-view.ts";
import { printFinalText, printOutcome, styleEventLine, type RunView } from "./run-view.ts";
import type { Output, Terminal } from "./terminal.ts";

export interface ViewOptions {
  readonly json?: boolean;
  readonly jsonl?: boolean;
  readonly quiet?: boolean;
  /** `follow` prints the events as its output; `run` prints the text, and talks about the events. */
  readonly purpose: "run" | "follow";
}

/** The view that the options and the terminal ask for. */
export function chooseView(terminal: Terminal, options: ViewOptions): RunView {
  if (options.jsonl === true) return new JsonLinesView(terminal.stdout);
  if (options.json === true) return new JsonView(terminal.stdout);
  if (options.purpose === "follow") return new LinesView(terminal, terminal.stdout);
  if (options.quiet === true) return new LinesView(terminal, undefined);
  return terminal.stderr.isLive ? new LiveView(terminal) : new LinesView(terminal, terminal.stderr);
}

/** One line an event; the final text on stdout. */
class LinesView implements RunView {
  readonly #terminal: Terminal;
  readonly #events: Output | undefined;
  readonly #lines = new EventLines();

  constructor(terminal: Terminal, events: Output | undefined) {
    this.#terminal = terminal;
    this.#events = events;
  }

  event(event: RunEvent): void {
    if (this.#events === undefined) return;
    for (const line of this.#lines.next(event)) this.#events.line(styleEventLine(this.#events, line));
  }

  result(result: RunResult): void {
    printFinalText(this.#terminal.stdout, result.outputText);
    printOutcome(this.#terminal.stderr, result);
  }

  notice(text: string): void {
    if (this.#events !== undefined) this.#terminal.stderr.line(`skilldock: ${text}`);
  }

  close(): void {}
}

/** The result as one JSON object. */
class JsonView implements RunView {
  readonly #stdout: Output;

  constructor(stdout: Output) {
    this.#stdout = stdout;
  }

  event(): void {}

  result(result: RunResult): void {
    this.#stdout.line(JSON.stringify(result));
  }

  notice(): void {}

  close(): void {}
}

/** One JSON object a line for each event; the terminal one carries the result. */
class JsonLinesView implements RunView {
  readonly #stdout: Output;
  #ended = false;

  constructor(stdout: Output) {
    this.#stdout = stdout;
  }

  event(event: RunEvent): void {
    this.#ended = event.terminal;
    this.#stdout.line(JSON.stringify(event));
  }

  /** Printed only where the terminal event was not: whoever begins behind the end is owed the result. */
  result(result: RunResult): void {
    if (!this.#ended) this.#stdout.line(JSON.stringify(result));
  }

  notice(): void {}

  close(): void {}
}
