import type { Logger } from "pino";
import type { RunQueue } from "./queue.ts";
import type { RunWorker } from "./run-worker.ts";
import { within } from "../shared/within.ts";

/** Bounds of the steps of a close, in ms. With the grace they are all that it may take. */
const CLOSE_STEP_MS = 2_000;
const HAND_OVER_MS = 4_000;
const LET_GO_MS = 5_000;

/** Something that runs beside the runs. */
export interface Loop {
  stop(): Promise<void>;
}

/**
 * Closes a worker: no more repairs, no more jobs, runs may finish within the grace, the rest is handed over, then
 * everything is let go of. No step waits longer than its bound, also while Redis is away.
 */
export async function drainWorker(own: {
  readonly graceMs: number;
  readonly runs: RunWorker;
  readonly queue: RunQueue;
  readonly loops: { readonly reconciler: Loop; readonly leases: Loop; readonly containers: Loop };
  readonly parts: AsyncDisposableStack;
  readonly logger: Logger;
}): Promise<{ readonly handedOver: number }> {
  const { runs, queue, loops, parts, logger } = own;
  await Promise.all([within(CLOSE_STEP_MS, loops.reconciler.stop()), loops.containers.stop()]);
  const drained = queue.drain().catch((error: unknown) => logger.warn({ err: error }, "queue did not close cleanly"));
  await within(own.graceMs, drained);
  const left = runs.handOverAll();
  if (left.length > 0) {
    logger.warn({ runs: left.length }, "grace is over: handing runs over");
    await within(HAND_OVER_MS, Promise.all([drained, ...left.map((run) => run.settled)]));
  }
  await within(CLOSE_STEP_MS, loops.leases.stop());
  await within(LET_GO_MS, parts.disposeAsync());
  return { handedOver: left.length };
}
