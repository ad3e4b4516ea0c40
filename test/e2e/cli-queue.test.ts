import { Producer } from "skilldock/producer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type CliEnd,
  type CliWorker,
  CONFIG,
  FIXTURES,
  onlyObject,
  runCli,
  startCli,
  startCliWorker,
} from "../support/cli.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { validateEvent, validateResult } from "../../src/shared/contracts/validate.ts";

let redis: TestRedis;
let worker: CliWorker;
let producer: Producer;

beforeAll(async () => {
  redis = await startRedis();
  producer = new Producer({ redis: redis.url });
  worker = await startCliWorker(redis.url, ["--sandbox", "none", "--tools", `${FIXTURES}/tools.ts`]);
});

afterAll(async () => {
  await producer.close();
  await worker[Symbol.asyncDispose]();
  await redis[Symbol.asyncDispose]();
});

function cli(argv: readonly string[], options: { readonly input?: string } = {}): Promise<CliEnd> {
  return runCli([...argv, "--config", CONFIG], { ...options, env: { REDIS_URL: redis.url } });
}

function start(argv: readonly string[]): ReturnType<typeof startCli> {
  return startCli([...argv, "--config", CONFIG], { env: { REDIS_URL: redis.url } });
}

function lines(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "");
}

/** Puts a run on the queue, without the command. */
async function enqueue(query: string, tenantId = "default"): Promise<string> {
  return (await producer.enqueue({ tenantId, skill: "greet", query })).runId;
}

async function enqueueAndAwait(query: string): Promise<string> {
  const runId = await enqueue(query);
  await producer.result({ tenantId: "default", runId, waitMs: 20_000 });
  return runId;
}

describe("skilldock run", () => {
  test("prints the final text on stdout, the events on stderr, and ends with 0", async () => {
    const { status, stdout, stderr } = await cli(["run", "--skill", "greet", "--query", "hi"]);
    expect([status, stdout]).toEqual([0, "Hello from the script.\n"]);
    const types = lines(stderr).flatMap((line) => /^ +\d+ {2}([a-z_.]+)/.exec(line)?.[1] ?? []);
    expect(types).toEqual([
      "run.queued",
      "run.started",
      "skill.activated",
      "model.started",
      "model.completed",
      "run.final_response",
    ]);
  });

  test("is silent but for the text with --quiet", async () => {
    const end = await cli(["run", "--skill", "greet", "--query", "hi", "--quiet"]);
    expect(end).toEqual({ status: 0, stdout: "Hello from the script.\n", stderr: "" });
  });

  test("prints one result with --json", async () => {
    const { status, stdout, stderr } = await cli([
      "run",
      "--json",
      "--skill",
      "order",
      "--query",
      "order",
      "--allow",
      "caller.lookup_order@1",
    ]);
    const result = onlyObject(stdout);
    expect([status, stderr, validateResult(result)]).toEqual([0, "", []]);
    expect(result).toMatchObject({
      status: "succeeded",
      outputText: "It is on its way.",
      receipts: [{ status: "succeeded" }],
    });
  });

  test("prints one event a line with --jsonl, and the last carries the result", async () => {
    const { status, stdout } = await cli(["run", "--jsonl", "--skill", "greet", "--query", "hi"]);
    const events = lines(stdout).map(
      (line) => JSON.parse(line) as { readonly sequence: number; readonly terminal: boolean; readonly data: unknown },
    );
    expect(status).toBe(0);
    expect(events.flatMap((event) => validateEvent(event))).toEqual([]);
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_event, index) => index + 1));
    expect(events.filter(({ terminal }) => terminal)).toEqual([events.at(-1)]);
    expect(events.at(-1)?.data).toMatchObject({ type: "result", status: "succeeded" });
  });

  test("reads the query from stdin", async () => {
    const { stdout } = await cli(["run", "--skill", "greet", "--query", "-", "--quiet"], { input: "json, please" });
    expect(stdout).toBe('{"answer": 42}\n');
  });

  test("ends with 1 for a run that does not succeed, and says why", async () => {
    const { status, stdout, stderr } = await cli(["run", "--skill", "nowhere", "--query", "hi"]);
    expect([status, stdout]).toEqual([1, ""]);
    expect(stderr).toContain("ended failed: skill_not_found: No skill named nowhere in the catalog.");
  });

  test("cancels the run and ends with 7 when --timeout is over", async () => {
    const { status, stdout } = await cli([
      "run",
      "--skill",
      "greet",
      "--query",
      "slow",
      "--timeout",
      "500ms",
      "--json",
    ]);
    expect(status).toBe(7);
    expect(onlyObject(stdout)).toMatchObject({ status: "cancelled", cancelReason: "timeout of the client" });
  });

  test("Ctrl-C cancels the run, waits for its end, and ends with 130", async () => {
    await using run = start(["run", "--skill", "greet", "--query", "slow"]);
    await run.says(/model\.started/);
    run.child.kill("SIGINT");
    const { status, stdout, stderr } = await run.end;
    expect([status, stdout]).toEqual([130, ""]);
    expect(stderr).toMatch(/run\.cancelled/);
    const [, runId = ""] = /run (\S+)\n/.exec(stderr) ?? [];
    const { stdout: answer } = await cli(["result", runId, "--json"]);
    expect(onlyObject(answer)).toMatchObject({ status: "cancelled", cancelReason: "interrupted" });
  });

  test("a second Ctrl-C leaves at once", async () => {
    await using other = await startRedis();
    await using run = startCli(["run", "--skill", "greet", "--query", "slow", "--config", CONFIG], {
      env: { REDIS_URL: other.url },
    });
    await run.says(/run\.queued/);
    // Nothing answers from here on, so the first Ctrl-C cannot end it.
    other.pause();
    run.child.kill("SIGINT");
    await run.says(/Ctrl-C again/);
    run.child.kill("SIGINT");
    expect((await run.end).status).toBe(130);
    other.resume();
  });
});

