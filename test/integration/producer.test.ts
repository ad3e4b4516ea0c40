import type { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { RunRequestInput } from "../../src/shared/contracts/request.ts";
import type { RunResult } from "../../src/shared/contracts/result.ts";
import { validateEvent, validateResult } from "../../src/shared/contracts/validate.ts";
import { Producer, RunError, type Enqueued } from "../../src/producer/index.ts";
import type { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { collect, sequencesOf, setUpProducer } from "../support/producer.ts";
import { claimRun, deltaEvent, terminalEvent } from "../support/run-log.ts";

const REQUEST = { tenantId: "acme", skill: "refund", query: "Where is my money?" } as const satisfies RunRequestInput;

async function codeOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (!(error instanceof RunError)) throw new Error(`not refused: ${String(error)}`);
  return error.code;
}

async function keysOf(client: Redis): Promise<number> {
  return client.dbsize();
}

/** Runs a run to its end as a worker would: `deltas` events and the terminal one. */
async function work(log: RedisRunLog, run: { runId: string; tenantId?: string }, deltas = 3): Promise<void> {
  const ref = { tenantId: run.tenantId ?? "acme", runId: run.runId };
  const { owner } = await claimRun(log, { ...ref, grant: 1 });
  for (let sequence = 2; sequence < 2 + deltas; sequence += 1) await log.append(owner, [deltaEvent(ref, sequence)]);
  await log.finish(owner, [terminalEvent(ref, 2 + deltas)], "succeeded");
}

describe("enqueue", () => {
  test("makes a run, names its stream and channel, and puts a job on the queue that holds no more than where to look", async () => {
    await using at = await setUpProducer();
    const enqueued = await at.producer.enqueue(REQUEST);
    expect(enqueued).toEqual({
      runId: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      state: "queued",
      duplicate: false,
      streamKey: `{sd:0}:t:acme:run:${enqueued.runId}:events`,
      channel: `{sd:0}:t:acme:run:${enqueued.runId}:notice`,
    } satisfies Record<keyof Enqueued, unknown>);
    const job = await at.queue.getJob(`acme.${enqueued.runId}.1`);
    expect(job?.data).toEqual({ lane: 0, tenantId: "acme", runId: enqueued.runId, grant: 1 });
    expect(job?.opts).toMatchObject({ attempts: 1, removeOnComplete: true });
    expect(await at.queue.getWaitingCount()).toBe(1);
    const [[id, fields] = ["", []]] = await at.client.xrange(enqueued.streamKey, "-", "+");
    expect(id).toBe("1-0");
    const event = JSON.parse(fields[1] ?? "") as RunEvent;
    expect(validateEvent(event)).toEqual([]);
    expect(event).toMatchObject({ type: "run.queued", sequence: 1, attempt: 0, data: { skill: "refund" } });
  });

  test("keeps the run's own id, and refuses one that is taken", async () => {
    await using at = await setUpProducer();
    expect(await at.producer.enqueue({ ...REQUEST, runId: "my-run-0001" })).toMatchObject({ runId: "my-run-0001" });
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, runId: "my-run-0001" }))).toBe("run_id_conflict");
    expect(await at.producer.enqueue({ ...REQUEST, tenantId: "umbrella", runId: "my-run-0001" })).toMatchObject({
      duplicate: false,
    });
  });

  test("answers the same key and request with the run that exists, in whatever state it is", async () => {
    await using at = await setUpProducer();
    const request = { ...REQUEST, idempotencyKey: "order-42" };
    const first = await at.producer.enqueue(request);
    expect(await at.producer.enqueue({ ...request, correlationId: "c-2", runId: "another-run" })).toEqual({
      ...first,
      duplicate: true,
    });
    expect(await at.queue.getWaitingCount()).toBe(1);
    await work(at.log, first);
    expect(await at.producer.enqueue(request)).toEqual({ ...first, duplicate: true, state: "succeeded" });
  });

  test("refuses the same key with another request, and names the run that has it", async () => {
    await using at = await setUpProducer();
    const first = await at.producer.enqueue({ ...REQUEST, idempotencyKey: "order-42" });
    await expect(at.producer.enqueue({ ...REQUEST, query: "other", idempotencyKey: "order-42" })).rejects.toMatchObject(
      {
        code: "idempotency_conflict",
        details: { runId: first.runId },
      },
    );
  });

  test("keeps the keys of two tenants apart", async () => {
    await using at = await setUpProducer();
    const request = { ...REQUEST, idempotencyKey: "order-42" };
    const acme = await at.producer.enqueue(request);
    const umbrella = await at.producer.enqueue({ ...request, tenantId: "umbrella" });
    expect(umbrella.duplicate).toBe(false);
    expect(umbrella.runId).not.toBe(acme.runId);
    expect(await at.producer.enqueue({ ...request, query: "other", tenantId: "initech" })).toMatchObject({
      duplicate: false,
    });
  });

  test("accepts one of fifty at once with the same key", async () => {
    await using at = await setUpProducer();
    const all = await Promise.all(
      Array.from({ length: 50 }, () => at.producer.enqueue({ ...REQUEST, idempotencyKey: "k" })),
    );
    expect(new Set(all.map(({ runId }) => runId)).size).toBe(1);
    expect(all.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    expect(await at.queue.getWaitingCount()).toBe(1);
  });

  test("accepts a thousand at once", async () => {
    await using at = await setUpProducer();
    const all = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) => at.producer.enqueue({ ...REQUEST, tenantId: `t${index % 7}` })),
    );
    expect(new Set(all.map(({ runId }) => runId)).size).toBe(1_000);
    expect(await at.queue.getWaitingCount()).toBe(1_000);
    const clients = String(await at.client.client("LIST"));
    expect(clients.match(/name=skilldock-producer/g)).toHaveLength(1);
  });

  test("refuses what the contract refuses, with pointers, and leaves nothing in Redis", async () => {
    await using at = await setUpProducer();
    const bad = {
      ...REQUEST,
      colour: "red",
      limits: { maxTurns: 0 },
      workspacePolicy: { network: "enabled" },
    } as unknown as RunRequestInput;
    const error = await at.producer.enqueue(bad).catch((caught: unknown) => caught as RunError);
    expect(error).toMatchObject({ code: "invalid_request" });
    const problems = (error as RunError).details?.["problems"] as readonly { pointer: string }[];
    expect(problems.map(({ pointer }) => pointer).sort()).toEqual([
      "/colour",
      "/limits/maxTurns",
      "/workspacePolicy/network",
    ]);
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, query: "x".repeat(300_000) }))).toBe("invalid_request");
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, tenantId: "*" }))).toBe("invalid_request");
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, priority: 3 }))).toBe("not_supported");
    expect(await keysOf(at.client)).toBeLessThanOrEqual(1); // the test's own queue leaves its meta key
  });

  test("shuts the door to tenants that are not configured", async () => {
    await using at = await setUpProducer({ tenants: { acme: {} } });
    expect(await at.producer.enqueue(REQUEST)).toMatchObject({ state: "queued" });
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, tenantId: "umbrella" }))).toBe("unknown_tenant");
    expect(await codeOf(at.producer.enqueue({ ...REQUEST, tenantId: "constructor" }))).toBe("unknown_tenant");
  });

  test("accepts a run that cannot be put on the queue, and says so in the log only", async () => {
    const warnings: unknown[] = [];
    await using at = await setUpProducer({ logger: { warn: (...args: unknown[]) => void warnings.push(args) } });
    // A queue that cannot take jobs: the list of waiting ones is no list.
    await at.client.set("{sd:0}:runs:wait", "in the way");
    const enqueued = await at.producer.enqueue(REQUEST);
    expect(enqueued.state).toBe("queued");
    expect(JSON.stringify(warnings)).toContain(enqueued.runId);
    expect(JSON.stringify(warnings)).not.toContain("money");
    await at.client.del("{sd:0}:runs:wait");
    expect((await at.log.record({ tenantId: "acme", runId: enqueued.runId }))?.state).toBe("queued");
  });
});

