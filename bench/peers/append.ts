/** Writes events of many runs at once: by the run log, or by plain XADD. */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { Redis } from "ioredis";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import { parseRunRequest } from "../../src/shared/contracts/validate.ts";
import { connectRedis } from "../../src/shared/redis/connection.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { peerOptions, servePeer } from "../peer.ts";

export interface AppendCommand {
  readonly events: number;
  /** Runs that are written at once, one command in flight each. */
  readonly inFlight: number;
  /** Events of one command. */
  readonly batch: number;
}

/** Events a second. */
export type AppendReply = number;

const options = peerOptions<{ readonly redis: string; readonly side: "run-log" | "xadd" }>();
const redis =
  options.side === "xadd"
    ? new Redis(options.redis)
    : await connectRedis(options.redis, { role: "request", name: "bench" });
const log = new RedisRunLog({ redis: await connectRedis(options.redis, { role: "request", name: "bench" }) });

const DIGEST = `sha256:${"0".repeat(64)}`;

interface Run {
  readonly tenantId: string;
  readonly runId: string;
  readonly epoch: number;
}

function envelope(run: Omit<Run, "epoch">, sequence: number, attempt: number) {
  const { tenantId, runId } = run;
  return {
    schemaVersion: "1",
    runId,
    tenantId,
    sequence,
    time: new Date().toISOString(),
    attempt,
    terminal: false,
  } as const;
}

function deltaEvent(run: Run, sequence: number): RunEvent {
  return { ...envelope(run, sequence, 1), type: "model.delta", data: { turn: 1, text: "some words of an answer " } };
}

async function openRun(): Promise<Run> {
  const request = parseRunRequest({ tenantId: "bench", skill: "noop" }, { runId: randomUUID() });
  const queued: RunEvent = { ...envelope(request, 1, 0), type: "run.queued", data: { requestDigest: DIGEST } };
  const enqueued = await log.enqueue({ request, enqueueId: randomUUID(), payloadDigest: DIGEST, queued });
  if (enqueued.kind !== "enqueued" || enqueued.grants[0] === undefined) throw new Error("a run was not admitted");
  const claimed = await log.claim(enqueued.grants[0], { claimId: randomUUID(), worker: "bench" });
  if (claimed.kind !== "claimed") throw new Error("a run was not claimed");
  return { tenantId: request.tenantId, runId: request.runId, epoch: claimed.claim.epoch };
}

function batchOf(run: Run, first: number, size: number): readonly RunEvent[] {
  return Array.from({ length: size }, (_, index) => deltaEvent(run, first + index));
}

async function appendByLog(run: Run, first: number, size: number): Promise<void> {
  const reply = await log.append(run, batchOf(run, first, size));
  if (reply.kind !== "written") throw new Error(`an append was answered ${reply.kind}`);
}

async function appendPlainly(run: Run, first: number, size: number): Promise<void> {
  const stream = `stream:${run.runId}`;
  await Promise.all(batchOf(run, first, size).map((event) => redis.xadd(stream, "*", "e", JSON.stringify(event))));
}

servePeer(undefined, async ({ events, inFlight, batch }: AppendCommand): Promise<AppendReply> => {
  const append = options.side === "xadd" ? appendPlainly : appendByLog;
  const runs = await Promise.all(Array.from({ length: inFlight }, openRun));
  const calls = Math.ceil(events / inFlight / batch);
  const before = performance.now();
  await Promise.all(
    runs.map(async (run) => {
      for (let call = 0; call < calls; call++) await append(run, 2 + call * batch, batch);
    }),
  );
  return (calls * batch * inFlight * 1_000) / (performance.now() - before);
});
