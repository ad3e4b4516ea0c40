import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { systemClock, type Clock } from "../../src/shared/clock.ts";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import { runRequestSchema } from "../../src/shared/contracts/request.ts";
import type { RunResult } from "../../src/shared/contracts/result.ts";
import { parseRunRequest } from "../../src/shared/contracts/validate.ts";
import { payloadDigest } from "../../src/shared/contracts/digest.ts";
import { newNonce, newRunId } from "../../src/shared/ids.ts";
import { createLogger } from "../../src/shared/logging/logger.ts";
import { createMetrics } from "../../src/shared/metrics/metrics.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import type { Grant, RunLog } from "../../src/shared/run-log/run-log.ts";
import { loadCatalog } from "../../src/worker/catalog/load-catalog.ts";
import type { ExecutionDependencies } from "../../src/worker/executor/execution.ts";
import { ScriptedModel, type ScriptStepSource } from "../../src/worker/model/scripted.ts";
import { RunObserver } from "../../src/worker/run-observer.ts";
import { RunWorker } from "../../src/worker/run-worker.ts";
import { createToolRegistry } from "../../src/worker/tools/registry.ts";
import type { CallerTool } from "../../src/worker/tools/tool.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { checkRun, oneModel } from "../support/runs.ts";

const skills = fileURLToPath(new URL("../../skills", import.meta.url));
const tenantId = "acme";
const pay = (handler: CallerTool["handler"] = () => "paid"): CallerTool => ({
  id: "caller.pay@1",
  description: "Pays.",
  inputSchema: { type: "object", required: ["amount"] },
  effects: "external",
  handler,
});

interface Bench {
  readonly log: RunLog;
  readonly runs: RunWorker;
  readonly lines: string[];
  readonly enqueue: (limits?: object) => Promise<Grant>;
  readonly events: (grant: Grant) => Promise<readonly RunEvent[]>;
  readonly result: (grant: Grant) => Promise<RunResult>;
}

/** A run worker without a queue: tests deliver its jobs themselves. */
async function setUp(
  redis: TestRedis,
  steps: readonly ScriptStepSource[],
  change: {
    readonly clock?: Clock;
    readonly tools?: readonly CallerTool[];
    readonly log?: (log: RunLog) => RunLog;
    readonly lockMs?: number;
  } = {},
): Promise<Bench> {
  const own = new RedisRunLog({ redis: redis.client(), lane: 0 });
  const log = change.log?.(own) ?? own;
  const lines: string[] = [];
  const dependencies: ExecutionDependencies = {
    catalog: await loadCatalog({ directories: [skills] }),
    models: oneModel(new ScriptedModel([{ steps }])),
    tools: createToolRegistry(change.tools ?? [pay()]),
    clock: change.clock ?? systemClock,
    worker: `test-${newNonce()}`,
    installation: "test",
  };
  const metrics = createMetrics();
  const runs = new RunWorker({
    log,
    dependencies,
    logger: createLogger({ level: "info", destination: { write: (line: string) => void lines.push(line) } }),
    observe: () => new RunObserver(metrics, "test"),
    lockMs: change.lockMs ?? 8_000,
  });
  const events = async (grant: Grant): Promise<readonly RunEvent[]> => own.read(grant, { fromSequence: 1, limit: 500 });
  return {
    log: own,
    runs,
    lines,
    events,
    async enqueue(limits = {}) {
      const input = { tenantId, skill: "commit-message", query: "q", allowedCapabilities: ["caller.pay@1"], limits };
      const request = parseRunRequest(input, { runId: newRunId() });
      const digest = payloadDigest(request);
      const queued: RunEvent = {
        schemaVersion: "1",
        runId: request.runId,
        tenantId,
        sequence: 1,
        type: "run.queued",
        time: new Date().toISOString(),
        attempt: 0,
        terminal: false,
        data: { requestDigest: digest },
      };
      const reply = await own.enqueue({ request, enqueueId: newNonce(), payloadDigest: digest, queued });
      const grant = reply.kind === "enqueued" ? reply.grants[0] : undefined;
      if (grant === undefined) throw new Error(`not enqueued: ${runRequestSchema.title}`);
      return grant;
    },
    async result(grant) {
      const all = await events(grant);
      const last = all.at(-1);
      if (last?.terminal !== true) throw new Error("the run has not ended");
      checkRun(all, last.data as RunResult); // terminal events hold the result
      return last.data as RunResult;
    },
  };
}

