import { expect, test } from "vitest";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { RunResult } from "../../src/shared/contracts/result.ts";
import { Producer, RunError } from "../../src/producer/index.ts";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { Followers } from "../../src/shared/run-log/follow.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { findFreePort, startRedis, type TestRedis } from "../support/redis.ts";
import { startProxy } from "../support/proxy.ts";
import { claimRun, enqueueRun, deltaEvent, terminalEvent } from "../support/run-log.ts";

const REQUEST = { tenantId: "acme", skill: "refund", query: "hello" };
const RUN = { tenantId: "acme", runId: "run-0000001" };
/** What the documentation promises, and room for a busy machine. */
const BOUND_MS = 5_000 + 2_500;

/** Every kind of call, each to its end. */
function calls(producer: Producer): Readonly<Record<string, () => Promise<unknown>>> {
  return {
    enqueue: () => producer.enqueue(REQUEST),
    result: () => producer.result({ ...RUN, waitMs: 60_000 }),
    cancel: () => producer.cancel(RUN),
    follow: () => producer.follow(RUN).next(),
  };
}

async function expectUnavailable(producer: Producer): Promise<void> {
  await Promise.all(
    Object.entries(calls(producer)).map(async ([name, call]) => {
      const started = performance.now();
      const error = await call().then(
        () => undefined,
        (caught: unknown) => caught,
      );
      expect([name, error instanceof RunError ? error.code : error]).toEqual([name, "redis_unavailable"]);
      expect(performance.now() - started).toBeLessThan(BOUND_MS);
    }),
  );
}

async function closeInTime(producer: Producer): Promise<void> {
  const started = performance.now();
  await Promise.all([producer.close(), producer.close()]);
  expect(performance.now() - started).toBeLessThan(BOUND_MS);
}

/** Ends a claimed run as a worker would. */
async function finish(redis: TestRedis, runId: string, from: number): Promise<void> {
  const run = { tenantId: "acme", runId };
  const log = new RedisRunLog({ redis: redis.client() });
  await log.append({ ...run, epoch: 1 }, [deltaEvent(run, from)]);
  await log.finish({ ...run, epoch: 1 }, [terminalEvent(run, from + 1)], "succeeded");
}

test.concurrent("a producer begins without Redis, says so when called, and works once Redis is there", async () => {
  const port = await findFreePort();
  await using producer = new Producer({ redis: { host: "127.0.0.1", port } });
  await expectUnavailable(producer);
  await using redis = await startRedis({ port });
  const { runId } = await producer.enqueue(REQUEST);
  expect(await producer.cancel({ tenantId: "acme", runId })).toMatchObject({ outcome: "cancelled" });
  expect(redis.port).toBe(port);
});

test.concurrent("a producer survives the death of Redis, and followers miss and repeat nothing", async () => {
  await using redis = await startRedis({ appendonly: true, args: ["--appendfsync", "always"] });
  await using producer = new Producer({ redis: redis.url });
  const { runId } = await producer.enqueue(REQUEST);
  const log = new RedisRunLog({ redis: redis.client() });
  const { owner } = await claimRun(log, { tenantId: "acme", runId, grant: 1 });
  await log.append(owner, [deltaEvent(owner, 2)]);
  const items: (RunEvent | RunResult)[] = [];
  const { promise: caughtUp, resolve } = Promise.withResolvers<void>();
  const following = (async () => {
    for await (const item of producer.follow({ tenantId: "acme", runId })) {
      items.push(item);
      if (items.length === 2) resolve();
    }
  })();
  await caughtUp;
  await redis.kill();
  following.catch(() => undefined); // awaited below
  await expectUnavailable(producer);
  await redis.restart();
  await finish(redis, runId, 3);
  await following;
  expect(items.map((item) => (item.type === "result" ? "result" : item.sequence))).toEqual([1, 2, 3, 4, "result"]);
  expect(await producer.enqueue(REQUEST)).toMatchObject({ state: "queued" });
  expect(await producer.result({ tenantId: "acme", runId })).toMatchObject({ status: "succeeded" });
});

