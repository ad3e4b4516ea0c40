import { spawnSync } from "node:child_process";
import { connect } from "node:net";
import { once } from "node:events";
import { describe, expect, test } from "vitest";
import { RunError } from "../../src/shared/errors.ts";
import { startHealthServer, type Readiness } from "../../src/shared/metrics/http.ts";
import { createMetrics, toModelOutcome, type Metrics } from "../../src/shared/metrics/metrics.ts";

const SKILLS = ["refund", "report"];

function busyMetrics(options: { defaultMetrics?: "include" } = {}): Metrics {
  const metrics = createMetrics({ skills: SKILLS, capabilities: ["workspace.read@1"], models: ["fast"], ...options });
  metrics.runEnded({ status: "succeeded", skill: "refund", durationSeconds: 12 });
  metrics.queueWaited(0.02);
  metrics.turn({ model: "fast" });
  metrics.toolCall({ capability: "workspace.read@1", status: "succeeded" });
  metrics.tokens({ model: "fast", inputTokens: 10, cachedInputTokens: 4, outputTokens: 3, reasoningTokens: 1 });
  metrics.modelRequest({ model: "fast", outcome: "ok", seconds: 1.5 });
  metrics.attempt({ reason: "first" });
  metrics.fencedWrite();
  metrics.budgetOvershoot(7);
  metrics.sandboxStarted(0.4);
  metrics.sandboxesLeaked(1);
  metrics.runsActive(() => 3);
  metrics.sandboxActive(() => 2);
  metrics.backlogRuns(9);
  return metrics;
}

async function exposed(metrics: Metrics): Promise<string> {
  return (await metrics.expose()).text;
}

describe("the metrics", () => {
  test("have exactly the names, kinds and labels of the contract", async () => {
    const text = await exposed(busyMetrics());
    const kinds = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => `${name} ${kind}`).sort();
    expect(kinds).toEqual(
      [
        "skilldock_attempts_total counter",
        "skilldock_backlog_runs gauge",
        "skilldock_budget_overshoot_tokens_total counter",
        "skilldock_build_info gauge",
        "skilldock_fenced_writes_total counter",
        "skilldock_model_request_seconds histogram",
        "skilldock_queue_wait_seconds histogram",
        "skilldock_run_duration_seconds histogram",
        "skilldock_runs_active gauge",
        "skilldock_runs_total counter",
        "skilldock_sandbox_active gauge",
        "skilldock_sandbox_leaks_total counter",
        "skilldock_sandbox_start_seconds histogram",
        "skilldock_tokens_total counter",
        "skilldock_tool_calls_total counter",
        "skilldock_turns_total counter",
      ].sort(),
    );
    for (const sample of [
      'skilldock_runs_total{status="succeeded",skill="refund"} 1',
      "skilldock_run_duration_seconds_count 1",
      "skilldock_queue_wait_seconds_count 1",
      'skilldock_turns_total{model="fast"} 1',
      'skilldock_tool_calls_total{capability="workspace.read@1",status="succeeded"} 1',
      'skilldock_tokens_total{model="fast",kind="input"} 10',
      'skilldock_tokens_total{model="fast",kind="cached_input"} 4',
      'skilldock_tokens_total{model="fast",kind="output"} 3',
      'skilldock_tokens_total{model="fast",kind="reasoning"} 1',
      'skilldock_model_request_seconds_count{model="fast",outcome="ok"} 1',
      "skilldock_runs_active 3",
      "skilldock_backlog_runs 9",
      "skilldock_sandbox_active 2",
      "skilldock_sandbox_start_seconds_count 1",
      "skilldock_sandbox_leaks_total 1",
      "skilldock_fenced_writes_total 1",
      'skilldock_attempts_total{reason="first"} 1',
      "skilldock_budget_overshoot_tokens_total 7",
    ]) {
      expect(text.split("\n")).toContain(sample);
    }
    expect(text).toMatch(/skilldock_build_info\{version="\d+\.\d+\.\d+",node="v\d+\.\d+\.\d+"\} 1/);
  });

  test.each([{}, { defaultMetrics: "include" as const }])("are found in order by promtool (%o)", async (options) => {
    const text = await exposed(busyMetrics(options));
    const promtool = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
    if (promtool.error !== undefined && process.env["CI"] !== "true") {
      console.warn("skipped: promtool is not installed");
      return;
    }
    expect(promtool.stdout + promtool.stderr).toBe("");
    expect(promtool.status).toBe(0);
  });

  test("count unknown skills, capabilities and models as _other", async () => {
    const metrics = busyMetrics();
    for (let index = 0; index < 200; index += 1) {
      metrics.runEnded({ status: "failed", skill: `made-up-${index}`, durationSeconds: 1 });
      metrics.toolCall({ capability: `caller.x@${index}`, status: "blocked" });
      metrics.turn({ model: `m${index}` });
    }
    metrics.runEnded({ status: "failed", skill: undefined, durationSeconds: 1 });
    const text = await exposed(metrics);
    expect(text).toContain('skilldock_runs_total{status="failed",skill="_other"} 201');
    expect(text).toContain('skilldock_tool_calls_total{capability="_other",status="blocked"} 200');
    expect(text).toContain('skilldock_turns_total{model="_other"} 200');
    expect(text).not.toContain("made-up");
  });

  test("stay few where no list of values was given", async () => {
    const metrics = createMetrics();
    for (let index = 0; index < 1_000; index += 1) metrics.turn({ model: `m${index}` });
    const text = await exposed(metrics);
    expect(text.match(/^skilldock_turns_total\{/gm)).toHaveLength(65);
    expect(text).toContain('skilldock_turns_total{model="_other"} 936');
  });

  test("begin at zero for every status of a known skill", async () => {
    const text = await exposed(createMetrics({ skills: SKILLS }));
    expect(text.match(/^skilldock_runs_total\{.*\} 0$/gm)).toHaveLength(6 * 3);
  });

  test("of two workers in one process do not meet", async () => {
    const one = createMetrics();
    const two = createMetrics();
    one.fencedWrite();
    expect(await exposed(one)).toContain("skilldock_fenced_writes_total 1");
    expect(await exposed(two)).toContain("skilldock_fenced_writes_total 0");
  });

  test("name a failed model request by its code, or internal", () => {
    expect(toModelOutcome("model_refused")).toBe("model_refused");
    expect(toModelOutcome("tool_failed")).toBe("internal");
  });
});