const skewed = (ms: number): Clock => ({ ...systemClock, now: () => Date.now() + ms });

describe("a worker whose clock is wrong", () => {
  test.each([-600_000, 600_000])("by %d ms runs by the server's time", async (ms) => {
    await using redis = await startRedis();
    const { runs, enqueue, result } = await setUp(redis, [{ text: "done" }], { clock: skewed(ms) });
    const grant = await enqueue({ wallClockMs: 60_000 });
    await runs.deliver(grant, "job");
    const { status, timings } = await result(grant);
    expect(status).toBe("succeeded");
    expect(Math.abs(Date.parse(timings.endedAt) - Date.now())).toBeLessThan(60_000);
    expect(Date.parse(timings.endedAt)).toBeGreaterThanOrEqual(Date.parse(timings.startedAt ?? ""));
  });
});

describe("a run whose events are damaged", () => {
  test("still ends, once", async () => {
    await using redis = await startRedis({ audit: false });
    const { runs, log, enqueue, events } = await setUp(redis, [{ text: "never" }]);
    const grant = await enqueue();
    const claimed = await log.claim(grant, { claimId: "dead", worker: "dead" });
    if (claimed.kind !== "claimed") throw new Error("not claimed");
    await redis.client().xdel(`{sd:0}:t:${tenantId}:run:${grant.runId}:events`, "1-0");
    await runs.deliver(grant, "job");
    const record = await log.record(grant);
    expect(record).toMatchObject({ state: "failed", terminal: true });
    await expect(events(grant)).rejects.toMatchObject({ code: "internal" });
  });
});

describe("two deliveries of one job", () => {
  test("at once are one attempt; the second waits for it, and finds nothing to do", async () => {
    await using redis = await startRedis();
    const { runs, enqueue, result } = await setUp(redis, [{ text: "done", delayMs: 100 }]);
    const grant = await enqueue();
    const [first, second] = await Promise.all([runs.deliver(grant, "job"), runs.deliver(grant, "job")]);
    expect([first.kind, second.kind].sort()).toEqual(["done", "nothing"]);
    expect((await result(grant)).attempts).toBe(1);
    expect(runs.active.size).toBe(0);
  });
});

describe("a delivery of a run whose attempt here has lost its lock", () => {
  test("waits until that one has let go, then takes over", async () => {
    await using redis = await startRedis();
    const { runs, enqueue, events, result } = await setUp(redis, [{ text: "slow", delayMs: 300 }]);
    const grant = await enqueue();
    const first = runs.deliver(grant, "job");
    await expect.poll(async () => (await events(grant)).at(-1)?.type).toBe("model.started");
    const second = runs.deliver(grant, "job");
    for (const run of runs.active) run.loseLock();
    expect((await Promise.all([first, second])).map(({ kind }) => kind)).toEqual(["put_back", "done"]);
    expect(await result(grant)).toMatchObject({ status: "succeeded", attempts: 2 });
  });
});

describe("a delivery that has waited longer than a lock lasts", () => {
  test("still trusts its own, which was renewed meanwhile", async () => {
    await using redis = await startRedis();
    const steps = [{ text: "a b c d e f", chunkDelayMs: 100 }];
    const { runs, enqueue, events, result } = await setUp(redis, steps, { lockMs: 100 });
    const grant = await enqueue();
    const first = runs.deliver(grant, "job");
    await expect.poll(async () => (await events(grant)).some(({ type }) => type === "model.started")).toBe(true);
    const second = runs.deliver(grant, "job");
    await expect
      .poll(async () => (await events(grant)).filter((event) => event.type === "model.delta").length)
      .toBeGreaterThan(2);
    for (const run of runs.active) run.loseLock();
    await first;
    await expect.poll(() => [...runs.active][0]?.owner.epoch).toBe(2);
    const [active] = runs.active;
    active?.checkLock(performance.now());
    expect(active?.signal.aborted).toBe(false);
    expect((await second).kind).toBe("done");
    expect(await result(grant)).toMatchObject({ status: "succeeded", attempts: 2 });
  });
});