describe("follow", () => {
  test("delivers what is there and what comes, and last the result", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const items: (RunEvent | RunResult)[] = [];
    let working: Promise<void> | undefined;
    for await (const item of at.producer.follow({ tenantId: "acme", runId })) {
      items.push(item);
      working ??= work(at.log, { runId }, 5);
    }
    await working;
    expect(sequencesOf(items)).toEqual([1, 2, 3, 4, 5, 6, 7, "result"]);
    expect(items.at(-2)).toMatchObject({ type: "run.final_response", terminal: true, data: items.at(-1) });
  });

  test("begins anywhere in a run that has ended, also behind its end", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    await work(at.log, { runId });
    const from = async (fromSequence: number) =>
      sequencesOf(await collect(at.producer.follow({ tenantId: "acme", runId, fromSequence })));
    expect(await from(1)).toEqual([1, 2, 3, 4, 5, "result"]);
    expect(await from(4)).toEqual([4, 5, "result"]);
    expect(await from(5)).toEqual([5, "result"]);
    expect(await from(900)).toEqual(["result"]);
  });

  test("ends without a result when its signal is aborted, and the run goes on", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const leave = new AbortController();
    const items: (RunEvent | RunResult)[] = [];
    for await (const item of at.producer.follow({ tenantId: "acme", runId, signal: leave.signal })) {
      items.push(item);
      leave.abort();
    }
    expect(sequencesOf(items)).toEqual([1]);
    await work(at.log, { runId });
    expect(await at.producer.result({ tenantId: "acme", runId })).toMatchObject({ status: "succeeded" });
  });

  test("is shared by many over one subscriber connection", async () => {
    await using at = await setUpProducer();
    const runs = await Promise.all(Array.from({ length: 100 }, () => at.producer.enqueue(REQUEST)));
    const followers = runs.flatMap(({ runId }) =>
      Array.from({ length: 10 }, () => collect(at.producer.follow({ tenantId: "acme", runId }))),
    );
    await Promise.all(runs.map((run) => work(at.log, run, 2)));
    for (const items of await Promise.all(followers)) expect(sequencesOf(items)).toEqual([1, 2, 3, 4, "result"]);
    const clients = String(await at.client.client("LIST"));
    expect(clients.match(/name=skilldock-(producer|followers)/g)).toHaveLength(2);
  });

  test("does not tell a foreign run from one that is not there", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    for (const run of [
      { tenantId: "umbrella", runId },
      { tenantId: "acme", runId: "00000000" },
    ]) {
      const errors = [
        await collect(at.producer.follow(run)).catch((error: unknown) => (error as RunError).toBody()),
        await at.producer.result(run).catch((error: unknown) => (error as RunError).toBody()),
        await at.producer.cancel(run).catch((error: unknown) => (error as RunError).toBody()),
      ];
      expect(errors).toEqual(Array.from({ length: 3 }, () => new RunError("run_not_found").toBody()));
    }
  });
});

