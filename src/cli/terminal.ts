import { setImmediate } from "node:timers/promises";
import { styleText } from "node:util";
import { printable } from "./printable.ts";

type Format = Parameters<typeof styleText>[0];

/** The width of what is not a terminal: wide enough to read, and the same everywhere. */
const PIPE_COLUMNS = 160;

/** One of the two streams that the command prints to. After its reader has gone it swallows what is written. */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  readonly #environment: Environment;
  #closed = false;
  #failure: string | undefined;

  /** @param onClosed Called once when nothing more can be written. */
  constructor(stream: NodeJS.WriteStream, environment: Environment, onClosed: () => void) {
    this.#stream = stream;
    this.#environment = environment;
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (this.#closed) return;
      this.#closed = true;
      // A reader that has had enough is nobody's failure.
      if (error.code !== "EPIPE") this.#failure = error.code ?? error.name;
      onClosed();
    });
  }

  /** Why something could not be written, such as `ENOSPC`; undefined where all was, or the reader has gone. */
  get failure(): string | undefined {
    return this.#failure;
  }

  get isTerminal(): boolean {
    return this.#stream.isTTY ?? false;
  }

  /** A terminal on which a line may be drawn again. */
  get isLive(): boolean {
    return this.isTerminal && this.#environment.TERM !== "dumb";
  }

  get columns(): number {
    if (!this.isTerminal) return PIPE_COLUMNS;
    const { columns } = this.#stream;
    // A terminal that nobody has given a size says 0.
    return columns === undefined || columns === 0 ? 80 : Math.max(20, columns);
  }

  /** Writes text of our own, as it is. */
  write(text: string): void {
    if (!this.#closed && text !== "") this.#stream.write(text);
  }

  /** Writes a line of our own. */
  line(text: string): void {
    this.write(`${text}\n`);
  }

  /** Writes text of others: on a terminal without its control characters, elsewhere byte for byte. */
  writeForeign(text: string): void {
    this.write(this.isTerminal ? printable(text) : text);
  }

  /** Colour where this stream is a terminal and neither NO_COLOR nor the like forbids it. */
  style(format: Format, text: string): string {
    return styleText(format, text, { stream: this.#stream, validateStream: true });
  }

  /** Resolves when all that was written is handed to the system, or was refused by it. */
  async flush(): Promise<void> {
    // A stream tells of its errors a turn later.
    await setImmediate();
    if (this.#closed || this.#stream.writableLength === 0) return;
    await new Promise<void>((resolve) => {
      this.#stream.once("error", () => resolve());
      this.#stream.write("", () => resolve());
    });
  }
}

/** The environment of the process, as the entry point hands it in. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** What a command talks through. Made once, by the entry point. */
export interface Terminal {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly environment: Environment;
  /** Aborts when the reader of stdout has gone: a command then stops what it does for the output's sake. */
  readonly outputClosed: AbortSignal;
  /** Ends the process now. For the second interrupt. */
  readonly exitNow: (code: number) => void;
}