test.concurrent("a call waits for a Redis that is just coming back", async () => {
  await using redis = await startRedis({ appendonly: true });
  await using producer = new Producer({ redis: redis.url });
  await producer.enqueue(REQUEST);
  await redis.kill();
  const [enqueued] = await Promise.all([producer.enqueue({ ...REQUEST, runId: "run-after-restart" }), redis.restart()]);
  expect(enqueued).toMatchObject({ runId: "run-after-restart", state: "queued", duplicate: false });
});

test.concurrent("a follower that begins while Redis restarts waits for it", async () => {
  await using redis = await startRedis({ appendonly: true, args: ["--appendfsync", "always"] });
  await using producer = new Producer({ redis: redis.url });
  const { runId } = await producer.enqueue(REQUEST);
  await redis.kill();
  const [first] = await Promise.all([producer.follow({ tenantId: "acme", runId }).next(), redis.restart()]);
  expect(first.value).toMatchObject({ sequence: 1, type: "run.queued" });
});

test.concurrent("a wait for a result outlives a restart of Redis that comes just as it begins", async () => {
  await using redis = await startRedis({ appendonly: true, args: ["--appendfsync", "always"] });
  await using proxy = await startProxy(redis.port);
  await using producer = new Producer({ redis: proxy.url });
  const { runId } = await producer.enqueue(REQUEST);
  await claimRun(new RedisRunLog({ redis: redis.client() }), { tenantId: "acme", runId, grant: 1 });
  // The record is read, and Redis dies before the first page is.
  const dropped = proxy.dropReplyTo("xrange").then(() => redis.kill());
  const waiting = producer.result({ tenantId: "acme", runId, waitMs: 30_000 });
  waiting.catch(() => undefined); // awaited below
  await dropped;
  await expect(producer.result({ tenantId: "acme", runId })).rejects.toMatchObject({ code: "redis_unavailable" });
  await redis.restart();
  await finish(redis, runId, 2);
  expect(await waiting).toMatchObject({ status: "succeeded", lastSequence: 3 });
});

test.concurrent("a wait for a result ends in its time although Redis does not come back", async () => {
  await using redis = await startRedis({ appendonly: true, audit: false });
  await using proxy = await startProxy(redis.port);
  await using producer = new Producer({ redis: proxy.url });
  const { runId } = await producer.enqueue(REQUEST);
  const dropped = proxy.dropReplyTo("xrange").then(() => redis.kill());
  const started = performance.now();
  expect(await producer.result({ tenantId: "acme", runId, waitMs: 1_000 })).toBeUndefined();
  expect(performance.now() - started).toBeLessThan(2_500);
  await dropped;
});

test.concurrent("an enqueue whose answer was lost is one run", async () => {
  await using redis = await startRedis();
  await using proxy = await startProxy(redis.port);
  await using producer = new Producer({ redis: proxy.url });
  await producer.enqueue(REQUEST);
  const dropped = proxy.dropReplyTo("run-answer-lost");
  expect(await producer.enqueue({ ...REQUEST, runId: "run-answer-lost" })).toMatchObject({
    runId: "run-answer-lost",
    duplicate: false,
  });
  await dropped;
  expect(await redis.client().xlen("{sd:0}:t:acme:run:run-answer-lost:events")).toBe(1);
});

test.concurrent("a Redis that has gone silent is given up, and the caller is told that the run may have been accepted", async () => {
  await using redis = await startRedis();
  await using producer = new Producer({ redis: redis.url });
  await producer.enqueue(REQUEST);
  redis.pause();
  const request = { ...REQUEST, idempotencyKey: "k" };
  const started = performance.now();
  await expect(producer.enqueue(request)).rejects.toMatchObject({
    code: "redis_unavailable",
    details: { runId: expect.any(String) as string, accepted: "unknown" },
  });
  expect(performance.now() - started).toBeLessThan(BOUND_MS);
  redis.resume();
  // With the key the same request may be sent again: it is one run.
  const again = await producer.enqueue(request);
  expect(await producer.enqueue(request)).toEqual({ ...again, duplicate: true });
});

