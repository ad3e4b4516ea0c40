import type { Clock } from "../../shared/clock.ts";
import type { RunEventDraft } from "../../shared/contracts/event.ts";
import { RunError } from "../../shared/errors.ts";
import type { Model, ModelCompletion, ModelRequest, ModelStreamItem } from "../model/model.ts";
import { linkAbort } from "./linked-abort.ts";

/** At most 20 deltas a second: text that arrives faster waits for the next. */
const DELTA_INTERVAL_MS = 50;
/** Made once: an error for each turn would cost a stack for nobody to read. */
const OVER = new RunError("internal", { message: "The model call is no longer needed." });

export interface ModelTurn {
  readonly model: Model;
  readonly request: ModelRequest;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** UTF-8 bytes of text that the run may still produce. */
  readonly maxTextBytes: number;
  /** Told of all text as it arrives, for the charge of a call that breaks off. */
  readonly onText: (text: string) => void;
}

/**
 * Runs one model call: yields `model.delta` previews, returns the completion.
 *
 * The first text is passed on at once, later text every 50 ms, the rest before the completion.
 * However it is left, the call is aborted or over when this generator ends.
 *
 * @throws {RunError} The adapter's errors; `max_output` as soon as the text passes `maxTextBytes`;
 *   `model_protocol` for a stream that ends without completion; or `signal.reason`.
 */
export async function* runModelTurn(turn: ModelTurn): AsyncGenerator<RunEventDraft, ModelCompletion, void> {
  const { clock, request } = turn;
  const call = linkAbort(turn.signal);
  const source = new ItemSource(turn.model, request, call.signal);
  let pending = "";
  let lastDelta = -Infinity;
  let bytesLeft = turn.maxTextBytes;
  const takeDelta = (): RunEventDraft => {
    const draft: RunEventDraft = { type: "model.delta", data: { turn: request.run.turn, text: pending } };
    pending = "";
    lastDelta = clock.monotonic();
    return draft;
  };
  try {
    for (;;) {
      if (pending !== "" && clock.monotonic() - lastDelta >= DELTA_INTERVAL_MS) yield takeDelta();
      const waitMs = pending === "" ? undefined : lastDelta + DELTA_INTERVAL_MS - clock.monotonic();
      const item = await source.next(waitMs, clock);
      if (item === "later") continue;
      if (item.kind === "completed") {
        if (pending !== "") yield takeDelta();
        return item.completion;
      }
      turn.onText(item.text);
      bytesLeft -= Buffer.byteLength(item.text);
      if (bytesLeft < 0) throw new RunError("max_output", { details: { cutInTurn: request.run.turn } });
      pending += item.text;
    }
  } finally {
    call.release();
    call.abort(OVER);
    source.close();
  }
}

/** Pulls the adapter's items, and lets a wait be ended by time or by the signal without losing one. */
class ItemSource {
  readonly #iterator: AsyncIterator<ModelStreamItem>;
  readonly #signal: AbortSignal;
  #next: Promise<IteratorResult<ModelStreamItem>> | undefined;
  #interrupt: (() => void) | undefined;
  readonly #onAbort = (): void => this.#interrupt?.();

  constructor(model: Model, request: ModelRequest, signal: AbortSignal) {
    this.#signal = signal;
    this.#iterator = model.stream(request, { signal })[Symbol.asyncIterator]();
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** @param waitMs Longest wait; then `"later"`, and the item is had by the next call. Undefined: no such end. */
  async next(waitMs: number | undefined, clock: Clock): Promise<ModelStreamItem | "later"> {
    this.#signal.throwIfAborted();
    this.#next ??= this.#iterator.next();
    const source = this.#next;
    const { promise, resolve, reject } = Promise.withResolvers<IteratorResult<ModelStreamItem> | "later">();
    this.#interrupt = () => reject(this.#signal.reason as Error); // always ours: an interrupt or a RunError
    const cancelTimer = waitMs === undefined ? undefined : clock.after(waitMs, () => resolve("later"));
    source.then(resolve, reject);
    try {
      const settled = await promise;
      if (settled === "later") return "later";
      this.#next = undefined;
      if (settled.done === true)
        throw new RunError("model_protocol", { message: "The model's stream ended without a completion." });
      return settled.value;
    } finally {
      cancelTimer?.();
    }
  }

  /** Lets go of the stream; what it still does, or throws, is nobody's. */
  close(): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#next?.catch(() => undefined);
    this.#iterator.return?.().catch(() => undefined);
  }
}
