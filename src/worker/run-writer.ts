import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { RunError, toRunError } from "../shared/errors.ts";
import type { CancelFlag, Grant, RunLog, RunOwner, WriteReply } from "../shared/run-log/run-log.ts";
import { RunInterrupt } from "./executor/execution.ts";
import { untilAnswered } from "./until-answered.ts";

/** Events that may wait for the batch in flight before the pump is held back. */
const MAX_WAITING_EVENTS = 256;

export interface RunWriterOptions {
  readonly log: RunLog;
  readonly owner: RunOwner;
  /** Aborts when this attempt may not write any more. */
  readonly signal: AbortSignal;
  /** A reply carried a cancel flag. May be called more than once. */
  readonly onCancel: (flag: CancelFlag) => void;
  /** The log said that another attempt owns the run, or that it has ended. */
  readonly onFenced: () => void;
}

/**
 * Writes the events of one attempt, in order, one batch in flight; what comes meanwhile makes the next batch.
 *
 * A batch whose reply was lost is sent again, which the log answers as the first time. Redis being away is waited out
 * until the signal aborts: the attempt's lock ends it then.
 */
export class RunWriter {
  readonly #options: RunWriterOptions;
  #waiting: RunEvent[] = [];
  #flight: Promise<void> | undefined;
  #scheduled = false;
  #failure: RunError | RunInterrupt | undefined;
  #written: number;

  /** @param options.written The last sequence that stands in the stream. */
  constructor(options: RunWriterOptions & { readonly written: number }) {
    this.#options = options;
    this.#written = options.written;
  }

  /** The last sequence that is known to stand in the stream. */
  get written(): number {
    return this.#written;
  }

  /** The journal took no more: what was pushed after `written` is lost, and only a terminal event still fits. */
  get overflowed(): boolean {
    return this.#failure instanceof RunError && this.#failure.code === "journal_limit";
  }

  /** Takes an event; it is written soon. After a failure it is dropped. */
  push(event: RunEvent): void {
    if (this.#failure !== undefined) return;
    this.#waiting.push(event);
    if (this.#scheduled || this.#flight !== undefined) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#fly();
    });
  }

  /** Whether so much waits that the pump should wait for `durable`. */
  get full(): boolean {
    return this.#waiting.length >= MAX_WAITING_EVENTS;
  }

  /**
   * Resolves when all that was pushed is written.
   *
   * @throws {RunInterrupt} `fenced`; {RunError} `journal_limit`; `signal.reason`.
   */
  async durable(): Promise<void> {
    while (this.#failure === undefined && (this.#flight !== undefined || this.#waiting.length > 0)) {
      this.#fly();
      await this.#flight;
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when no batch is in flight, whatever came of it. */
  async landed(): Promise<void> {
    while (this.#flight !== undefined) await this.#flight;
  }

  /**
   * Writes what waits and the terminal event, in one step, and ends the run. To be called after `landed`;
   * the terminal event of an overflowed journal follows `written`.
   *
   * @returns What may start now; `journal_limit` where the journal has no room for what waits: it is lost, the writer has
   *   overflowed, and the terminal event is to be sealed and sent again, alone.
   * @throws {RunInterrupt} `fenced`; `signal.reason`.
   */
  async finish(terminal: RunEvent, state: RunResult["status"]): Promise<readonly Grant[] | "journal_limit"> {
    if (this.#failure !== undefined && !this.overflowed) throw this.#failure;
    const events = [...this.#waiting, terminal];
    this.#waiting = [];
    const reply = await untilAnswered(this.#options.signal, async () =>
      this.#options.log.finish(this.#options.owner, events, state),
    );
    if (reply.kind === "finished") return reply.grants;
    if (reply.kind === "journal_limit" && !this.overflowed) {
      this.#failure = new RunError("journal_limit");
      return "journal_limit";
    }
    this.#options.onFenced();
    throw new RunInterrupt("fenced");
  }

  /** Sends the next batch, if none is in flight and something waits. */
  #fly(): void {
    if (this.#flight !== undefined || this.#waiting.length === 0 || this.#failure !== undefined) return;
    const batch = this.#waiting;
    this.#waiting = [];
    this.#flight = this.#send(batch).then(() => {
      this.#flight = undefined;
      this.#fly();
    });
  }

  async #send(batch: readonly RunEvent[]): Promise<void> {
    try {
      const reply = await untilAnswered(this.#options.signal, async () =>
        this.#options.log.append(this.#options.owner, batch),
      );
      this.#accept(reply, batch);
    } catch (error) {
      this.#failure ??= error instanceof RunInterrupt ? error : toRunError(error);
      this.#waiting = [];
    }
  }

  #accept(reply: WriteReply, batch: readonly RunEvent[]): void {
    if (reply.kind === "written") {
      this.#written = batch.at(-1)?.sequence ?? this.#written;
      if (reply.cancel !== undefined) this.#options.onCancel(reply.cancel);
      return;
    }
    if (reply.kind === "journal_limit") throw new RunError("journal_limit");
    this.#options.onFenced();
    throw new RunInterrupt("fenced");
  }
}
