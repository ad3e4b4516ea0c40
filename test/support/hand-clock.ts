import type { Clock } from "../../src/shared/clock.ts";

/** A clock that stands still until the test moves it. */
export class HandClock implements Clock {
  #ms = 0;
  #timers: { readonly at: number; readonly fire: () => void }[] = [];

  now(): number {
    return this.#ms;
  }

  monotonic(): number {
    return this.#ms;
  }

  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#ms + ms, fire: callback };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** How long each timer still has to run, shortest first. */
  get pending(): readonly number[] {
    return this.#timers.map((timer) => timer.at - this.#ms).toSorted((a, b) => a - b);
  }

  /** Moves on, firing on the way what is due, in order. */
  advance(ms: number): void {
    const end = this.#ms + ms;
    for (;;) {
      const next = this.#timers.filter((timer) => timer.at <= end).toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      this.#ms = next.at;
      next.fire();
    }
    this.#ms = end;
  }
}