describe("skilldock enqueue", () => {
  test("prints the run's id alone on stdout", async () => {
    const { status, stdout, stderr } = await cli(["enqueue", "--skill", "greet", "--query", "hi"]);
    expect([status, lines(stdout)]).toEqual([0, [expect.stringMatching(/^[0-9a-f-]{36}$/)]]);
    expect(stderr).toContain(`skilldock follow ${stdout.trim()}`);
  });

  test("prints what Producer.enqueue returns with --json", async () => {
    const { stdout } = await cli([
      "enqueue",
      "--json",
      "--skill",
      "greet",
      "--run-id",
      "run-of-mine-1",
      "--tenant",
      "acme",
    ]);
    expect(onlyObject(stdout)).toEqual({
      runId: "run-of-mine-1",
      state: "queued",
      duplicate: false,
      streamKey: "{sd:0}:t:acme:run:run-of-mine-1:events",
      channel: "{sd:0}:t:acme:run:run-of-mine-1:notice",
    });
  });

  test("the same idempotency key gives the same run, another request with it ends with 4", async () => {
    const argv = ["enqueue", "--json", "--skill", "greet", "--idempotency-key", "k1"];
    const [first, second] = [await cli([...argv, "--query", "a"]), await cli([...argv, "--query", "a"])];
    expect(onlyObject(second.stdout)).toMatchObject({ runId: onlyObject(first.stdout)["runId"], duplicate: true });
    const { status, stdout } = await cli([...argv, "--query", "b"]);
    expect([status, onlyObject(stdout)]).toMatchObject([4, { error: { code: "idempotency_conflict" } }]);
  });

  test("a run id that is taken ends with 4", async () => {
    const argv = ["enqueue", "--json", "--skill", "greet", "--run-id", "taken-run-1"];
    await cli(argv);
    const { status, stdout } = await cli(argv);
    expect([status, onlyObject(stdout)]).toMatchObject([4, { error: { code: "run_id_conflict" } }]);
  });

  test("takes a whole request from stdin, and options go over its fields", async () => {
    const request = { skill: "greet", query: "hi", limits: { maxTurns: 2 }, metadata: { from: "file" } };
    const input = JSON.stringify(request);
    const { stdout } = await cli(["enqueue", "--request", "-", "--query", "json", "--max-tool-calls", "0"], { input });
    const { stdout: answer } = await cli(["result", stdout.trim(), "--wait", "20s"]);
    expect(answer).toBe('{"answer": 42}\n');
  });
});

