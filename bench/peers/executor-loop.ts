/** Runs the three-turn run in this process by the executor, streaming, and says what it cost. */
import { createChatModel, createModelRouter, Executor, loadCatalog } from "skilldock";
import { inParallel } from "../measure.ts";
import { peerOptions, servePeer } from "../peer.ts";
import { checkAnswer, lookupTool, QUESTION } from "../work.ts";

export interface LoopCommand {
  readonly runs: number;
  readonly inFlight: number;
}

/** CPU of the process, user and system, in ms a run. */
export type LoopReply = number;

const { baseUrl } = peerOptions<{ readonly baseUrl: string }>();
const executor = new Executor({
  catalog: await loadCatalog({ directories: [new URL("../skills/lookup/", import.meta.url)] }),
  models: createModelRouter({
    default: "fake",
    routes: [{ id: "fake", model: "fake", adapter: createChatModel({ baseUrl }) }],
  }),
  tools: [lookupTool],
});

async function runOnce(): Promise<void> {
  let deltas = 0;
  const run = executor.run({ skill: "lookup", query: QUESTION, allowedCapabilities: [lookupTool.id] });
  for await (const item of run) {
    if (item.type === "model.delta") deltas++;
    if (item.type === "result") checkAnswer({ text: item.outputText, toolCalls: item.usage.toolCalls });
  }
  if (deltas === 0) throw new Error("nothing was streamed");
}

servePeer(undefined, async ({ runs, inFlight }: LoopCommand): Promise<LoopReply> => {
  const before = process.cpuUsage();
  await inParallel(runs, inFlight, runOnce);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / runs;
});
