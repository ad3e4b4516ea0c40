/** A controller that also aborts, for the same reason, when another signal does. */
export interface LinkedAbort {
  readonly signal: AbortSignal;
  abort(reason: Error): void;
  /** Lets go of the other signal: its abort is not seen any more. May be called twice. */
  release(): void;
}

/** As `AbortSignal.any` of a new controller and `signal`, at a quarter of its cost; has to be released. */
export function linkAbort(signal: AbortSignal): LinkedAbort {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    release: () => signal.removeEventListener("abort", onAbort),
  };
}