describe("skilldock follow", () => {
  test("prints the events from any sequence on, and then the text", async () => {
    const runId = await enqueueAndAwait("hi");
    const { status, stdout } = await cli(["follow", runId, "--from", "4"]);
    expect(status).toBe(0);
    expect(stdout).toMatch(
      /^ {3}4 {2}model\.started[^]*\n {3}\d {2}run\.final_response[^]*\nHello from the script\.\n$/,
    );
  });

  test("still gives the result behind the last event", async () => {
    const runId = await enqueueAndAwait("hi");
    const { stdout } = await cli(["follow", runId, "--from", "99", "--jsonl"]);
    expect(onlyObject(stdout)).toMatchObject({ type: "result", runId, status: "succeeded" });
  });

  test("Ctrl-C leaves with 130, and the run goes on", async () => {
    const runId = await enqueue("slow");
    await using follower = start(["follow", runId]);
    await follower.says(/model\.started/);
    follower.child.kill("SIGINT");
    const { status, stderr } = await follower.end;
    expect([status, stderr]).toEqual([130, `skilldock: Left run ${runId}; it goes on.\n`]);
    expect((await cli(["cancel", runId])).stdout).toBe("requested\n");
  });

  test("ends quietly when its reader has gone", async () => {
    const runId = await enqueue("slow");
    await using follower = start(["follow", runId, "--jsonl"]);
    await follower.says(/model\.started/);
    follower.child.stdout?.destroy();
    expect(await follower.end).toMatchObject({ status: 0, stderr: "" });
    await producer.cancel({ tenantId: "default", runId });
  });
});

describe("skilldock result and cancel", () => {
  test("a run that has not ended has no result yet: 7", async () => {
    const runId = await enqueue("slow");
    const { status, stdout } = await cli(["result", runId, "--wait", "100ms", "--json"]);
    expect([status, onlyObject(stdout)]).toMatchObject([7, { error: { code: "wait_expired" } }]);
    const cancelled = await cli(["cancel", runId, "--reason", "changed my mind", "--json"]);
    expect(onlyObject(cancelled.stdout)).toEqual({ outcome: "requested", state: "running" });
    const ended = await cli(["result", runId, "--wait", "20s", "--json"]);
    expect([ended.status, onlyObject(ended.stdout)]).toMatchObject([
      1,
      { status: "cancelled", cancelReason: "changed my mind" },
    ]);
    expect((await cli(["cancel", runId])).stdout).toBe("already_ended\n");
  });

  test.each(["follow", "result", "cancel"])("%s of a run that is not there ends with 5", async (command) => {
    const { status, stdout, stderr } = await cli([command, "no-such-run"]);
    expect([status, stdout, stderr]).toEqual([5, "", "skilldock: No such run. (run_not_found)\n"]);
  });

  test("another tenant's run is not there", async () => {
    const runId = await enqueue("hi", "acme");
    expect((await cli(["result", runId, "--tenant", "rival"])).status).toBe(5);
    expect((await cli(["result", runId, "--tenant", "acme", "--wait", "20s"])).status).toBe(0);
  });
});

describe("skilldock worker", () => {
  test("serves its metrics and health", async () => {
    const answer = await fetch(`http://127.0.0.1:${worker.metricsPort}/readyz`);
    expect(answer.status).toBe(200);
  });

  test("SIGTERM lets a run finish within the grace, and ends with 0", async () => {
    await using own = await startRedis();
    const second = await startCliWorker(own.url, ["--sandbox", "none"]);
    await using run = startCli(["run", "--config", CONFIG, "--skill", "greet", "--query", "brief"], {
      env: { REDIS_URL: own.url },
    });
    await run.says(/model\.started/);
    second.process.child.kill("SIGTERM");
    expect((await second.process.end).status).toBe(0);
    expect(await run.end).toMatchObject({ status: 0, stdout: "one two three four five six seven eight nine ten\n" });
    expect(run.stderr()).not.toContain("run.resumed");
  });

  test("a run that does not finish within the grace is handed over to the next worker", async () => {
    await using own = await startRedis();
    const first = await startCliWorker(own.url, ["--sandbox", "none", "--grace", "0"]);
    await using run = startCli(["run", "--config", CONFIG, "--skill", "greet", "--query", "slow", "--jsonl"], {
      env: { REDIS_URL: own.url },
    });
    await run.says(/model\.started/);
    first.process.child.kill("SIGTERM");
    expect((await first.process.end).status).toBe(0);
    await using _next = await startCliWorker(own.url, ["--sandbox", "none"]);
    await run.says(/run\.resumed/);
    run.child.kill("SIGINT");
    expect((await run.end).status).toBe(130);
  });
});
