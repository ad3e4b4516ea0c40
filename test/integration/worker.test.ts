import { fileURLToPath } from "node:url";
import { Queue } from "bullmq";
import { describe, expect, test } from "vitest";
import { Producer } from "../../src/producer/index.ts";
import type { RunRequestInput } from "../../src/shared/contracts/request.ts";
import { createLogger } from "../../src/shared/logging/logger.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { createMemorySandbox } from "../../src/sandbox/index.ts";
import { ScriptedModel, type ModelScriptEntry } from "../../src/worker/model/scripted.ts";
import { startWorker, type RunningWorker } from "../../src/worker/worker.ts";
import type { WorkerOptions } from "../../src/worker/worker-options.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { followRun, oneModel } from "../support/runs.ts";

const skillsDirs = [fileURLToPath(new URL("../../skills", import.meta.url))];
const tenantId = "acme";
const base: RunRequestInput = { tenantId, skill: "refund-policy" };

async function worker(
  redis: TestRedis,
  entries: readonly ModelScriptEntry[],
  options: Partial<WorkerOptions> = {},
): Promise<RunningWorker> {
  return startWorker({
    redis: redis.url,
    skillsDirs,
    models: oneModel(new ScriptedModel(entries)),
    logger: createLogger({ level: "silent" }),
    lockDurationMs: 2_000,
    stalledIntervalMs: 200,
    ...options,
  });
}

