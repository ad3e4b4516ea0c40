import type { Logger } from "pino";
import type { RunLog } from "../shared/run-log/run-log.ts";
import type { ActiveRuns } from "./active-runs.ts";

export interface LeaseKeeperOptions {
  readonly log: RunLog;
  readonly active: ActiveRuns;
  readonly logger: Logger;
  /** How often locks are looked at. */
  readonly checkMs: number;
  /** At most 1,000: how long a cancel, or the loss of a run, may go unnoticed in a silent call. */
  readonly renewMs: number;
}

/**
 * Stops runs whose lock is in doubt; once a second prolongs the leases of all others in one round trip, and passes on what
 * the replies say (cancelled, fenced).
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions;
  #timer: NodeJS.Timeout | undefined;
  #renewing: Promise<void> | undefined;
  #renewedAt = 0;

  constructor(options: LeaseKeeperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer ??= setInterval(() => this.#tick(), this.#options.checkMs);
  }

  /** Safe before start and twice. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    await this.#renewing;
  }

  #tick(): void {
    const now = performance.now();
    for (const run of this.#options.active) run.checkLock(now);
    if (now - this.#renewedAt < this.#options.renewMs) return;
    this.#renewedAt = now;
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined));
  }

  async #renew(): Promise<void> {
    const { log, active, logger } = this.#options;
    const runs = [...active].filter((run) => !run.writeSignal.aborted);
    if (runs.length === 0) return;
    try {
      const replies = await log.renew(runs.map((run) => run.owner));
      for (const [index, reply] of replies.entries()) {
        const run = runs[index];
        if (run === undefined || !active.has(run)) continue;
        if (reply.kind === "renewed") {
          if (reply.cancel !== undefined) run.cancel(reply.cancel.reason);
        } else if (reply.kind === "fenced" || !run.finishing) run.fence();
      }
    } catch (error) {
      logger.warn({ err: error }, "leases could not be renewed; the locks decide");
    }
  }
}