describe("result", () => {
  test("is undefined while the run goes on, and there as soon as it has ended", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const run = { tenantId: "acme", runId };
    expect(await at.producer.result(run)).toBeUndefined();
    expect(await at.producer.result({ ...run, waitMs: 20 })).toBeUndefined();
    const waiting = at.producer.result({ ...run, waitMs: 20_000 });
    await work(at.log, run);
    const result = await waiting;
    expect(result).toMatchObject({ type: "result", status: "succeeded", lastSequence: 5 });
    expect(validateResult(result)).toEqual([]);
    expect(await at.producer.result(run)).toEqual(result);
  });

  test("stops waiting when its signal is aborted", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const leave = new AbortController();
    const waiting = at.producer.result({ tenantId: "acme", runId, waitMs: 60_000, signal: leave.signal });
    leave.abort();
    expect(await waiting).toBeUndefined();
  });
});

test("what is asked is checked before it becomes part of a key", async () => {
  const producer = new Producer({ redis: "redis://127.0.0.1:1" });
  const run = { tenantId: "acme", runId: "run-0000001" };
  for (const query of [
    { ...run, tenantId: "*" },
    { ...run, runId: "a:b:c:d:e" },
    { ...run, runId: undefined as unknown as string },
    { ...run, fromSequence: 0 },
    { ...run, fromSequence: 1.5 },
  ]) {
    expect(await codeOf(collect(producer.follow(query)))).toBe("invalid_request");
  }
  expect(await codeOf(producer.result({ ...run, waitMs: -1 }))).toBe("invalid_request");
  expect(await codeOf(producer.result({ ...run, waitMs: Number.POSITIVE_INFINITY }))).toBe("invalid_request");
  expect(await codeOf(producer.cancel({ ...run, reason: "x".repeat(1_001) }))).toBe("invalid_request");
  expect(await codeOf(producer.cancel({ ...run, reason: "\ud800" }))).toBe("invalid_request");
  await producer.close();
});
