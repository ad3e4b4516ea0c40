import { atMost, compare, percentile, spread, type Figure, type Scale } from "./measure.ts";
import type { DriverCommand } from "./peers/skilldock-driver.ts";
import { openWholePath } from "./whole-path.ts";

const GOAL_P99_MS = 50;

/** From `enqueue` to the moment that a follower has `run.started`, idle, against `add` to the start on plain BullMQ. */
export async function benchLatency(scale: Scale): Promise<readonly Figure[]> {
  await using parts = new AsyncDisposableStack();
  const ours = await openWholePath(parts, { side: "skilldock", concurrency: 16 });
  const plain = await openWholePath(parts, { side: "plain", concurrency: 16 });
  const command: DriverCommand = { kind: "idle", runs: scale.size(120), inFlight: 1 };
  const samples = { ours: new Samples(), plain: new Samples() };
  const compared = await compare(scale, {
    ours: async () => samples.ours.add((await ours.drive(command)).latenciesMs),
    baseline: async () => {
      await plain.drive(command);
      return samples.plain.add(await plain.worker.call<readonly number[]>({}));
    },
  });
  const [ourP99, plainP99] = [spread(samples.ours.p99s), spread(samples.plain.p99s)];
  return [
    {
      ...compared,
      name: "enqueue to run.started at a follower, idle, p50",
      unit: "ms",
      baselineName: "plain BullMQ, add to start of the job",
      goals: [atMost(compared.ratio, 2.5)],
    },
    {
      name: "enqueue to run.started at a follower, idle, p99",
      unit: "ms",
      ours: ourP99,
      baseline: plainP99,
      ratio: spread(samples.ours.p99s.map((p99, index) => p99 / (samples.plain.p99s[index] ?? NaN))),
      baselineName: "plain BullMQ, add to start of the job",
      goals: [{ text: `≤ ${GOAL_P99_MS} ms`, met: ourP99.median <= GOAL_P99_MS }],
    },
  ];
}

class Samples {
  readonly #p99s: number[] = [];

  /** Without the warm-up. */
  get p99s(): readonly number[] {
    return this.#p99s.slice(1);
  }

  /** @returns The median. */
  add(latenciesMs: readonly number[]): number {
    const sorted = latenciesMs.toSorted((a, b) => a - b);
    this.#p99s.push(percentile(sorted, 0.99));
    return percentile(sorted, 0.5);
  }
}
