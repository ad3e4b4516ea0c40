import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { type CliProcess, startProgram } from "../support/cli.ts";
import { ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { startRedis } from "../support/redis.ts";

const START = join(import.meta.dirname, "..", "..", "src", "cli", "start.ts");

function start(argv: readonly string[] = [], env: Readonly<Record<string, string>> = {}): CliProcess {
  return startProgram(process.execPath, ["--conditions=skilldock-source", START, ...argv], { env });
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function figures(text: string, pattern: RegExp): readonly number[] {
  return [...text.matchAll(pattern)].map((match) => Number(match[1]));
}

describe.skipIf(!hasDocker)("npm start", () => {
  beforeAll(ensureSandboxImages);

  test("shows three runs that end as they should, and leaves nothing behind", async () => {
    const { status, stdout, stderr } = await start().end;
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("ok: succeeded, succeeded, cancelled\n");
    expect(stdout).toContain("workspace_execute_command");
    expect(stdout).toContain('"code": "tax_total"');
    expect(stdout).toMatch(/its end was here \d+ ms after it was asked for/);
    expect(stdout).toMatch(
      /redis-cli -u redis:\/\/127\.0\.0\.1:\d+ XRANGE '\{sd:0\}:t:demo:run:[0-9a-f-]+:events' - \+\n {2}1-0 {2}2-0 {2}3-0 /,
    );
    const pids = figures(stdout, /process (\d+)/g);
    expect(pids).toHaveLength(2);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  test("uses the Redis that REDIS_URL names, and leaves it running", async () => {
    await using redis = await startRedis();
    const { status, stdout } = await start([], { REDIS_URL: redis.url }).end;
    expect([status, stdout.split("\n")[0]]).toEqual([0, "redis    the one in REDIS_URL"]);
    expect(await redis.client().exists("{sd:0}:waiting")).toBe(0);
  });

  test("Ctrl-C ends it with 130, and what it started with it", async () => {
    await using demo = start();
    await demo.says(/run\.started/);
    demo.child.kill("SIGINT");
    const { status, stdout } = await demo.end;
    expect(status).toBe(130);
    expect(figures(stdout, /process (\d+)/g).filter(isAlive)).toEqual([]);
  });
});

describe("npm start refuses", () => {
  test.each([
    ["a paid route without its key", ["--model", "openai"], {}, 3, /OPENAI_API_KEY.*\(invalid_configuration\)\n$/],
    ["a route that does not exist", ["--model", "nowhere"], {}, 3, /"nowhere".*\(invalid_configuration\)\n$/],
    ["an unknown option", ["--frob"], {}, 2, /--frob[^]*Usage: npm start/],
    ["a Redis that does not answer", [], { REDIS_URL: "redis://127.0.0.1:1" }, 8, /\(redis_unavailable\)\n$/],
    [
      "a Docker that does not answer",
      [],
      { DOCKER_HOST: "unix:///nowhere/docker.sock" },
      8,
      /\(sandbox_unavailable\)\n$/,
    ],
  ] as const)("%s", async (_what, argv, env, expected, message) => {
    const { status, stderr } = await start(argv, env).end;
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(status).toBe(expected);
  });
});
