import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it, vi } from "vitest";
import { runKeys } from "../../src/shared/redis/keys.ts";
import { findFreePort, startRedis } from "../support/redis.ts";

const keys = runKeys(0, "acme", "run-00000001");

function event(sequence: number, change: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    schemaVersion: "1",
    runId: "run-00000001",
    tenantId: "acme",
    sequence,
    type: "model.started",
    time: "2026-01-01T00:00:00.000Z",
    attempt: 1,
    terminal: false,
    data: { turn: sequence },
    ...change,
  });
}

describe("the Redis of a test", () => {
  it("answers on a port of its own and is gone afterwards", async () => {
    let pid = 0;
    {
      await using redis = await startRedis();
      pid = redis.pid;
      expect(await redis.client().ping()).toBe("PONG");
    }
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });

  it("does not outlive a test process that is killed", async () => {
    const support = new URL("../support/redis.ts", import.meta.url).pathname;
    const script = `import { startRedis } from ${JSON.stringify(support)}; console.log((await startRedis()).pid);`;
    const owner = spawn(process.execPath, ["--conditions=skilldock-source", "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line]: unknown[] = await once(owner.stdout, "data");
    const pid = Number(String(line));
    expect(() => process.kill(pid, 0)).not.toThrow();
    owner.kill("SIGKILL");
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), { timeout: 5_000, interval: 10 });
  });

  it("comes back with its data after a restart when it writes an append-only file", async () => {
    await using redis = await startRedis({ appendonly: true });
    const before = redis.pid;
    await redis.client().set("a", "1");
    await redis.kill();
    await redis.restart();
    expect(redis.pid).not.toBe(before);
    expect(await redis.client().get("a")).toBe("1");
  });

  it("says why where the port is taken", async () => {
    const port = await findFreePort();
    await using _first = await startRedis({ port });
    await expect(startRedis({ port })).rejects.toThrow(/ended with code 1|belongs to another/);
  });

  it.each([
    [
      "a gap",
      [
        ["1-0", event(1)],
        ["3-0", event(3)],
      ],
      "entry 2 has the id 3-0",
    ],
    ["a sequence other than the id", [["1-0", event(2)]], "1-0 says sequence 2"],
    ["an invalid event", [["1-0", event(1, { data: {} })]], "1-0 is not a valid event"],
    ["an event of another run", [["1-0", event(1, { runId: "run-00000002" })]], "belongs to acme/run-00000002"],
    [
      "an attempt that writes after its successor",
      [
        ["1-0", event(1, { attempt: 2 })],
        ["2-0", event(2)],
      ],
      "attempt 1 wrote event 2 after attempt 2",
    ],
    [
      "a record that lags",
      [
        ["1-0", event(1)],
        ["2-0", event(2)],
      ],
      "the record says sequence 1, the stream has 2",
    ],
  ] as const)("finds %s", async (_name, entries, violation) => {
    await using redis = await startRedis({ audit: false });
    const client = redis.client();
    for (const [id, text] of entries) await client.xadd(keys.events, id, "e", text);
    await client.hset(keys.record, "state", "running", "seq", "1");
    await expect(redis.audit()).rejects.toThrow(violation);
  });

  it("finds a living run whose stream would expire", async () => {
    await using redis = await startRedis({ audit: false });
    const client = redis.client();
    await client.xadd(keys.events, "1-0", "e", event(1));
    await client.hset(keys.record, "state", "running", "seq", "1");
    await redis.audit();
    await client.pexpire(keys.events, 60_000);
    await expect(redis.audit()).rejects.toThrow("the stream of a living run has a life");
  });
});
