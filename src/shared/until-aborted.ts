/**
 * Waits for `work`, but rejects with the signal's reason as soon as it aborts. What `work` does afterwards is nobody's.
 *
 * @throws `signal.reason`; whatever `work` rejects with.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason as Error); // whoever aborts here gives an Error
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
