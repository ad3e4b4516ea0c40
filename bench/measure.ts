/** How two things are compared: in turns, so that whatever else the machine does meets both alike. */

/** How much is measured. */
export interface Scale {
  /** Pairs of measurements that count. */
  readonly repeats: number;
  /** How often something is done in one measurement, given how often in a full run. */
  readonly size: (full: number) => number;
}

export const FULL: Scale = { repeats: 7, size: (full) => full };
/** Shows that everything works, and measures nothing worth reading. */
export const QUICK: Scale = { repeats: 2, size: (full) => Math.max(8, Math.ceil(full / 60)) };

export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

export interface Comparison {
  readonly ratio: Spread;
  readonly ours: Spread;
  readonly baseline: Spread;
}

/** One line of the table. */
export interface Figure extends Comparison {
  readonly name: string;
  readonly baselineName: string;
  readonly unit: string;
  readonly goals: readonly Goal[];
  /** What stands behind the figure. */
  readonly notes?: readonly string[];
}

export interface Goal {
  readonly text: string;
  readonly met: boolean;
}

/**
 * Measures A B A B …; the first pair warms up and does not count.
 *
 * @returns Ratios of each pair, and both series by themselves.
 */
export async function compare(
  scale: Scale,
  sides: { readonly ours: () => Promise<number>; readonly baseline: () => Promise<number> },
): Promise<Comparison> {
  await sides.ours();
  await sides.baseline();
  const ours: number[] = [];
  const baseline: number[] = [];
  while (ours.length < scale.repeats) {
    ours.push(checked(await sides.ours()));
    baseline.push(checked(await sides.baseline()));
  }
  return {
    ratio: spread(ours.map((value, index) => value / (baseline[index] ?? NaN))),
    ours: spread(ours),
    baseline: spread(baseline),
  };
}

export function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  return { median: percentile(sorted, 0.5), least: percentile(sorted, 0), most: percentile(sorted, 1) };
}

/** @param sorted Ascending, not empty. */
export function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  if (value === undefined) throw new Error("nothing was measured");
  return value;
}

export function atLeast(ratio: Spread, goal: number): Goal {
  return { text: `≥ ${goal} ×`, met: ratio.median >= goal };
}

export function atMost(ratio: Spread, goal: number): Goal {
  return { text: `≤ ${goal} ×`, met: ratio.median <= goal };
}

/** Does `work` for each number below `count`, at most `inFlight` at once. @throws The first failure, at the end. */
export async function inParallel(
  count: number,
  inFlight: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: Math.min(inFlight, count) }, lane));
}

function checked(value: number): number {
  if (!Number.isFinite(value) || value <= 0) throw new Error(`measured ${value}`);
  return value;
}
