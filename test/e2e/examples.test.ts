import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { startRedis } from "../support/redis.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

/** What each example must print. */
const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  "hello.ts": ["succeeded: Refuse orders without a currency"],
  "streaming.ts": ["One two three four five", "cancelled: that is enough"],
  "caller-tool.ts": ["call   caller.lookup_order@1", "result succeeded", "The order system says:"],
  "workspace.ts": ["workspace.read@1 succeeded", "workspace_write blocked: narrowed", "evidence: resource"],
  "quickstart.ts": ["1 run.queued", "run.final_response", "succeeded: Refuse orders without a currency"],
  "openai-smoke.ts": ["OPENAI_API_KEY is not set"],
};

test("every example is run here", () => {
  expect(
    readdirSync(`${root}/examples`)
      .filter((name) => name.endsWith(".ts"))
      .sort(),
  ).toEqual(Object.keys(EXPECTED).sort());
});

test.each(Object.entries(EXPECTED))("%s does what it says", async (name, lines) => {
  await using redis = await startRedis();
  const env = { ...process.env, REDIS_URL: redis.url, OPENAI_API_KEY: "" };
  const { stdout } = await run(process.execPath, ["--conditions=skilldock-source", `examples/${name}`], {
    cwd: root,
    env,
    timeout: 60_000,
  });
  for (const line of lines) expect(stdout).toContain(line);
});
