import type { Logger } from "pino";
import type { RunLog } from "../shared/run-log/run-log.ts";
import type { ActiveRun } from "./active-run.ts";

export interface LeaseKeeperOptions {
  readonly log: RunLog;
  readonly active: ReadonlyMap<string, ActiveRun>;
  readonly logger: Logger;
  /** At most 1,000: how long a cancel, or the loss of a run, may go unnoticed in a silent call. */
  readonly intervalMs: number;
}

/**
 * Once a second: stops runs whose lock is in doubt, prolongs the leases of all others in one round trip, and passes on
 * what the replies say (cancelled, fenced).
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), this.#options.intervalMs);
  }

  /** Safe before start and twice. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#renewing;
  }

  #tick(): void {
    const now = performance.now();
    for (const run of this.#options.active.values()) run.checkLock(now);
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined));
  }

  async #renew(): Promise<void> {
    const { log, active, logger } = this.#options;
    const runs = [...active.values()].filter((run) => !run.writeSignal.aborted);
    if (runs.length === 0) return;
    try {
      const replies = await log.renew(runs.map((run) => run.owner));
      for (const [index, reply] of replies.entries()) {
        const run = runs[index];
        if (reply.kind !== "renewed") {
          // A run that has just ended is closed, and no longer among the active ones.
          if (run !== undefined && active.get(run.jobId) === run) run.fence();
        } else if (reply.cancel !== undefined) run?.cancel(reply.cancel.reason);
      }
    } catch (error) {
      logger.warn({ err: error }, "leases could not be renewed; the locks decide");
    }
  }
}
