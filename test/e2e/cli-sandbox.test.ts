import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CliWorker, CONFIG, onlyObject, runCli, SKILLS, startCliWorker } from "../support/cli.ts";
import { ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";

describe.skipIf(!hasDocker)("with Docker", () => {
  let redis: TestRedis;
  let worker: CliWorker;

  beforeAll(async () => {
    await ensureSandboxImages();
    redis = await startRedis();
    worker = await startCliWorker(redis.url);
  });
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await redis[Symbol.asyncDispose]();
  });

  const request = [
    "--config",
    CONFIG,
    "--skill",
    "files",
    "--query",
    "traverse",
    "--allow",
    "workspace.read@1",
    "--json",
  ];
  const refused = {
    status: "succeeded",
    outputText: "It was refused.",
    receipts: [{ status: "failed", code: "path_refused", capabilityId: "workspace.read@1" }],
  };

  test("a path out of the workspace is refused in the receipt, and the run goes on", async () => {
    const { status, stdout } = await runCli(["run", ...request], { env: { REDIS_URL: redis.url } });
    expect([status, onlyObject(stdout)]).toMatchObject([0, refused]);
  });

  test("an in-process run makes its own sandbox", async () => {
    const { status, stdout } = await runCli(["run", "--local", "--skills", SKILLS, ...request]);
    expect([status, onlyObject(stdout)]).toMatchObject([0, refused]);
  });
});

test("an in-process run without an engine ends failed, with the code", async () => {
  const argv = ["run", "--local", "--skills", SKILLS, "--config", CONFIG, "--skill", "files", "--query", "traverse"];
  const env = { DOCKER_HOST: "unix:///nowhere/docker.sock" };
  const { status, stdout } = await runCli([...argv, "--allow", "workspace.read@1", "--json"], { env });
  expect([status, onlyObject(stdout)]).toMatchObject([1, { status: "failed", error: { code: "sandbox_unavailable" } }]);
});
