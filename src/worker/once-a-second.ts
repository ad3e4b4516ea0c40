/**
 * Passes errors on, but each message at most once a second: an outage must not fill a disk.
 *
 * @param report Also told how many of the same message were held back since the last time.
 */
export function onceASecond(report: (error: Error, more: number) => void): (error: Error) => void {
  const seen = new Map<string, { at: number; more: number }>();
  return (error) => {
    const now = performance.now();
    const last = seen.get(error.message);
    if (last !== undefined && now - last.at < 1_000) {
      last.more++;
      return;
    }
    if (seen.size >= MAX_MESSAGES) seen.clear();
    seen.set(error.message, { at: now, more: 0 });
    report(error, last?.more ?? 0);
  };
}

const MAX_MESSAGES = 100;