describe("the health server", () => {
  test("serves metrics, health and readiness, and nothing else", async () => {
    let state: Readiness = { ready: true, reasons: [] };
    await using server = await startHealthServer({ port: 0, metrics: busyMetrics(), ready: () => state });
    const url = `http://127.0.0.1:${server.port}`;
    const metrics = await fetch(`${url}/metrics`);
    expect(metrics.status).toBe(200);
    expect(metrics.headers.get("content-type")).toContain("text/plain; version=0.0.4");
    expect(await metrics.text()).toContain("skilldock_runs_active 3");
    expect(await (await fetch(`${url}/healthz?x=1`)).json()).toEqual({ status: "ok" });
    expect((await fetch(`${url}/readyz`)).status).toBe(200);
    state = { ready: false, reasons: ["draining"] };
    const unready = await fetch(`${url}/readyz`);
    expect(unready.status).toBe(503);
    expect(await unready.json()).toEqual({ ready: false, reasons: ["draining"] });
    for (const path of ["/", "/metrics/", "/../metrics/x", "/Healthz"])
      expect((await fetch(url + path)).status).toBe(404);
  });

  test("answers HEAD without a body and refuses other methods", async () => {
    await using server = await startHealthServer({
      port: 0,
      metrics: createMetrics(),
      ready: () => ({ ready: true, reasons: [] }),
    });
    const url = `http://127.0.0.1:${server.port}/healthz`;
    const head = await fetch(url, { method: "HEAD" });
    expect(head.status).toBe(200);
    expect(await head.text()).toBe("");
    const post = await fetch(url, { method: "POST", body: "x".repeat(100_000) });
    expect(post.status).toBe(405);
    expect(post.headers.get("allow")).toBe("GET, HEAD");
  });

  test("says nothing of what went wrong inside", async () => {
    const fail = () => {
      throw new Error("secret detail");
    };
    await using server = await startHealthServer({ port: 0, metrics: { expose: async () => fail() }, ready: fail });
    const url = `http://127.0.0.1:${server.port}`;
    const metrics = await fetch(`${url}/metrics`);
    expect([metrics.status, await metrics.text()]).toEqual([500, "internal error\n"]);
    const ready = await fetch(`${url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([503, { ready: false, reasons: ["internal"] }]);
  });

  test("listens on loopback unless told otherwise", async () => {
    await using server = await startHealthServer({
      port: 0,
      metrics: createMetrics(),
      ready: () => ({ ready: true, reasons: [] }),
    });
    expect(server.host).toBe("127.0.0.1");
  });

  test("reports a taken port and an impossible one as configuration", async () => {
    const options = { metrics: createMetrics(), ready: () => ({ ready: true, reasons: [] }) };
    await using server = await startHealthServer({ ...options, port: 0 });
    const taken = await startHealthServer({ ...options, port: server.port }).catch((error: unknown) => error);
    expect(taken).toBeInstanceOf(RunError);
    expect(taken).toMatchObject({
      code: "invalid_configuration",
      message: `The metrics port ${server.port} on 127.0.0.1 cannot be used: another process listens there. Choose another, or 0 for a free one.`,
    });
    await expect(startHealthServer({ ...options, port: 70_000 })).rejects.toMatchObject({
      code: "invalid_configuration",
    });
    await expect(startHealthServer({ ...options, port: 0, host: "192.0.2.1" })).rejects.toMatchObject({
      code: "invalid_configuration",
    });
  });

  test("closes at once, also with a connection open, and twice", async () => {
    const server = await startHealthServer({
      port: 0,
      metrics: createMetrics(),
      ready: () => ({ ready: true, reasons: [] }),
    });
    const socket = connect(server.port, "127.0.0.1");
    await once(socket, "connect");
    socket.write("GET /healthz HTTP/1.1\r\n");
    const started = performance.now();
    await Promise.all([server.close(), server.close()]);
    await server.close();
    expect(performance.now() - started).toBeLessThan(5_000);
    socket.destroy();
  });
});
