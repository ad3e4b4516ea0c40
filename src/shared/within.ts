/** Waits for `work`, but no longer than `ms`. What it throws is left to whoever began it. */
export async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([work, late]);
  } catch {
    // Whoever began the work reports its failure.
  } finally {
    clearTimeout(timer);
  }
}
