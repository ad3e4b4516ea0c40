import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import type { RunView } from "./run-view.ts";

/**
 * Shows a run's items as they come.
 *
 * @param options.leave When it aborts, what comes is no longer waited for.
 * @returns The result; undefined where it was left, or the items ended without one.
 */
export async function pumpRun(
  items: AsyncIterable<RunEvent | RunResult>,
  view: RunView,
  options: { readonly leave: AbortSignal },
): Promise<RunResult | undefined> {
  const { leave } = options;
  const iterator = items[Symbol.asyncIterator]();
  const { promise: left, resolve } = Promise.withResolvers<undefined>();
  const onLeave = (): void => resolve(undefined);
  leave.addEventListener("abort", onLeave, { once: true });
  if (leave.aborted) onLeave();
  try {
    for (;;) {
      const pending = iterator.next();
      const next = await Promise.race([pending, left]);
      if (next === undefined) {
        // Whoever made the items ends them; what still comes of this one is nobody's.
        pending.catch(() => undefined);
        return undefined;
      }
      if (next.done === true) return undefined;
      if (next.value.type === "result") {
        view.result(next.value);
        return next.value;
      }
      view.event(next.value);
    }
  } finally {
    leave.removeEventListener("abort", onLeave);
    view.close();
    iterator.return?.()?.catch(() => undefined);
  }
}
