import { atMost, compare, type Figure, type Scale } from "./measure.ts";
import type { ModelServerReady } from "./fake-model-server.ts";
import { startPeer } from "./peer.ts";
import type { DriverCommand } from "./peers/skilldock-driver.ts";
import { driveAndCharge, openWholePath, Shares, totalMs } from "./whole-path.ts";

const IN_FLIGHT = 16;

/** CPU of a streaming run over the whole path, in all processes but the model's, against the naive BullMQ job. */
export async function benchPath(scale: Scale): Promise<readonly Figure[]> {
  await using parts = new AsyncDisposableStack();
  const server = await startPeer<ModelServerReady>(new URL("./fake-model-server.ts", import.meta.url), {});
  parts.use(server);
  const ours = await openWholePath(parts, { side: "skilldock", concurrency: IN_FLIGHT, model: server.ready });
  const naive = await openWholePath(parts, { side: "plain", concurrency: IN_FLIGHT, model: server.ready });
  const command: DriverCommand = { kind: "follow", runs: scale.size(300), inFlight: IN_FLIGHT };
  const shares = { ours: new Shares(), naive: new Shares() };
  const compared = await compare(scale, {
    ours: async () => totalMs(await driveAndCharge(ours, command, shares.ours)),
    baseline: async () => totalMs(await driveAndCharge(naive, command, shares.naive)),
  });
  return [
    {
      ...compared,
      name: `CPU of a streaming run over the whole path, producer to follower, ${IN_FLIGHT} at once`,
      unit: "ms/run",
      baselineName: "naive BullMQ job: openai loop, an awaited XADD for each event, a subscriber",
      goals: [atMost(compared.ratio, 0.5)],
      notes: [`CPU a run: skilldock ${shares.ours.describe()}; baseline ${shares.naive.describe()}`],
    },
  ];
}