describe("a worker", () => {
  test("executes a run with workspace calls and publishes it in order", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const steps = [
      { toolCalls: [{ name: "workspace_read", arguments: { path: "skills/refund-policy/references/policy.md" } }] },
      { text: "By the policy." },
    ];
    await using _worker = await worker(redis, [{ steps }], { sandbox: () => createMemorySandbox() });
    const { runId, state, duplicate } = await producer.enqueue({
      ...base,
      allowedCapabilities: ["workspace.read@1"],
      query: "q",
    });
    expect({ state, duplicate }).toEqual({ state: "queued", duplicate: false });
    const { events, result } = await followRun(producer, { tenantId, runId });
    expect(events[0]?.type).toBe("run.queued");
    expect(result).toMatchObject({
      status: "succeeded",
      outputText: "By the policy.",
      receipts: [{ status: "succeeded" }],
    });
    expect(result.evidence).toContainEqual(
      expect.objectContaining({
        kind: "resource",
        ref: "refund-policy",
        path: "/workspace/skills/refund-policy/references/policy.md",
      }),
    );
    const manifest = _worker.catalog
      .get("refund-policy")
      ?.manifest.find((entry) => entry.path === "references/policy.md");
    expect(result.evidence.find((one) => one.kind === "resource")?.digest).toBe(manifest?.digest);
    const rest: string[] = [];
    for await (const item of producer.follow({ tenantId, runId, fromSequence: 5 })) rest.push(item.type);
    expect(rest).toEqual([...events.slice(4).map((event) => event.type), "result"]);
  });

  test("cancels a run whose model is silent", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using _worker = await worker(redis, [{ steps: [{ text: "hm", waitForAbort: true }] }]);
    const { runId } = await producer.enqueue({ ...base, query: "q" });
    let askedAt = 0;
    const { result } = await followRun(producer, { tenantId, runId }, (event) => {
      if (event.type !== "model.delta") return;
      askedAt = Date.now();
      void producer.cancel({ tenantId, runId, reason: "user left" });
    });
    expect(result).toMatchObject({ status: "cancelled", cancelReason: "user left" });
    expect(Date.now() - askedAt).toBeLessThan(10_000);
  });

  test("denies what it cannot serve before the first turn", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    await using _worker = await worker(redis, [{ steps: [] }]);
    const cases: [Partial<RunRequestInput>, object][] = [
      [{ allowedCapabilities: ["shell@1"] }, { status: "policy_denied", error: { code: "unknown_capability" } }],
      [
        { allowedCapabilities: ["workspace.read@1"] },
        { status: "policy_denied", error: { code: "workspace_unavailable" } },
      ],
      [{ allowedCapabilities: ["network.fetch@1"] }, { status: "policy_denied", error: { code: "network_denied" } }],
      [{ skill: "no-such-skill" }, { status: "failed", error: { code: "skill_not_found" } }],
      [
        { skill: `refund-policy@sha256:${"0".repeat(64)}` },
        { status: "failed", error: { code: "skill_digest_mismatch" } },
      ],
      [{ model: "nobody" }, { status: "failed", error: { code: "unknown_model" } }],
    ];
    for (const [more, expected] of cases) {
      const { runId } = await producer.enqueue({ ...base, query: "q", ...more });
      const { result } = await followRun(producer, { tenantId, runId });
      expect(result).toMatchObject({ ...expected, usage: { modelCalls: 0 } });
    }
  });

  test("ends a run whose journal is full, without a gap", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const content = "x".repeat(900_000);
    const write = { toolCalls: [{ name: "workspace_write", arguments: { path: "big", content } }] };
    const entries = [{ steps: Array.from({ length: 100 }, () => write) }];
    await using _worker = await worker(redis, entries, { sandbox: () => createMemorySandbox() });
    const { runId } = await producer.enqueue({
      ...base,
      skill: "invoice-check",
      allowedCapabilities: ["workspace.write@1"],
      limits: { maxTurns: 100, maxToolCalls: 100 },
      query: "q",
    });
    const { result } = await followRun(producer, { tenantId, runId });
    expect(result).toMatchObject({ status: "limit_exceeded", error: { code: "journal_limit" } });
  });

  test("says on its port what it did, and whether it is ready", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const own = await worker(redis, [{ steps: [{ text: "done" }] }], { metricsPort: 0 });
    const at = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${own.metricsPort}${path}`);
    const { runId } = await producer.enqueue({ ...base, query: "q" });
    await producer.result({ tenantId, runId, waitMs: 10_000 });
    expect((await at("/readyz")).status).toBe(200);
    const text = await (await at("/metrics")).text();
    expect(text).toContain('skilldock_runs_total{status="succeeded",skill="refund-policy"} 1');
    expect(text).toContain('skilldock_turns_total{model="test"} 1');
    expect(text).toMatch(/skilldock_tokens_total\{model="test",kind="input"\} [1-9]/);
    expect(text).not.toContain(runId);
    await own.close();
    await expect(at("/healthz")).rejects.toThrow();
  });
});

describe("the reconciler", () => {
  const loseJob = async (redis: TestRedis, producer: Producer): Promise<string> => {
    const { runId } = await producer.enqueue({ ...base, query: "q" });
    const queue = new Queue("runs", { connection: redis.client(), prefix: "{sd:0}" });
    await queue.obliterate({ force: true });
    await queue.close();
    // Its lease runs out now rather than in half a minute.
    const connection = redis.client();
    for (const member of await connection.zrange("{sd:0}:grants", "0", "-1"))
      await connection.zadd("{sd:0}:grants", "1", member);
    return runId;
  };

  test("puts a run on the queue again whose job got lost", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const runId = await loseJob(redis, producer);
    await using _worker = await worker(redis, [{ steps: [{ text: "found" }] }]);
    expect((await followRun(producer, { tenantId, runId })).result).toMatchObject({ status: "succeeded", attempts: 1 });
  });

  test("gives a running run to another when its worker and its job are gone", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const { runId } = await producer.enqueue({ ...base, query: "q" });
    const log = new RedisRunLog({ redis: redis.client(), lane: 0 });
    await log.claim({ tenantId, runId, grant: 1 }, { claimId: "dead", worker: "dead" });
    const connection = redis.client();
    const queue = new Queue("runs", { connection, prefix: "{sd:0}" });
    await queue.obliterate({ force: true });
    await queue.close();
    for (const member of await connection.zrange("{sd:0}:grants", "0", "-1"))
      await connection.zadd("{sd:0}:grants", "1", member);
    await using _worker = await worker(redis, [{ steps: [{ text: "found" }] }]);
    expect((await followRun(producer, { tenantId, runId })).result).toMatchObject({ status: "succeeded", attempts: 2 });
  });

  test("ends what waited too long", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const busy = await worker(redis, [{ steps: [{ waitForAbort: true }] }], { concurrency: 1 });
    const blocker = await producer.enqueue({ ...base, query: "q" });
    for await (const item of producer.follow({ tenantId, runId: blocker.runId }))
      if (item.type === "model.started") break;
    const { runId } = await producer.enqueue({ ...base, query: "q", limits: { maxQueueWaitMs: 50 } });
    const { result, events } = await followRun(producer, { tenantId, runId });
    expect(result).toMatchObject({ status: "timed_out", error: { code: "queue_expired" }, attempts: 0 });
    expect(events.map((event) => event.type)).toEqual(["run.queued", "run.error"]);
    await producer.cancel({ tenantId, runId: blocker.runId });
    await followRun(producer, { tenantId, runId: blocker.runId });
    await busy.close();
  });

  test("a run that loses every worker ends as poisoned", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const { runId } = await producer.enqueue({ ...base, query: "q", limits: { maxAttempts: 2 } });
    const log = new RedisRunLog({ redis: redis.client(), lane: 0 });
    for (const claimId of ["dead-1", "dead-2"])
      await log.claim({ tenantId, runId, grant: 1 }, { claimId, worker: "dead" });
    await using _worker = await worker(redis, [{ steps: [{ text: "never" }] }]);
    expect((await followRun(producer, { tenantId, runId })).result).toMatchObject({
      status: "failed",
      error: { code: "poisoned" },
    });
  });
});

describe("a Redis that answers and refuses", () => {
  test("is not asked without end, and is served again when it relents", async () => {
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    let lines = 0;
    const logger = createLogger({ level: "info", destination: { write: () => void lines++ } });
    await using _worker = await worker(redis, [{ steps: [{ text: "done" }] }], { logger });
    const connection = redis.client();
    await connection.config("SET", "maxmemory", "1");
    await expect.poll(() => lines, { timeout: 10_000 }).toBeGreaterThan(1);
    const calls = async (): Promise<number> =>
      Number(/total_commands_processed:(\d+)/.exec(await connection.info("stats"))?.[1]);
    const start = await calls();
    const linesBefore = lines;
    // Two seconds of refusals, by the server's own count of seconds.
    await connection.blpop("nothing", 2);
    expect((await calls()) - start).toBeLessThan(500);
    expect(lines - linesBefore).toBeLessThan(30);
    await connection.config("SET", "maxmemory", "0");
    const { runId } = await producer.enqueue({ ...base, query: "q" });
    expect((await followRun(producer, { tenantId, runId })).result.status).toBe("succeeded");
  });
});
