/** Adds jobs to plain BullMQ and waits for them, by the same commands as the driver of the product. */
import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { hrtime } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { inParallel } from "../measure.ts";
import { peerOptions, servePeer } from "../peer.ts";
import { checkAnswer } from "../work.ts";
import type { PlainJob } from "./plain-worker.ts";
import type { DriverCommand, DriverReply } from "./skilldock-driver.ts";

interface NaiveEvent {
  readonly type: string;
  readonly data: { readonly text: string; readonly toolCalls: number };
}

const POLL_MS = 2;
const PAUSE_MS = 5;

const { redis: url } = peerOptions<{ readonly redis: string }>();
const queue = new Queue<PlainJob>("plain", { connection: { url } });
await queue.waitUntilReady();
const readers: Redis[] = [];

async function add(data: PlainJob): Promise<void> {
  await queue.add("job", data, { jobId: randomUUID(), attempts: 1, removeOnComplete: true });
}

async function allDone(): Promise<void> {
  for (;;) {
    const { waiting = 0, active = 0 } = await queue.getJobCounts("waiting", "active");
    if (waiting + active === 0) return;
    await delay(POLL_MS);
  }
}

async function flood({ runs, inFlight }: DriverCommand): Promise<void> {
  await inParallel(runs, inFlight, () => add({}));
  await allDone();
}

async function idle(): Promise<void> {
  await add({ at: String(hrtime.bigint()) });
  await allDone();
  await delay(PAUSE_MS);
}

/** Adds a naive job and reads its stream to the last event, on a connection of its own. */
async function follow(): Promise<void> {
  const stream = `stream:${randomUUID()}`;
  const reader = readers.pop() ?? new Redis(url);
  await add({ stream });
  for (let last = "0"; ;) {
    const reply = await reader.xread("BLOCK", 10_000, "STREAMS", stream, last);
    const entries = reply?.[0]?.[1];
    if (entries === undefined) throw new Error("a naive job has gone silent");
    for (const [id, fields] of entries) {
      last = id;
      const event = JSON.parse(fields[1] ?? "") as NaiveEvent; // the naive worker's
      if (event.type !== "run.final_response") continue;
      checkAnswer(event.data);
      readers.push(reader);
      return;
    }
  }
}

servePeer(undefined, async (command: DriverCommand): Promise<DriverReply> => {
  const before = performance.now();
  if (command.kind === "flood") await flood(command);
  else if (command.kind === "follow") await inParallel(command.runs, command.inFlight, follow);
  else for (let run = 0; run < command.runs; run++) await idle();
  return { seconds: (performance.now() - before) / 1_000, latenciesMs: [] };
});
