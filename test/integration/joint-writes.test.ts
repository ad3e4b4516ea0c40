import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { joinWrites } from "../../src/shared/redis/joint-writes.ts";
import { startRedis } from "../support/redis.ts";

test("commands of one turn leave in one write, each with its own answer", async () => {
  await using server = await startRedis();
  const redis = new Redis(server.url, { lazyConnect: true });
  joinWrites(redis);
  await redis.connect();
  let writes = 0;
  const socket = redis.stream;
  const { _writev: writeAll, _write: writeOne } = socket as unknown as Record<
    "_writev" | "_write",
    (...args: unknown[]) => void
  >; // Node's own hooks
  Object.assign(socket, {
    _writev: (...args: unknown[]) => (writes++, writeAll.apply(socket, args)),
    _write: (...args: unknown[]) => (writes++, writeOne.apply(socket, args)),
  });
  const answers = await Promise.all(Array.from({ length: 50 }, async (_unused, index) => redis.incrby("n", index)));
  expect(answers.at(-1)).toBe((49 * 50) / 2);
  expect(writes).toBe(1);
  await redis.ping();
  expect(writes).toBe(2);
  redis.disconnect();
});

test("a command whose connection breaks at once is answered all the same", async () => {
  await using server = await startRedis();
  const redis = new Redis(server.url, { lazyConnect: true, retryStrategy: () => 20 });
  redis.on("error", () => undefined);
  joinWrites(redis);
  await redis.connect();
  const answer = redis.set("a", "1");
  redis.stream.destroy();
  expect(await answer).toBe("OK");
  redis.disconnect();
});
