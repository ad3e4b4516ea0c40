import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Producer } from "../../src/producer/index.ts";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { ModelScriptEntry } from "../../src/worker/model/scripted.ts";
import { startRedis } from "../support/redis.ts";
import { followRun } from "../support/runs.ts";
import { startWorkerProcess } from "../support/worker-process.ts";

const skillsDirs = [fileURLToPath(new URL("../../skills", import.meta.url))];
const tenantId = "acme";
const request = {
  tenantId,
  skill: "commit-message",
  allowedCapabilities: ["caller.echo@1", "caller.pay@1", "caller.hang_read@1", "caller.hang_pay@1"],
};

/** By query: each run of a query plays these steps; a take-over starts its script again. */
const script: readonly ModelScriptEntry[] = [
  { when: { query: "slow" }, steps: [{ text: "so slow", delayMs: 1_500 }] },
  { when: { query: "silent" }, steps: [{ text: "first words", waitForAbort: true }] },
  { when: { query: "read" }, steps: [{ toolCalls: [{ name: "caller_hang_read", arguments: {} }] }, { text: "read" }] },
  { when: { query: "pay" }, steps: [{ toolCalls: [{ name: "caller_hang_pay", arguments: {} }] }, { text: "paid" }] },
  { steps: [{ text: "quick" }] },
];

/** The process that works on the run now. */
const ownerOf = <T extends { readonly name: string }>(workers: readonly T[], event: RunEvent): T => {
  const worker = "worker" in event.data ? event.data.worker : undefined;
  const owner = workers.find((one) => one.name === worker);
  if (owner === undefined) throw new Error(`no worker named ${String(worker)}`);
  return owner;
};

describe("a killed worker", () => {
  test("is taken over from, and its run starts again where nothing lasting was done", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    await using second = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const { runId } = await producer.enqueue({ ...request, query: "slow" });
    let owner = first;
    const { events, result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type === "run.started") owner = ownerOf([first, second], event);
      if (event.type === "model.started" && event.attempt === 1) owner.signal("SIGKILL");
    });
    expect(result).toMatchObject({
      status: "succeeded",
      outputText: "so slow",
      attempts: 2,
      usage: { turns: 2, modelCalls: 2, estimated: true },
    });
    expect(events.find((event) => event.type === "run.resumed")?.data).toMatchObject({ reason: "worker_lost" });
  });

  test("whose tool had effects is not repeated: the run ends as worker_lost", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const { runId } = await producer.enqueue({ ...request, query: "pay" });
    await first.line((line) => line.tool === "hang");
    first.signal("SIGKILL");
    await using second = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const { result } = await followRun(producer, { tenantId, runId });
    expect(result).toMatchObject({ status: "failed", error: { code: "worker_lost", retryable: true }, attempts: 2 });
    expect(second.lines.filter((line) => line.tool !== undefined)).toEqual([]);
  });

  test("whose tool only read is repeated, under a new call id", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const { runId } = await producer.enqueue({ ...request, query: "read" });
    const before = await first.line((line) => line.tool === "hang");
    first.signal("SIGKILL");
    await using second = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const after = await second.line((line) => line.tool === "hang");
    expect([before.callId, after.callId]).toEqual(["t1c0", "t2c0"]);
    await producer.cancel({ tenantId, runId, reason: "seen enough" });
    const { result } = await followRun(producer, { tenantId, runId });
    expect(result).toMatchObject({ status: "cancelled", cancelReason: "seen enough" });
  });
});

describe("a stopped worker", () => {
  test("cannot write a thing after it wakes: another owns the run", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    await using second = await startWorkerProcess({ redis: redis.url, skillsDirs, script });
    const { runId } = await producer.enqueue({ ...request, query: "slow" });
    let owner = first;
    const { events, result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type === "run.started") owner = ownerOf([first, second], event);
      if (event.type === "model.started" && event.attempt === 1) owner.signal("SIGSTOP");
      if (event.type === "run.resumed") owner.signal("SIGCONT");
    });
    expect(result).toMatchObject({ status: "succeeded", attempts: 2 });
    const resumedAt = events.findIndex((event) => event.type === "run.resumed");
    expect(events.slice(resumedAt).every((event) => event.attempt === 2)).toBe(true);
    // The one that woke serves on.
    for (const worker of [first, second]) if (worker !== owner) worker.signal("SIGKILL");
    const again = await producer.enqueue({ ...request, query: "anything" });
    const next = await followRun(producer, { tenantId, runId: again.runId });
    expect(next.result.status).toBe("succeeded");
  });
});

describe("a worker that is told to stop", () => {
  test("hands over what does not finish within its grace, at nobody's cost", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script, graceMs: 100 });
    await using second = await startWorkerProcess({ redis: redis.url, skillsDirs, script, graceMs: 100 });
    const { runId } = await producer.enqueue({ ...request, query: "slow", limits: { maxAttempts: 1 } });
    let owner = first;
    const { events, result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type === "run.started") owner = ownerOf([first, second], event);
      if (event.type === "model.started" && event.attempt === 1) owner.signal("SIGTERM");
    });
    expect(result.status).toBe("succeeded");
    expect(events.find((event) => event.type === "run.resumed")?.data).toMatchObject({ reason: "handed_over" });
    expect(await owner.line((line) => line.handedOver !== undefined)).toEqual({ handedOver: 1 });
    expect(await owner.exited).toBe(0);
  });

  test("lets runs finish that can", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using first = await startWorkerProcess({ redis: redis.url, skillsDirs, script, graceMs: 20_000 });
    const { runId } = await producer.enqueue({ ...request, query: "slow" });
    const { result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type === "model.started") first.signal("SIGTERM");
    });
    expect(result).toMatchObject({ status: "succeeded", attempts: 1 });
    expect(await first.line((line) => line.handedOver !== undefined)).toEqual({ handedOver: 0 });
  });
});

describe("Redis going away in the middle of a run", () => {
  test("for good, a worker that is told to stop ends all the same", async () => {
    await using redis = await startRedis({ audit: false });
    await using producer = new Producer({ redis: redis.url });
    await using worker = await startWorkerProcess({ redis: redis.url, skillsDirs, script, graceMs: 100 });
    const { runId } = await producer.enqueue({ ...request, query: "silent" });
    for await (const item of producer.follow({ tenantId, runId })) if (item.type === "model.delta") break;
    await redis.kill();
    worker.signal("SIGTERM");
    expect(await worker.line((line) => line.handedOver !== undefined)).toEqual({ handedOver: 1 });
    expect(await worker.exited).toBe(0);
  });

  test("for less than the lock, the run goes on and nothing is lost or doubled", async () => {
    await using redis = await startRedis({ appendonly: true });
    await using producer = new Producer({ redis: redis.url });
    await using worker = await startWorkerProcess({ redis: redis.url, skillsDirs, script, lockDurationMs: 10_000 });
    const { runId } = await producer.enqueue({ ...request, query: "slow" });
    const restarted = Promise.withResolvers<void>();
    const { result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type === "model.started" && event.attempt === 1)
        redis.restart().then(restarted.resolve, restarted.reject);
    });
    await restarted.promise;
    expect(result).toMatchObject({ status: "succeeded", outputText: "so slow", attempts: 1 });
    expect(worker.name).not.toBe("");
  });
});
