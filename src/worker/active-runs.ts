import type { RunRef } from "../shared/run-log/run-log.ts";
import type { ActiveRun } from "./active-run.ts";

/** The runs that this process executes now, or is about to: one attempt of a run at a time. */
export class ActiveRuns implements Iterable<ActiveRun> {
  /** By run: resolves when its place is free again. */
  readonly #taken = new Map<string, PromiseWithResolvers<void>>();
  readonly #byRun = new Map<string, ActiveRun>();

  get size(): number {
    return this.#taken.size;
  }

  /**
   * Takes the run's place, before anything is asked about it; waits until it is free. Pair it with `release`.
   *
   * @returns Whether it had to wait.
   */
  async reserve(run: RunRef): Promise<{ readonly waited: boolean }> {
    const key = keyOf(run);
    let waited = false;
    for (let taken = this.#taken.get(key); taken !== undefined; taken = this.#taken.get(key)) {
      waited = true;
      await taken.promise;
    }
    this.#taken.set(key, Promise.withResolvers());
    return { waited };
  }

  add(active: ActiveRun): void {
    this.#byRun.set(keyOf(active.owner), active);
  }

  release(run: RunRef): void {
    const key = keyOf(run);
    const taken = this.#taken.get(key);
    this.#byRun.delete(key);
    this.#taken.delete(key);
    taken?.resolve();
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
