import type { Queue } from "bullmq";
import type { Redis } from "ioredis";
import { jobId, lanePrefix, QUEUE_NAME } from "../shared/redis/keys.ts";
import type { Grant } from "../shared/run-log/run-log.ts";

/** What a job holds: where its run is to be found, and nothing of the run itself. */
interface JobData extends Grant {
  readonly lane: number;
}

/** The producer's side of BullMQ: what may run now is put here. */
export interface GrantQueue {
  /** Puts a grant on the queue; one that stands there already is left as it is. */
  add(grant: Grant): Promise<void>;
  /** Takes a grant off the queue, where no worker holds it yet. */
  remove(grant: Grant): Promise<void>;
  /** Lets go, at once. */
  close(): Promise<void>;
}

/** Broken-off jobs are kept so long for the sweep to see; the worker's queue keeps as many. */
const FAILED_JOBS_KEPT = 1_000;

/** Loads BullMQ, which takes a while: worth beginning while something else is waited for. */
export async function loadQueue(): Promise<void> {
  await import("bullmq");
}

/**
 * Opens the queue of a lane. BullMQ is loaded here, and not before.
 *
 * @param options.redis Used, not owned.
 * @param options.onError Told of what goes wrong in the background.
 */
export async function openGrantQueue(options: {
  readonly lane: number;
  readonly redis: Redis;
  readonly onError: (error: Error) => void;
}): Promise<GrantQueue> {
  const { lane } = options;
  const bullmq = await import("bullmq");
  const queue: Queue<JobData> = new bullmq.Queue(QUEUE_NAME, {
    connection: options.redis,
    prefix: lanePrefix(lane),
    // The check is one INFO at the beginning: where that fails once, the queue would fail for ever.
    skipVersionCheck: true,
  });
  queue.on("error", options.onError);
  return {
    async add({ tenantId, runId, grant }) {
      await queue.add(
        "run",
        { lane, tenantId, runId, grant },
        { jobId: jobId(tenantId, runId, grant), attempts: 1, removeOnComplete: true, removeOnFail: FAILED_JOBS_KEPT },
      );
    },
    async remove({ tenantId, runId, grant }) {
      await queue.remove(jobId(tenantId, runId, grant));
    },
    close: () => queue.close(),
  };
}
