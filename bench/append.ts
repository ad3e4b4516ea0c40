import { startRedis } from "../test/support/redis.ts";
import { atLeast, compare, type Figure, type Scale } from "./measure.ts";
import { startPeer } from "./peer.ts";
import type { AppendCommand, AppendReply } from "./peers/append.ts";

const PEER = new URL("./peers/append.ts", import.meta.url);
const IN_FLIGHT = 50;

/** Appending to a run, fenced and gapless, against plain XADD of the same events. */
export async function benchAppend(scale: Scale): Promise<readonly Figure[]> {
  await using redis = await startRedis({ audit: false });
  await using log = await startPeer(PEER, { redis: redis.url, side: "run-log" });
  await using xadd = await startPeer(PEER, { redis: redis.url, side: "xadd" });
  const figures: Figure[] = [];
  for (const batch of [1, 10]) {
    const command: AppendCommand = { events: scale.size(15_000), inFlight: IN_FLIGHT, batch };
    const compared = await compare(scale, {
      ours: () => log.call<AppendReply>(command),
      baseline: () => xadd.call<AppendReply>(command),
    });
    figures.push({
      ...compared,
      name: `append, ${batch === 1 ? "1 event" : `${batch} events`} a call, ${IN_FLIGHT} runs at once`,
      unit: "events/s",
      baselineName: batch === 1 ? "plain XADD, awaited" : `${batch} plain XADDs in a pipeline, awaited`,
      goals: [atLeast(compared.ratio, 0.45)],
    });
  }
  return figures;
}
