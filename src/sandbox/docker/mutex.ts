/** Lets one operation in at a time, in the order of arrival. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  /** @throws What the operation throws; `signal.reason` where the signal aborts before its turn. */
  async run<T>(signal: AbortSignal | undefined, operation: () => Promise<T>): Promise<T> {
    signal?.throwIfAborted();
    const turn = this.#last.then(async () => {
      signal?.throwIfAborted();
      return operation();
    });
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}
