/**
 * The baselines on plain BullMQ: a job that does nothing, and the naive agent job, which awaits one XADD for each event.
 */
import { hrtime } from "node:process";
import { Worker, type Job } from "bullmq";
import { Redis } from "ioredis";
import { OpenAI } from "openai";
import { runHandLoop } from "../hand-loop.ts";
import { peerOptions, servePeer } from "../peer.ts";

export interface PlainWorkerOptions {
  readonly redis: string;
  readonly concurrency: number;
  readonly baseUrl?: string;
}

export interface PlainJob {
  /** `hrtime` in ns at which the job was about to be added: the clock is the machine's, the same in all processes. */
  readonly at?: string;
  /** The stream that a naive job writes. */
  readonly stream?: string;
}

const { redis: url, concurrency, baseUrl = "http://127.0.0.1:9/v1" } = peerOptions<PlainWorkerOptions>();
const redis = new Redis(url);
const client = new OpenAI({ apiKey: "none", baseURL: baseUrl });
let latenciesMs: number[] = [];

async function runNaively(stream: string): Promise<void> {
  const emit = (event: object): Promise<unknown> =>
    redis.xadd(stream, "*", "e", JSON.stringify({ time: new Date().toISOString(), ...event }));
  await emit({ type: "run.started", data: {} });
  const answer = await runHandLoop(client, emit);
  await emit({ type: "run.final_response", data: answer });
}

async function work({ data }: Job<PlainJob>): Promise<void> {
  if (data.at !== undefined) latenciesMs.push(Number(hrtime.bigint() - BigInt(data.at)) / 1_000_000);
  if (data.stream !== undefined) await runNaively(data.stream);
}

const worker = new Worker<PlainJob>("plain", work, {
  connection: { url, maxRetriesPerRequest: null },
  concurrency,
  removeOnComplete: { count: 0 },
});
worker.on("failed", (_job, error) => {
  process.stderr.write(`${error.stack ?? error.message}\n`);
  process.exit(1);
});
await worker.waitUntilReady();

/** Answers with the latencies since the last command. */
servePeer(undefined, async (): Promise<readonly number[]> => {
  const taken = latenciesMs;
  latenciesMs = [];
  return taken;
});
