import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Producer } from "../../src/producer/index.ts";
import { hasDocker } from "../support/docker.ts";
import { hasPrometheus } from "../support/prometheus.ts";
import { findFreePort, startRedis, type TestRedis } from "../support/redis.ts";

/** The image as an operator builds and runs it, on this machine's engine, against a real Redis. */

const ROOT = new URL("../..", import.meta.url).pathname;
const FIXTURES = new URL("../fixtures/deploy/", import.meta.url).pathname;
/** The same each time, so that the engine's cache makes a second build quick. */
const IMAGE = "skilldock:test";
const BUILD_TIMEOUT_MS = 600_000;
const HEALTHY_TIMEOUT_MS = 30_000;
const GRACE_MS = 20_000;
const execute = promisify(execFile);

async function docker(...parts: readonly (string | readonly string[])[]): Promise<string> {
  const running = execute("docker", parts.flat(), {
    cwd: ROOT,
    env: { ...process.env, DOCKER_BUILDKIT: "0" },
    maxBuffer: 64_000_000,
  });
  return (await running).stdout.trim();
}

/** With what the builder printed, where it fails. */
async function buildImage(): Promise<void> {
  const { stdout: base } = await execute(`${ROOT}deploy/build-base`, { cwd: ROOT });
  try {
    await docker(
      ["build", "--force-rm", "--network", "host", "--build-arg", `BASE=${base.trim()}`],
      ["--file", "deploy/Dockerfile", "--tag", IMAGE, "."],
    );
  } catch (error) {
    const printed = error instanceof Error && "stdout" in error ? String(error.stdout).slice(-4_000) : "";
    throw new Error(`the image cannot be built: ${printed}`, { cause: error });
  }
}

interface Container {
  readonly name: string;
  readonly metricsUrl: string;
}

/** Runs the image as compose.yaml does, but in the host's network and listening on loopback only. */
async function startContainer(redisUrl: string): Promise<Container> {
  const name = `skilldock-test-${randomUUID()}`;
  const port = await findFreePort();
  await docker(
    ["run", "--detach", "--name", name, "--network", "host", "--init", "--read-only", "--tmpfs", "/tmp"],
    ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--health-interval", "1s"],
    ["--env", `REDIS_URL=${redisUrl}`, "--env", "SKILLDOCK_SANDBOX=none"],
    ["--env", "SKILLDOCK_METRICS_HOST=127.0.0.1", "--env", `SKILLDOCK_METRICS_PORT=${port}`],
    ["--volume", `${FIXTURES}skills:/skills:ro`, "--volume", `${FIXTURES}:/etc/skilldock:ro`],
    IMAGE,
  );
  return { name, metricsUrl: `http://127.0.0.1:${port}/metrics` };
}

async function inspect(container: Container, format: string): Promise<string> {
  return docker("inspect", "--format", format, container.name);
}

async function untilHealthy(container: Container): Promise<void> {
  const isHealthy = async (): Promise<void> =>
    expect(await inspect(container, "{{.State.Status}} {{.State.Health.Status}}")).toBe("running healthy");
  try {
    await vi.waitFor(isHealthy, { timeout: HEALTHY_TIMEOUT_MS, interval: 200 });
  } catch (error) {
    const { stdout, stderr } = await execute("docker", ["logs", container.name]);
    throw new Error(`the container did not become healthy: ${stdout}${stderr}`, { cause: error });
  }
}

describe.skipIf(!hasDocker)("the worker's image", () => {
  let redis: TestRedis;
  let producer: Producer;
  let container: Container;

  beforeAll(async () => {
    await buildImage();
    redis = await startRedis();
    producer = new Producer({ redis: redis.url });
    container = await startContainer(redis.url);
    await untilHealthy(container);
  }, BUILD_TIMEOUT_MS);

  afterAll(async () => {
    if (container !== undefined) await docker("rm", "--force", "--volumes", container.name);
    await producer?.close();
    await redis?.[Symbol.asyncDispose]();
  });

  test("runs without a right: neither root, nor a capability, nor a way to new ones, nor a root to write to", async () => {
    expect(await inspect(container, "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}")).toBe("10001:10001 true");
    const status = await docker("exec", container.name, "cat", "/proc/1/status");
    expect(status).toMatch(/^Uid:\t10001\t10001\t10001\t10001$/m);
    for (const set of ["CapEff", "CapPrm", "CapBnd"]) expect(status).toMatch(new RegExp(`^${set}:\\t0+$`, "m"));
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    await expect(docker("exec", container.name, "touch", "/opt/skilldock/x")).rejects.toThrow("Read-only file system");
  });

  test("holds what runs and nothing of development", async () => {
    const files = await docker("exec", container.name, "ls", "/opt/skilldock", "/opt/skilldock/node_modules/.bin");
    for (const file of ["bin", "contracts", "dist", "node_modules", "package.json"]) expect(files).toContain(file);
    for (const file of ["src", "test", "vitest", "tsc", "oxlint"]) expect(files.split("\n")).not.toContain(file);
    expect(await docker("exec", container.name, "/opt/skilldock/bin/skilldock", "--version")).toMatch(/^\d+\.\d+\.\d+/);
  });

  test("executes a run that a producer outside enqueued", async () => {
    const { runId } = await producer.enqueue({ tenantId: "acme", skill: "greet", query: "Greet Ada." });
    const result = await producer.result({ tenantId: "acme", runId, waitMs: 15_000 });
    expect(result).toMatchObject({ status: "succeeded", outputText: "Hello!", skill: { ref: "greet" } });
  });

  test.skipIf(!hasPrometheus)("shows metrics that promtool finds nothing wrong with", async () => {
    const text = await (await fetch(container.metricsUrl)).text();
    const check = spawnSync("promtool", ["check", "metrics"], { input: text, encoding: "utf8" });
    expect(check.status, check.stdout + check.stderr).toBe(0);
    expect(text).toContain('skilldock_runs_total{status="succeeded",skill="greet"} 1');
  });

  test("ends on SIGTERM within the grace, after the run that it is at", async () => {
    const { runId } = await producer.enqueue({ tenantId: "acme", skill: "greet", query: "Greet slowly." });
    for await (const item of producer.follow({ tenantId: "acme", runId, fromSequence: 1 })) {
      if (item.type === "model.delta") break;
    }
    const since = performance.now();
    await docker("stop", "--time", "60", container.name);
    expect(performance.now() - since).toBeLessThan(GRACE_MS);
    expect(await inspect(container, "{{.State.ExitCode}} {{.State.OOMKilled}}")).toBe("0 false");
    const result = await producer.result({ tenantId: "acme", runId, waitMs: 1_000 });
    expect(result).toMatchObject({ status: "succeeded", attempts: 1 });
  });
});