test.concurrent("close never hangs: before the first call, without Redis, after its death, while it is silent", async () => {
  await closeInTime(new Producer({ redis: "redis://127.0.0.1:1" }));

  const port = await findFreePort();
  const connecting = new Producer({ redis: { host: "127.0.0.1", port } });
  const call = connecting.enqueue(REQUEST).catch((error: unknown) => error);
  await closeInTime(connecting);
  expect(await call).toMatchObject({ code: "redis_unavailable" });

  await using redis = await startRedis({ audit: false });
  const orphaned = new Producer({ redis: redis.url });
  const { runId } = await orphaned.enqueue(REQUEST);
  const follower = orphaned.follow({ tenantId: "acme", runId });
  await follower.next();
  const waiting = follower.next().catch((error: unknown) => error);
  await redis.kill();
  await closeInTime(orphaned);
  expect(await waiting).toMatchObject({ code: "redis_unavailable" });

  await redis.restart();
  const silenced = new Producer({ redis: redis.url });
  await silenced.enqueue(REQUEST);
  redis.pause();
  await closeInTime(silenced);
});

test.concurrent("a closed producer refuses every call", async () => {
  await using redis = await startRedis();
  const producer = new Producer({ redis: redis.url });
  await producer.enqueue(REQUEST);
  await producer.close();
  await expectUnavailable(producer);
});

test.concurrent("runs get onto the queue although Redis refuses INFO, and did when the queue was opened", async () => {
  await using redis = await startRedis();
  const client = redis.client();
  await using producer = new Producer({ redis: redis.url });
  await expect(producer.result(RUN)).rejects.toMatchObject({ code: "run_not_found" }); // connected
  await client.acl("SETUSER", "default", "-info");
  await producer.enqueue(REQUEST);
  await client.acl("SETUSER", "default", "+info");
  await producer.enqueue(REQUEST);
  expect(await client.llen("{sd:0}:runs:wait")).toBe(2);
});

test.concurrent("wrong credentials are said to be so, and are not in the message", async () => {
  await using redis = await startRedis({ args: ["--user", "app", "on", ">right-password-1", "~*", "&*", "+@all"] });
  await using producer = new Producer({
    redis: { host: "127.0.0.1", port: redis.port, username: "app", password: "wrong-password-1" },
  });
  const error: unknown = await producer.enqueue(REQUEST).catch((caught: unknown) => caught);
  expect(error).toMatchObject({ code: "redis_unavailable" });
  expect(JSON.stringify((error as RunError).toBody())).toContain("credentials");
  expect(JSON.stringify((error as RunError).toBody())).not.toContain("password-1");
  await using welcome = new Producer({
    redis: { host: "127.0.0.1", port: redis.port, username: "app", password: "right-password-1" },
  });
  expect(await welcome.enqueue(REQUEST)).toMatchObject({ state: "queued" });
});

test.concurrent("a follower under way goes on where Redis is lost just before it would wait for notices", async () => {
  await using redis = await startRedis();
  const client = await connectRedis(redis.url, { role: "request", name: "test" });
  const log = new RedisRunLog({ redis: client });
  const { owner } = await claimRun(log, await enqueueRun(log));
  let tries = 0;
  const followers = new Followers({
    redis: client,
    openSubscriber: async () => {
      tries += 1;
      if (tries < 3) throw new RunError("redis_unavailable");
      return connectRedis(redis.url, { role: "subscriber", name: "test" });
    },
  });
  const sequences: number[] = [];
  for await (const event of followers.follow(owner)) {
    sequences.push(event.sequence);
    if (event.sequence === 1) void log.finish(owner, [terminalEvent(owner, 2, "succeeded", 1)], "succeeded");
  }
  expect(sequences).toEqual([1, 2]);
  await followers.close();
  await closeRedis(client);
});
