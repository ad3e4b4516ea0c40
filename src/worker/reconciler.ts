import type { Logger } from "pino";
import { RunError } from "../shared/errors.ts";
import { buildWaitingEnd } from "../shared/run-log/waiting-end.ts";
import type { ExpiredGrant, ExpiredWait, RunLog, SweepReply } from "../shared/run-log/run-log.ts";
import type { RunQueue } from "./queue.ts";

/** Findings of one pass that are handled; the rest waits for the next. */
const SWEEP_LIMIT = 100;

export interface ReconcilerOptions {
  readonly log: RunLog;
  readonly queue: Pick<RunQueue, "add" | "holds">;
  readonly logger: Logger;
  readonly intervalMs: number;
  /** Told what each pass saw. */
  readonly onSwept: (swept: SweepReply) => void;
  /** Told of each run that was ended because it waited too long. */
  readonly onExpired: () => void;
}

/**
 * Heals what a crash between two steps left behind. Every worker runs one; no leader is needed, since each finding
 * is taken by one of them and every repair may be repeated.
 *
 *     finding                                        repair
 *     granted, but no job will deliver it            its job is added again, under the same id
 *     running, lease over, no job will deliver it    a new grant, and its job
 *     waited longer than its maxQueueWaitMs          ended as timed_out / queue_expired
 *     waiting in a backlog with room to run          granted, and its job added
 */
export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #pass: Promise<void> | undefined;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#stop.signal.aborted || this.#timer !== undefined) return;
    this.#timer = setInterval(() => {
      this.#pass ??= this.pass()
        .catch((error: unknown) => this.#report(error))
        .finally(() => (this.#pass = undefined));
    }, this.#options.intervalMs);
  }

  /** Stops, and waits for the pass that runs. Safe before start and twice. */
  async stop(): Promise<void> {
    this.#stop.abort();
    clearInterval(this.#timer);
    await this.#pass;
  }

  /** One pass. @throws {RunError} `redis_unavailable`. */
  async pass(): Promise<void> {
    const { log, queue, onSwept } = this.#options;
    await queue.add(await log.grant());
    const swept = await log.sweep({ limit: SWEEP_LIMIT });
    onSwept(swept);
    for (const expired of swept.grants) {
      if (this.#stop.signal.aborted) return;
      await this.#repairGrant(expired);
    }
    for (const expired of swept.waits) {
      if (this.#stop.signal.aborted) return;
      await this.#endWait(expired);
    }
  }

  async #repairGrant(expired: ExpiredGrant): Promise<void> {
    const { log, queue, logger } = this.#options;
    if (await queue.holds(expired)) return;
    const { tenantId, runId, state } = expired;
    const grant = state === "queued" ? expired : await log.regrant(expired);
    if (grant === undefined) return;
    await queue.add([grant]);
    // A job that failed keeps its id: adding it again is answered and does nothing. Then a new grant is needed.
    const replaced = (await queue.holds(grant)) ? undefined : await log.regrant(grant);
    if (replaced !== undefined) await queue.add([replaced]);
    logger.warn(
      { tenantId, runId, state, grant: (replaced ?? grant).grant },
      "run without a job was put on the queue again",
    );
  }

  async #endWait(expired: ExpiredWait): Promise<void> {
    const { log, queue, logger } = this.#options;
    const { tenantId, runId, queuedAt } = expired;
    const now = await log.now();
    const terminal = buildWaitingEnd({ run: { tenantId, runId }, queuedAt, now, state: "timed_out" });
    const reply = await log.endWaiting({ tenantId, runId }, { terminal, state: "timed_out" });
    if (reply.kind !== "ended") return;
    this.#options.onExpired();
    await queue.add(reply.grants);
    logger.warn({ tenantId, runId }, "run waited longer than its limit and was ended");
  }

  #report(error: unknown): void {
    const away = error instanceof RunError && error.code === "redis_unavailable";
    this.#options.logger[away ? "warn" : "error"](
      { err: error },
      "reconciliation pass failed; the next one tries again",
    );
  }
}
