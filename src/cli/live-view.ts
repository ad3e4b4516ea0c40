import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { formatPlural, summarize } from "./figures.ts";
import { printableLine } from "./printable.ts";
import { printFinalText, printOutcome, type RunView } from "./run-view.ts";
import type { Terminal } from "./terminal.ts";

const REDRAW_MS = 1_000;
const CLEAR_LINE = "\r\u001b[2K";

/**
 * A run on a terminal: one status line on stderr that is drawn again and again, and, where stdout is a
 * terminal too, the model's text as it streams. The two share a screen: while text stands in an unfinished
 * line, no status is drawn.
 *
 * V1 A delta is a preview; `model.completed` is the text. What the preview lacks is added; a preview that
 *    differs is said to be void, and the text printed whole.
 * V2 The final text appears exactly once.
 */
export class LiveView implements RunView {
  readonly #terminal: Terminal;
  readonly #streams: boolean;
  readonly #startedAt = performance.now();
  readonly #timer: NodeJS.Timeout;
  /** The preview of the turn that goes on. */
  #preview = "";
  /** The text of the last completed turn, when it stands on the screen. */
  #printed: string | undefined;
  #midLine = false;
  /** The status line as it stands on the screen; undefined where there is none. */
  #drawn: string | undefined;
  #phase = "waiting for a worker";
  #turn = 0;
  #toolCalls = 0;
  #tokens = 0;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#streams = terminal.stdout.isTerminal;
    this.#timer = setInterval(() => this.#draw(), REDRAW_MS);
    this.#timer.unref();
    this.#draw();
  }

  event(event: RunEvent): void {
    this.#note(event);
    if (this.#streams) this.#show(event);
    this.#draw();
  }

  result(result: RunResult): void {
    this.close();
    const { stdout, stderr } = this.#terminal;
    if (result.outputText !== this.#printed) printFinalText(stdout, result.outputText);
    if (result.status === "succeeded") stderr.line(stderr.style("dim", summarize(result)));
    else printOutcome(stderr, result);
  }

  notice(text: string): void {
    this.#endLine();
    this.#clear();
    this.#terminal.stderr.line(this.#terminal.stderr.style("yellow", `skilldock: ${text}`));
    this.#draw();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#phase = "";
    this.#endLine();
    this.#clear();
  }

  #note(event: RunEvent): void {
    if (event.type === "run.started" || event.type === "run.resumed") this.#phase = "started";
    else if (event.type === "model.started") {
      this.#turn = event.data.turn;
      this.#phase = "model";
    } else if (event.type === "model.completed") {
      this.#tokens += event.data.usage.inputTokens + event.data.usage.outputTokens;
      this.#toolCalls += event.data.toolCalls.length;
    } else if (event.type === "tool.call") this.#phase = event.data.modelName;
  }

  #show(event: RunEvent): void {
    if (event.type === "model.delta") {
      this.#preview += event.data.text;
      this.#write(event.data.text);
    } else if (event.type === "model.completed") {
      this.#complete(event.data.message);
      if (event.data.toolCalls.length > 0) this.#endLine();
    } else if (event.type === "run.resumed") this.#dropPreview();
  }

  #complete(message: string): void {
    if (!message.startsWith(this.#preview)) this.#dropPreview();
    this.#write(message.slice(this.#preview.length));
    this.#preview = "";
    this.#printed = message;
  }

  #dropPreview(): void {
    if (this.#preview === "") return;
    this.#preview = "";
    this.notice("the text above was a preview and does not count");
  }

  #write(text: string): void {
    if (text === "") return;
    this.#clear();
    this.#terminal.stdout.writeForeign(text);
    this.#midLine = !text.endsWith("\n");
  }

  #endLine(): void {
    if (this.#midLine) this.#terminal.stdout.write("\n");
    this.#midLine = false;
  }

  #draw(): void {
    if (this.#midLine || this.#phase === "") return;
    const { stderr } = this.#terminal;
    const status = [
      `${Math.floor((performance.now() - this.#startedAt) / 1_000)} s`,
      this.#turn === 0 ? undefined : `turn ${this.#turn}`,
      this.#toolCalls === 0 ? undefined : formatPlural(this.#toolCalls, "tool call"),
      this.#tokens === 0 ? undefined : formatPlural(this.#tokens, "token"),
      this.#phase,
    ].filter((part) => part !== undefined);
    const line = printableLine(status.join(" · "), stderr.columns - 1);
    if (line !== this.#drawn) stderr.write(`${CLEAR_LINE}${stderr.style("dim", line)}`);
    this.#drawn = line;
  }

  #clear(): void {
    if (this.#drawn !== undefined) this.#terminal.stderr.write(CLEAR_LINE);
    this.#drawn = undefined;
  }
}
