/** Runs the three-turn run in this process by the hand-written loop, streaming, and says what it cost. */
import { OpenAI } from "openai";
import { runHandLoop } from "../hand-loop.ts";
import { inParallel } from "../measure.ts";
import { peerOptions, servePeer } from "../peer.ts";
import { ANSWER_PIECES, checkAnswer } from "../work.ts";
import type { LoopCommand, LoopReply } from "./executor-loop.ts";

const { baseUrl } = peerOptions<{ readonly baseUrl: string }>();
const client = new OpenAI({ apiKey: "none", baseURL: baseUrl });

async function runOnce(): Promise<void> {
  let deltas = 0;
  const answer = await runHandLoop(client, ({ type }) => {
    if (type === "model.delta") deltas++;
    return undefined;
  });
  checkAnswer(answer);
  if (deltas !== ANSWER_PIECES.length) throw new Error(`${deltas} deltas were streamed`);
}

servePeer(undefined, async ({ runs, inFlight }: LoopCommand): Promise<LoopReply> => {
  const before = process.cpuUsage();
  await inParallel(runs, inFlight, runOnce);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / runs;
});