describe("handing over", () => {
  test("meets runs whose claim is still under way", async () => {
    await using redis = await startRedis();
    const slow = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const { runs, enqueue, log } = await setUp(redis, [{ text: "never" }], {
      log: (own) =>
        new Proxy(own, {
          get(target, property: keyof RunLog) {
            if (property !== "claim") return target[property].bind(target);
            return async (...args: Parameters<RunLog["claim"]>) => {
              const reply = await target.claim(...args);
              asked.resolve();
              await slow.promise;
              return reply;
            };
          },
        }),
    });
    const grant = await enqueue();
    const delivery = runs.deliver(grant, "job");
    await asked.promise;
    runs.handOverAll();
    slow.resolve();
    expect(await delivery).toEqual({ kind: "put_back" });
    expect(await log.record(grant)).toMatchObject({ state: "queued", terminal: false });
    const again = await log.claim(grant, { claimId: "next", worker: "next" });
    expect(again).toMatchObject({ kind: "claimed", claim: { handedOver: true, lostAttempts: 0 } });
  });
});

describe("a lost attempt", () => {
  test("whose call was refused had no effects: the run starts again", async () => {
    await using redis = await startRedis();
    const dead = await setUp(redis, [{ toolCalls: [{ name: "caller_pay", arguments: {} }] }, { waitForAbort: true }]);
    const grant = await dead.enqueue();
    const abandoned = dead.runs.deliver(grant, "job");
    await expect.poll(async () => (await dead.events(grant)).at(-1)?.type).toBe("model.started");
    await expect.poll(async () => (await dead.events(grant)).length).toBeGreaterThan(6);
    for (const run of dead.runs.active) run.loseLock();
    await abandoned;
    const alive = await setUp(redis, [{ text: "again" }]);
    await alive.runs.deliver(grant, "job");
    const result = await alive.result(grant);
    expect(result).toMatchObject({ status: "succeeded", attempts: 2, receipts: [{ code: "invalid_arguments" }] });
    // The call that broke off was sent, too: its input is charged by estimate.
    const estimates = (await alive.events(grant)).flatMap((event) =>
      event.type === "model.started" ? [event.data] : [],
    );
    expect(estimates.every((data) => (data.inputTokensEstimate ?? 0) > 0)).toBe(true);
    expect(result.usage).toMatchObject({ turns: 3, modelCalls: 3, estimated: true });
  });
});

describe("what lies behind a failure", () => {
  test("is in the log, under the run's id, and in nothing that a tenant sees", async () => {
    await using redis = await startRedis();
    const tools = [pay(() => Promise.reject(new Error("the ledger at ledger.internal refused")))];
    const { runs, lines, enqueue, events } = await setUp(
      redis,
      [{ toolCalls: [{ name: "caller_pay", arguments: { amount: 1 } }] }, { text: "sorry" }],
      { tools },
    );
    const grant = await enqueue();
    await runs.deliver(grant, "job");
    const line = lines.find((one) => one.includes("ledger.internal"));
    expect(JSON.parse(line ?? "{}")).toMatchObject({ runId: grant.runId, tenantId, callId: "t1c0" });
    expect(JSON.stringify(await events(grant))).not.toContain("ledger.internal");
  });
});

describe("a caller tool", () => {
  test("cannot change the policy that it is shown", async () => {
    await using redis = await startRedis();
    const tools = [
      pay((_args, context) => {
        (context.workspacePolicy as { maxFiles: number }).maxFiles = 9_999; // what a careless handler might do
      }),
    ];
    const { runs, enqueue, result } = await setUp(
      redis,
      [{ toolCalls: [{ name: "caller_pay", arguments: { amount: 1 } }] }, { text: "no" }],
      { tools },
    );
    const grant = await enqueue();
    await runs.deliver(grant, "job");
    expect((await result(grant)).receipts).toMatchObject([{ status: "failed", code: "tool_failed" }]);
  });
});
