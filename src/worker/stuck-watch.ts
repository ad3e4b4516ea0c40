import type { Clock } from "../shared/clock.ts";

/** Runs wait, there is room, and none was taken for this long: something is wrong with the queue's connection. */
const STUCK_AFTER_MS = 60_000;

/**
 * Notices a worker that lives but takes nothing.
 *
 *     serving → stuck (first time: rebuild) → stuck again (give up) ; any run taken → serving
 */
export class StuckWatch {
  readonly #options: {
    readonly concurrency: number;
    readonly active: { readonly size: number };
    readonly clock: Pick<Clock, "monotonic">;
  };
  #since: number | undefined;
  #times = 0;
  /** Called each time the worker has been stuck for a minute. */
  onStuck: (stuck: { readonly again: boolean }) => void = () => undefined;

  constructor(options: {
    readonly concurrency: number;
    readonly active: { readonly size: number };
    readonly clock: Pick<Clock, "monotonic">;
  }) {
    this.#options = options;
  }

  get stuck(): boolean {
    return this.#times > 0;
  }

  tookOne(): void {
    this.#since = undefined;
    this.#times = 0;
  }

  /** @param waiting Runs that no attempt holds, as the last sweep saw them. */
  sawWaiting(waiting: number): void {
    const now = this.#options.clock.monotonic();
    const hungry = waiting > 0 && this.#options.active.size < this.#options.concurrency;
    if (!hungry) {
      this.#since = undefined;
      return;
    }
    this.#since ??= now;
    if (now - this.#since < STUCK_AFTER_MS) return;
    this.#since = now;
    this.#times++;
    this.onStuck({ again: this.#times > 1 });
  }
}
