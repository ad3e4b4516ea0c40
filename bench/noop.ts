import { atLeast, compare, type Figure, type Scale } from "./measure.ts";
import type { DriverCommand } from "./peers/skilldock-driver.ts";
import { driveAndCharge, openWholePath, Shares } from "./whole-path.ts";

const CONCURRENCY = 50;

/** Runs that do nothing, through the whole path, against jobs that do nothing on plain BullMQ. */
export async function benchNoop(scale: Scale): Promise<readonly Figure[]> {
  await using parts = new AsyncDisposableStack();
  const ours = await openWholePath(parts, { side: "skilldock", concurrency: CONCURRENCY });
  const plain = await openWholePath(parts, { side: "plain", concurrency: CONCURRENCY });
  const command: DriverCommand = { kind: "flood", runs: scale.size(1_500), inFlight: CONCURRENCY };
  const shares = { ours: new Shares(), plain: new Shares() };
  const compared = await compare(scale, {
    ours: async () => command.runs / (await driveAndCharge(ours, command, shares.ours)).seconds,
    baseline: async () => command.runs / (await driveAndCharge(plain, command, shares.plain)).seconds,
  });
  return [
    {
      ...compared,
      name: `no-op runs through the whole path, one worker, concurrency ${CONCURRENCY}`,
      unit: "runs/s",
      baselineName: "plain BullMQ, no-op jobs",
      goals: [atLeast(compared.ratio, 0.25), atLeast(compared.ratio, 0.35)],
      notes: [`CPU a run: skilldock ${shares.ours.describe()}; baseline ${shares.plain.describe()}`],
    },
  ];
}
