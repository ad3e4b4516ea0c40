import { atMost, compare, type Figure, type Scale } from "./measure.ts";
import { startPeer } from "./peer.ts";
import type { ModelServerReady } from "./fake-model-server.ts";
import type { LoopCommand, LoopReply } from "./peers/executor-loop.ts";

const IN_FLIGHT = 16;

/** CPU of a streaming run in process, against the loop that one writes by hand on the `openai` client. */
export async function benchLoop(scale: Scale): Promise<readonly Figure[]> {
  await using server = await startPeer<ModelServerReady>(new URL("./fake-model-server.ts", import.meta.url), {});
  await using executor = await startPeer(new URL("./peers/executor-loop.ts", import.meta.url), server.ready);
  await using hand = await startPeer(new URL("./peers/hand-loop.ts", import.meta.url), server.ready);
  const command: LoopCommand = { runs: scale.size(600), inFlight: IN_FLIGHT };
  const compared = await compare(scale, {
    ours: () => executor.call<LoopReply>(command),
    baseline: () => hand.call<LoopReply>(command),
  });
  return [
    {
      ...compared,
      name: `CPU of a streaming run in process, 3 turns, 2 tool calls, ${IN_FLIGHT} at once`,
      unit: "ms/run",
      baselineName: "hand-written loop on the openai client",
      goals: [atMost(compared.ratio, 1), atMost(compared.ratio, 0.6)],
    },
  ];
}
