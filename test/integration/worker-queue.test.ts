import { expect, test } from "vitest";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { openRunQueue } from "../../src/worker/queue.ts";
import { startRedis } from "../support/redis.ts";

const GRANT = { tenantId: "acme", runId: "run-0000001", grant: 1 };

test("grants get onto the worker's queue although Redis refused INFO when the queue was opened", async () => {
  await using redis = await startRedis({ args: ["--user", "plain", "on", ">secret", "~*", "&*", "+@all"] });
  const client = redis.client();
  const url = `redis://plain:secret@127.0.0.1:${redis.port}`;
  const commands = await connectRedis(url, { role: "request", name: "test" });
  const blocking = await connectRedis(redis.url, { role: "blocking", name: "test" });
  await client.acl("SETUSER", "plain", "-info");
  const { promise: delivered, resolve } = Promise.withResolvers<unknown>();
  const queue = await openRunQueue({
    lane: 0,
    redis: commands,
    workerRedis: blocking,
    concurrency: 1,
    lockDurationMs: 2_000,
    stalledIntervalMs: 1_000,
    async deliver(grant) {
      resolve(grant);
      return "done";
    },
    onLocksRenewed: () => undefined,
    onLocksLost: () => undefined,
    onError: () => undefined,
  });
  expect(await queue.holds(GRANT)).toBe(false);
  await queue.add([GRANT]);
  expect(await delivered).toEqual(GRANT);
  await queue[Symbol.asyncDispose]();
  await Promise.all([closeRedis(commands), closeRedis(blocking)]);
});
