import { readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { parse } from "yaml";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DASHBOARD_FILE } from "../../deploy/grafana/dashboard.ts";
import { Producer } from "../../src/producer/index.ts";
import { createMemorySandbox } from "../../src/sandbox/memory/memory-sandbox.ts";
import type { RunRequestInput } from "../../src/shared/contracts/request.ts";
import {
  createModelRouter,
  ScriptedModel,
  startWorker,
  type CallerTool,
  type RunningWorker,
} from "../../src/worker/index.ts";
import { hasPrometheus, startPrometheus, type TestPrometheus } from "../support/prometheus.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

/**
 * Every expression of the dashboard and of the rules, asked of a real Prometheus that scraped a real worker twice, with runs
 * of every kind before each scrape: each must give at least one figure.
 */

const SKILLS = new URL("../fixtures/deploy/skills/", import.meta.url);
const RULES_FILE = new URL("../../deploy/prometheus/rules.yml", import.meta.url).pathname;
const CONTRACT_METRICS = [
  "skilldock_runs_total",
  "skilldock_run_duration_seconds",
  "skilldock_queue_wait_seconds",
  "skilldock_turns_total",
  "skilldock_tool_calls_total",
  "skilldock_tokens_total",
  "skilldock_model_request_seconds",
  "skilldock_runs_active",
  "skilldock_backlog_runs",
  "skilldock_sandbox_active",
  "skilldock_sandbox_start_seconds",
  "skilldock_sandbox_leaks_total",
  "skilldock_fenced_writes_total",
  "skilldock_attempts_total",
  "skilldock_budget_overshoot_tokens_total",
  "skilldock_build_info",
];

const TOOLS: readonly CallerTool[] = [
  {
    id: "caller.works@1",
    description: "Works.",
    inputSchema: { type: "object" },
    effects: "read",
    handler: () => ({ ok: true }),
  },
  {
    id: "caller.breaks@1",
    description: "Breaks.",
    inputSchema: { type: "object" },
    effects: "read",
    handler: () => {
      throw new Error("broken");
    },
  },
];

const MODEL = new ScriptedModel([
  {
    when: { query: "use tools" },
    steps: [
      {
        toolCalls: [
          { name: "caller_works", arguments: {} },
          { name: "caller_breaks", arguments: {} },
          { name: "caller_unknown", arguments: {} },
          { name: "workspace_write", arguments: { path: "note.txt", content: "Hello." } },
        ],
      },
      { text: "Done." },
    ],
  },
  { when: { query: "be silent" }, steps: [{ text: "Wait", waitForAbort: true }] },
  { when: { query: "fail" }, steps: [{ error: "model_unavailable" }] },
]);

type Kind = Omit<RunRequestInput, "tenantId">;

/** One run of each terminal state; the cancelled one is cancelled by the test. */
const KINDS: Readonly<Record<string, Kind>> = {
  succeeded: {
    skill: "greet",
    query: "use tools",
    allowedCapabilities: ["caller.works@1", "caller.breaks@1", "workspace.write@1"],
  },
  cancelled: { skill: "greet", query: "be silent" },
  failed: { skill: "greet", query: "fail" },
  timed_out: { skill: "greet", query: "be silent", limits: { wallClockMs: 1_000 } },
  limit_exceeded: {
    skill: "greet",
    query: "use tools",
    allowedCapabilities: ["caller.works@1"],
    limits: { maxTurns: 1 },
  },
  policy_denied: { skill: "greet", query: "use tools", allowedCapabilities: ["caller.nobody_knows@1"] },
};

