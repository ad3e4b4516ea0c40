import type { RunRef } from "../shared/run-log/run-log.ts";
import type { ActiveRun } from "./active-run.ts";

/** The runs that this process executes now, or is about to: one attempt of a run at a time. */
export class ActiveRuns implements Iterable<ActiveRun> {
  readonly #reserved = new Set<string>();
  readonly #byRun = new Map<string, ActiveRun>();

  get size(): number {
    return this.#reserved.size;
  }

  /** Takes the run's place, before anything is asked about it. @returns false where it is taken. */
  reserve(run: RunRef): boolean {
    const key = keyOf(run);
    if (this.#reserved.has(key)) return false;
    this.#reserved.add(key);
    return true;
  }

  add(active: ActiveRun): void {
    this.#byRun.set(keyOf(active.owner), active);
  }

  release(run: RunRef): void {
    this.#byRun.delete(keyOf(run));
    this.#reserved.delete(keyOf(run));
  }

  has(active: ActiveRun): boolean {
    return this.#byRun.get(keyOf(active.owner)) === active;
  }

  byJob(jobId: string): ActiveRun | undefined {
    for (const active of this) if (active.jobId === jobId) return active;
    return undefined;
  }

  [Symbol.iterator](): IterableIterator<ActiveRun> {
    return this.#byRun.values();
  }
}

function keyOf(run: RunRef): string {
  return `${run.tenantId}/${run.runId}`;
}
