import type { Job, Queue, Worker } from "bullmq";
import type { Redis } from "ioredis";
import { RunError } from "../shared/errors.ts";
import { jobId, lanePrefix, QUEUE_NAME } from "../shared/redis/keys.ts";
import type { Grant } from "../shared/run-log/run-log.ts";
import { within } from "../shared/within.ts";

/**
 * The worker's side of BullMQ: what may run now comes from here. It is at-least-once: one job may be delivered twice,
 * also at once, and the first is not told. The run log's epoch decides who may write.
 */
export interface RunQueue {
  /** Puts grants on the queue; one that stands there already is left as it is. */
  add(grants: readonly Grant[]): Promise<void>;
  /** Whether the grant's job will still be delivered, or is being worked on. */
  holds(grant: Grant): Promise<boolean>;
  /** Takes jobs with a new BullMQ worker: the one before has gone silent. */
  rebuild(): void;
  /** Takes no more jobs. Resolves when those being worked on are done; never while Redis is away. */
  drain(): Promise<void>;
  /** Lets go of everything, at once. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface RunQueueOptions {
  readonly lane: number;
  /** Plain commands. */
  readonly redis: Redis;
  /** Duplicated by BullMQ for its blocking reads; retries for ever. */
  readonly workerRedis: Redis;
  readonly concurrency: number;
  readonly lockDurationMs: number;
  readonly stalledIntervalMs: number;
  /**
   * @returns `put_back` to have the job delivered again. What it throws leaves the run to the reconciler.
   */
  readonly deliver: (grant: Grant, job: string) => Promise<"done" | "put_back">;
  readonly onLocksRenewed: (jobIds: readonly string[]) => void;
  readonly onLocksLost: (jobIds: readonly string[]) => void;
  readonly onError: (error: Error) => void;
}

interface JobData extends Grant {
  readonly lane: number;
}

/** Jobs whose delivery broke off: kept as failed this long, so that the sweep finds what became of them. */
const FAILED_JOBS_KEPT = 1_000;
const CLOSE_MS = 1_500;
const REST_MS = 1_000;
const HELD_STATES: ReadonlySet<string> = new Set(["waiting", "active", "delayed", "prioritized", "waiting-children"]);

export async function openRunQueue(options: RunQueueOptions): Promise<RunQueue> {
  const bullmq = await import("bullmq");
  const prefix = lanePrefix(options.lane);
  const queue: Queue<JobData> = new bullmq.Queue(QUEUE_NAME, {
    connection: options.redis,
    prefix,
    // The check is one INFO at the beginning: where that fails once, the queue would fail for ever.
    skipVersionCheck: true,
  });
  const open = (): Worker<JobData> =>
    listen(
      new bullmq.Worker<JobData>(
        QUEUE_NAME,
        async (job, token) => {
          if ((await options.deliver(toGrant(job), job.id ?? "")) === "done") return;
          await job.moveToWait(token);
          throw new bullmq.WaitingError();
        },
        {
          connection: options.workerRedis,
          prefix,
          concurrency: options.concurrency,
          lockDuration: options.lockDurationMs,
          stalledInterval: options.stalledIntervalMs,
          maxStalledCount: 10,
          // A wake-up that went to a dying worker is made up for after this many seconds.
          drainDelay: 2,
          runRetryDelay: REST_MS,
          removeOnComplete: { count: 0 },
          removeOnFail: { count: FAILED_JOBS_KEPT },
        },
      ),
      options,
    );
  let worker = open();
  queue.on("error", options.onError);
  return {
    async add(grants) {
      for (const grant of grants) await addGrant(queue, options.lane, grant);
    },
    async holds(grant) {
      const state = await queue.getJobState(jobId(grant.tenantId, grant.runId, grant.grant));
      return HELD_STATES.has(state);
    },
    rebuild() {
      // Not by force: what it still works on keeps its locks until it is done.
      void worker.close().catch(options.onError);
      worker = open();
    },
    async drain() {
      await worker.close();
    },
    async [Symbol.asyncDispose]() {
      await within(CLOSE_MS, Promise.allSettled([worker.close(true), queue.close()]));
      // What waits for Redis to come back never ends by itself.
      await within(CLOSE_MS, worker.disconnect());
    },
  };
}

function listen(worker: Worker<JobData>, options: RunQueueOptions): Worker<JobData> {
  worker.on("locksRenewed", ({ jobIds }) => options.onLocksRenewed(jobIds));
  worker.on("lockRenewalFailed", (jobIds) => options.onLocksLost(jobIds));
  worker.on("failed", (_job, error) => options.onError(error));
  worker.on("error", (error) => {
    options.onError(error);
    if (error.name === "ReplyError") rest(worker, options);
  });
  return worker;
}

/**
 * Lets a worker take nothing for a second. While Redis answers but refuses (out of memory, read-only, a foreign key), it
 * would ask again at once, without end.
 */
function rest(worker: Worker<JobData>, options: RunQueueOptions): void {
  if (worker.isPaused() || worker.closing !== undefined) return;
  worker.pause(true).catch(options.onError);
  const timer = setTimeout(() => void worker.resume(), REST_MS);
  worker.once("closing", () => clearTimeout(timer));
}

async function addGrant(queue: Queue<JobData>, lane: number, grant: Grant): Promise<void> {
  const { tenantId, runId } = grant;
  await queue.add(
    "run",
    { lane, tenantId, runId, grant: grant.grant },
    { jobId: jobId(tenantId, runId, grant.grant), attempts: 1, removeOnComplete: true, removeOnFail: FAILED_JOBS_KEPT },
  );
}

function toGrant(job: Job<JobData>): Grant {
  const { tenantId, runId, grant } = job.data;
  if (typeof tenantId !== "string" || typeof runId !== "string" || typeof grant !== "number") {
    throw new RunError("internal", { message: "A job on the queue is not one of ours." });
  }
  return { tenantId, runId, grant };
}
