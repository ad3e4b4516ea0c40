import type { Clock } from "../../shared/clock.ts";

/**
 * Waits `ms`, or until `signal` aborts. Leaves neither timer nor listener behind.
 *
 * @param ms Infinity waits for the abort alone.
 * @throws The signal's reason, at once when it is aborted already.
 */
export function wait(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (signal.aborted) {
    reject(signal.reason as Error); // whatever the caller aborted with is thrown as it is
    return promise;
  }
  const onAbort = (): void => {
    cancelTimer?.();
    reject(signal.reason as Error); // as above
  };
  const cancelTimer =
    ms === Infinity
      ? undefined
      : clock.after(ms, () => {
          signal.removeEventListener("abort", onAbort);
          resolve();
        });
  signal.addEventListener("abort", onAbort, { once: true });
  return promise;
}
