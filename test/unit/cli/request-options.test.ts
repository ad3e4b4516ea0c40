import { Command } from "commander";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addRequestOptions, buildRequest } from "../../../src/cli/request-options.ts";
import { testTerminal } from "../../support/screen.ts";

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "skilldock-request-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function requestOf(
  argv: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<unknown> {
  const command = addRequestOptions(new Command()).option("--tenant <id>").exitOverride().parse(argv, { from: "user" });
  const { terminal } = testTerminal({ stdout: "pipe", stderr: "pipe" });
  return buildRequest({ ...terminal, environment }, command.opts());
}

test("every option lands in its field of the request", async () => {
  const schema = join(directory, "schema.json");
  writeFileSync(schema, '{"type":"object"}');
  const argv = [
    [
      "--tenant",
      "acme",
      "--skill",
      "greet",
      "--discover",
      "a,b",
      "--query",
      "q",
      "--arguments",
      "a",
      "--allow",
      "x@1,y@1",
    ],
    ["--allow", "z@1", "--model", "fast:m", "--thread", "thread-1", "--max-turns", "2", "--max-tool-calls", "0"],
    ["--wall-clock", "30s", "--max-output-bytes", "5", "--max-total-tokens", "6", "--max-cost-usd", "0.5"],
    ["--max-attempts", "2", "--max-queue-wait", "1h", "--response-schema", schema, "--env", "A=1", "--env", "B=2=3"],
    ["--network", "disabled", "--idempotency-key", "k", "--run-id", "r", "--correlation-id", "c", "--priority", "9"],
    ["--start-after", "2026-01-01T00:00:00Z", "--metadata", "m=1", "--on-worker-loss", "restart"],
  ].flat();
  expect(await requestOf(argv)).toEqual({
    tenantId: "acme",
    skill: "greet",
    discover: ["a", "b"],
    query: "q",
    arguments: "a",
    allowedCapabilities: ["x@1", "y@1", "z@1"],
    model: "fast:m",
    threadId: "thread-1",
    limits: {
      maxTurns: 2,
      maxToolCalls: 0,
      wallClockMs: 30_000,
      maxOutputBytes: 5,
      maxTotalTokens: 6,
      maxCostUsd: 0.5,
      maxAttempts: 2,
      maxQueueWaitMs: 3_600_000,
    },
    responseSchema: { type: "object" },
    workspacePolicy: { environment: { A: "1", B: "2=3" }, network: "disabled" },
    idempotencyKey: "k",
    runId: "r",
    correlationId: "c",
    priority: 9,
    startAfter: "2026-01-01T00:00:00Z",
    metadata: { m: "1" },
    onWorkerLoss: "restart",
  });
});

test("nothing that was not given is in the request", async () => {
  expect(await requestOf(["--skill", "greet"])).toEqual({ tenantId: "default", skill: "greet" });
});

test("options go over the fields of a request file, limit by limit", async () => {
  const file = join(directory, "request.json");
  writeFileSync(
    file,
    JSON.stringify({
      tenantId: "acme",
      skill: "a",
      limits: { maxTurns: 1, maxToolCalls: 1 },
      colour: "kept, to be refused",
    }),
  );
  expect(
    await requestOf(["--request", file, "--skill", "b", "--max-turns", "9"], { SKILLDOCK_TENANT: "other" }),
  ).toEqual({
    tenantId: "acme",
    skill: "b",
    limits: { maxTurns: 9, maxToolCalls: 1 },
    colour: "kept, to be refused",
  });
});

test("the tenant is the option's, else the environment's, else default", async () => {
  const environment = { SKILLDOCK_TENANT: "acme" };
  expect(await requestOf(["--skill", "a"], environment)).toMatchObject({ tenantId: "acme" });
  expect(await requestOf(["--skill", "a", "--tenant", "rival"], environment)).toMatchObject({ tenantId: "rival" });
});

test.each([
  ["no skill and nothing to discover", ["--query", "q"]],
  ["stdin for two things", ["--skill", "a", "--query", "-", "--response-schema", "-"]],
  ["a request file that is not there", ["--request", "absent.json"]],
])("%s is an invalid request", async (_what, argv) => {
  await expect(requestOf(argv)).rejects.toMatchObject({ code: "invalid_request" });
});