describe.skipIf(!hasPrometheus)("what operators look at", () => {
  let redis: TestRedis;
  let worker: RunningWorker;
  let producer: Producer;
  let prometheus: TestPrometheus;
  const opened = new AsyncDisposableStack();

  beforeAll(async () => {
    redis = opened.use(await startRedis());
    worker = opened.use(
      await startWorker({
        skillsDirs: [SKILLS],
        redis: redis.url,
        models: createModelRouter({ default: "fast", routes: [{ id: "fast", model: "fast-1", adapter: MODEL }] }),
        tools: TOOLS,
        sandbox: () => createMemorySandbox(),
        logger: pino({ level: "silent" }),
        metricsPort: 0,
        stalledIntervalMs: 500,
      }),
    );
    producer = new Producer({ redis: redis.url });
    opened.defer(() => producer.close());
    prometheus = opened.use(await startPrometheus({ targets: [`127.0.0.1:${worker.metricsPort}`] }));
    // What a rate sees is the difference between two scrapes.
    for (let round = 0; round < 2; round += 1) {
      await Promise.all(Object.entries(KINDS).map(([status, kind]) => runToItsEnd(status, kind)));
      await prometheus.nextScrape();
    }
  });

  afterAll(() => opened.disposeAsync());

  async function runToItsEnd(status: string, kind: Kind): Promise<void> {
    const { runId } = await producer.enqueue({ ...kind, tenantId: "acme" });
    for await (const item of producer.follow({ tenantId: "acme", runId, fromSequence: 1 })) {
      if (item.type === "model.delta" && status === "cancelled") await producer.cancel({ tenantId: "acme", runId });
      if (item.type === "result") expect(item).toMatchObject({ status });
    }
  }

  test("Prometheus holds what happened", async () => {
    const ended = await prometheus.query("sum by (status) (skilldock_runs_total)");
    expect(toRecord(ended, "status")).toEqual(Object.fromEntries(Object.keys(KINDS).map((status) => [status, 2])));
    const calls = await prometheus.query("sum by (status) (skilldock_tool_calls_total)");
    expect(toRecord(calls, "status")).toMatchObject({
      failed: 2,
      succeeded: expect.any(Number),
      blocked: expect.any(Number),
    });
    const requests = await prometheus.query("sum by (outcome) (skilldock_model_request_seconds_count)");
    expect(toRecord(requests, "outcome")).toEqual({ ok: expect.any(Number), aborted: 4, model_unavailable: 2 });
    expect(await prometheus.query("skilldock_sandbox_leaks_total + skilldock_fenced_writes_total")).toMatchObject([
      { value: 0 },
    ]);
  });

  test("promtool finds nothing wrong with the worker's metrics", async () => {
    const text = await (await fetch(`http://127.0.0.1:${worker.metricsPort}/metrics`)).text();
    const check = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
    expect(check.status, check.stdout + check.stderr).toBe(0);
  });

  test.each(dashboardExpressions())("the dashboard's $panel: $expr", async ({ expr }) => {
    await expectFigure(expr);
  });

  test.each(ruleExpressions())("the rule $name: $expr", async ({ expr }) => {
    await expectFigure(expr);
  });

  async function expectFigure(expr: string): Promise<void> {
    const samples = await prometheus.query(expr);
    expect(samples).not.toEqual([]);
    expect(samples.filter((sample) => Number.isFinite(sample.value))).not.toEqual([]);
  }
});

test("the dashboard shows every metric of the contract", () => {
  const all = dashboardExpressions()
    .map(({ expr }) => expr)
    .join("\n");
  for (const metric of CONTRACT_METRICS) expect(all).toContain(metric);
});

function toRecord(
  samples: Awaited<ReturnType<TestPrometheus["query"]>>,
  label: string,
): Readonly<Record<string, number>> {
  return Object.fromEntries(samples.map(({ labels, value }) => [labels[label] ?? "", value]));
}

/** As Grafana asks, with its variables filled in. */
function dashboardExpressions(): readonly { readonly panel: string; readonly expr: string }[] {
  // Its shape is checked against its source in deploy-rules.test.ts.
  const dashboard = JSON.parse(readFileSync(DASHBOARD_FILE, "utf8")) as {
    readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
  };
  return dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ panel: title, expr: expr.replaceAll("$__rate_interval", "1m") })),
  );
}

/** An alert that does not fire is an empty answer: of alerts, what they compare. */
function ruleExpressions(): readonly { readonly name: string; readonly expr: string }[] {
  const rules = parse(readFileSync(RULES_FILE, "utf8")) as {
    readonly groups: readonly {
      readonly rules: readonly { readonly record?: string; readonly alert?: string; readonly expr: string }[];
    }[];
  };
  return rules.groups
    .flatMap((group) => group.rules)
    .flatMap(({ record, alert, expr }) =>
      record === undefined
        ? expr
            .split(" and ")
            .map((part) => ({ name: alert ?? "", expr: part.replace(/\s*(==|[<>]=?)\s*[\d.]+\s*$/, "") }))
        : [{ name: record, expr }],
    );
}
