/** Enqueues runs and waits for them, as a service would. */
import { performance } from "node:perf_hooks";
import { Redis } from "ioredis";
import { Producer } from "skilldock/producer";
import { setTimeout as delay } from "node:timers/promises";
import { inParallel } from "../measure.ts";
import { peerOptions, servePeer } from "../peer.ts";
import { checkAnswer, lookupTool, QUESTION } from "../work.ts";

export interface DriverCommand {
  /**
   * `flood`: enqueue, and wait until all have ended. `idle`: one after the other, with pauses. `follow`: each followed
   * to its end.
   */
  readonly kind: "flood" | "idle" | "follow";
  readonly runs: number;
  readonly inFlight: number;
}

export interface DriverReply {
  readonly seconds: number;
  /** Of `idle`: from the call to the start, each. */
  readonly latenciesMs: readonly number[];
}

const POLL_MS = 2;
const PAUSE_MS = 5;
const TENANT = "bench";

const options = peerOptions<{ readonly redis: string }>();
const producer = new Producer({ redis: options.redis });
const redis = new Redis(options.redis);

/** Enqueues all, then looks until no run is admitted any more. Every run must have succeeded. */
async function flood({ runs, inFlight }: DriverCommand): Promise<void> {
  const ids: string[] = [];
  await inParallel(runs, inFlight, async () => {
    const { runId } = await producer.enqueue({ tenantId: TENANT, skill: "noop", query: "Go." });
    ids.push(runId);
  });
  while ((await redis.zcard("{sd:0}:grants")) > 0) await delay(POLL_MS);
  lastFlood = ids;
}

let lastFlood: readonly string[] = [];

async function checkFlood(): Promise<void> {
  const pipeline = redis.pipeline();
  for (const id of lastFlood) pipeline.hget(`{sd:0}:t:${TENANT}:run:${id}`, "state");
  for (const [, state] of (await pipeline.exec()) ?? []) {
    if (state !== "succeeded") throw new Error(`a run ended as ${String(state)}`);
  }
}

async function idle(): Promise<number> {
  const before = performance.now();
  let latency = 0;
  const { runId } = await producer.enqueue({ tenantId: TENANT, skill: "noop", query: "Go." });
  for await (const item of producer.follow({ tenantId: TENANT, runId })) {
    if (item.type === "run.started") latency = performance.now() - before;
  }
  await delay(PAUSE_MS);
  return latency;
}

async function follow(): Promise<void> {
  const { runId } = await producer.enqueue({
    tenantId: TENANT,
    skill: "lookup",
    query: QUESTION,
    allowedCapabilities: [lookupTool.id],
  });
  for await (const item of producer.follow({ tenantId: TENANT, runId })) {
    if (item.type === "result") checkAnswer({ text: item.outputText, toolCalls: item.usage.toolCalls });
  }
}

servePeer(undefined, async (command: DriverCommand): Promise<DriverReply> => {
  const latenciesMs: number[] = [];
  const before = performance.now();
  if (command.kind === "flood") await flood(command);
  else if (command.kind === "follow") await inParallel(command.runs, command.inFlight, follow);
  else while (latenciesMs.length < command.runs) latenciesMs.push(await idle());
  const seconds = (performance.now() - before) / 1_000;
  if (command.kind === "flood") await checkFlood();
  return { seconds, latenciesMs };
});
