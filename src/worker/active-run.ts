import type { RunOwner } from "../shared/run-log/run-log.ts";
import { RunInterrupt } from "./executor/execution.ts";

/**
 * A run that this process executes now, and the fence that the process keeps by itself.
 *
 *     live → cancelled | fenced | lock_lost | handed_over      (the first one wins; a cancelled run may still lose its pen)
 *
 * A1 The lock's deadline is on the monotonic clock and is only prolonged by a confirmed renewal.
 * A2 Past the deadline the run counts as taken over: nothing more is started or written.
 */
export class ActiveRun {
  readonly owner: RunOwner;
  readonly jobId: string;
  readonly #lockMs: number;
  readonly #interrupt = new AbortController();
  readonly #write = new AbortController();
  #deadline: number;
  readonly settled: Promise<void>;
  readonly settle: () => void;
  /** Its last write is under way: that the log then calls it closed is its own doing. */
  finishing = false;

  /** @param options.lockMs How long a confirmed lock is trusted: the lock's duration less a margin. */
  constructor(options: {
    readonly owner: RunOwner;
    readonly jobId: string;
    readonly lockMs: number;
    /** Monotonic ms at which the job was delivered: its lock is no younger. */
    readonly deliveredAt: number;
  }) {
    this.owner = options.owner;
    this.jobId = options.jobId;
    this.#lockMs = options.lockMs;
    this.#deadline = options.deliveredAt + options.lockMs;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.settled = promise;
    this.settle = resolve;
  }

  /** Aborts when the run is to stop, for whatever reason. */
  get signal(): AbortSignal {
    return this.#interrupt.signal;
  }

  /** Aborts when this attempt may not write any more; a cancelled one still writes its end. */
  get writeSignal(): AbortSignal {
    return this.#write.signal;
  }

  /** A renewal was confirmed at `now` (monotonic ms). One that comes after the deadline comes too late. */
  lockRenewed(now: number): void {
    this.checkLock(now);
    this.#deadline = now + this.#lockMs;
  }

  /** Stops the run where its lock's deadline has passed. */
  checkLock(now: number): void {
    if (now > this.#deadline) this.loseLock();
  }

  /** The lock is gone, or not known to be there: another attempt may begin at any time. */
  loseLock(): void {
    this.#stop(new RunInterrupt("lock_lost"));
  }

  cancel(reason: string | undefined): void {
    this.#interrupt.abort(new RunInterrupt("cancelled", reason));
  }

  /** The log said that another attempt owns the run, or that it has ended. */
  fence(): void {
    this.#stop(new RunInterrupt("fenced"));
  }

  handOver(): void {
    this.#stop(new RunInterrupt("handed_over"));
  }

  #stop(interrupt: RunInterrupt): void {
    this.#write.abort(interrupt);
    this.#interrupt.abort(interrupt);
  }
}
