/**
 * The deadlines of one model call, and its only abort signal.
 *
 * States: connecting (until the response's headers) → waiting for bytes ⇄ at rest (the reader has no read pending) →
 * over (expired, aborted by the caller, or closed). At rest only the total deadline runs: a slow reader is not silence
 * of the server.
 */
import type { Clock } from "../../shared/clock.ts";
import { RunError } from "../../shared/errors.ts";
import type { ChatFailure } from "./chat-errors.ts";

/** Milliseconds each. */
export interface ChatTimeouts {
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly totalTimeoutMs: number;
}

type Phase = "connect" | "idle";

export class ChatDeadlines {
  readonly #timeouts: ChatTimeouts;
  readonly #clock: Clock;
  readonly #caller: AbortSignal;
  readonly #controller = new AbortController();
  readonly #endsAt: number;
  readonly #cancelTotal: () => void;
  #expired: RunError | undefined;
  #waiting: { readonly phase: Phase; readonly until: number } | undefined;
  #timer: { readonly at: number; readonly cancel: () => void } | undefined;

  constructor(timeouts: ChatTimeouts, clock: Clock, caller: AbortSignal) {
    this.#timeouts = timeouts;
    this.#clock = clock;
    this.#caller = caller;
    this.#endsAt = clock.monotonic() + timeouts.totalTimeoutMs;
    this.#cancelTotal = clock.after(timeouts.totalTimeoutMs, () =>
      this.#expire("total_timeout", timeouts.totalTimeoutMs),
    );
    if (caller.aborted) this.#controller.abort(caller.reason);
    else caller.addEventListener("abort", this.#onCallerAbort, { once: true });
  }

  /** Aborted with the expiry's error when a deadline has passed, with the caller's reason when the caller has aborted. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Until the total deadline. */
  get leftMs(): number {
    return this.#endsAt - this.#clock.monotonic();
  }

  /** The deadline that has passed, if one has. */
  get expiry(): ChatFailure | undefined {
    return this.#expired === undefined ? undefined : { error: this.#expired, retry: false };
  }

  /** @throws The caller's reason. */
  throwIfAborted(): void {
    this.#caller.throwIfAborted();
  }

  /** @throws The caller's reason, or `model_unavailable` for a deadline that has passed. */
  throwIfOver(): void {
    this.#caller.throwIfAborted();
    if (this.#expired !== undefined) throw this.#expired;
  }

  beginConnect(): void {
    this.#wait("connect", this.#timeouts.connectTimeoutMs);
  }

  beginRead(): void {
    this.#wait("idle", this.#timeouts.idleTimeoutMs);
  }

  rest(): void {
    this.#waiting = undefined;
  }

  /** Lets go of timers and of the caller's signal; an abort is not seen any more. May be called twice. */
  close(): void {
    this.#waiting = undefined;
    this.#caller.removeEventListener("abort", this.#onCallerAbort);
    this.#cancelTotal();
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  readonly #onCallerAbort = (): void => this.#controller.abort(this.#caller.reason);

  /** One timer serves many reads: it is set anew only when it fires early, or would fire late. */
  #wait(phase: Phase, ms: number): void {
    const until = this.#clock.monotonic() + ms;
    this.#waiting = { phase, until };
    if (this.#timer === undefined || this.#timer.at > until) this.#arm(until, ms);
  }

  #arm(at: number, ms: number): void {
    this.#timer?.cancel();
    this.#timer = { at, cancel: this.#clock.after(Math.ceil(ms), () => this.#onTimer()) };
  }

  #onTimer(): void {
    this.#timer = undefined;
    if (this.#waiting === undefined) return;
    const { phase, until } = this.#waiting;
    const leftMs = until - this.#clock.monotonic();
    if (leftMs > 0) this.#arm(until, leftMs);
    else if (phase === "connect") this.#expire("connect_timeout", this.#timeouts.connectTimeoutMs);
    else this.#expire("idle_timeout", this.#timeouts.idleTimeoutMs);
  }

  #expire(reason: "connect_timeout" | "idle_timeout" | "total_timeout", afterMs: number): void {
    this.#expired ??= new RunError("model_unavailable", { details: { reason, afterMs } });
    this.#controller.abort(this.#expired);
  }
}
