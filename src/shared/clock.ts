/** Time as the executor sees it: a port, so that tests step it by hand. */
export interface Clock {
  /** Milliseconds since the epoch, UTC. */
  now(): number;
  /** Milliseconds of a clock that never goes back. */
  monotonic(): number;
  /** Calls back once after `ms`. The returned function takes it back; calling it late or twice does nothing. */
  after(ms: number, callback: () => void): () => void;
}

const MAX_TIMER_MS = 2_147_483_647;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(0, ms), MAX_TIMER_MS));
    return () => clearTimeout(timer);
  },
};

/** A clock that shows the time of another machine. @param offsetMs How far that one is ahead. */
export function shiftedClock(clock: Clock, offsetMs: number): Clock {
  return {
    now: () => clock.now() + offsetMs,
    monotonic: () => clock.monotonic(),
    after: (ms, callback) => clock.after(ms, callback),
  };
}

/** ISO 8601 UTC with milliseconds. */
export function toIsoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
