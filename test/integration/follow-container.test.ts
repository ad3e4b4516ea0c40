import { expect, it } from "vitest";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { Followers } from "../../src/shared/run-log/follow.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { auditRuns } from "../support/audit.ts";
import { docker, hasDocker } from "../support/docker.ts";
import { ensureRedisImage } from "../support/redis-image.ts";
import { findFreePort } from "../support/redis.ts";
import { claimRun, deltaEvent, enqueueRun, terminalEvent } from "../support/run-log.ts";

it.runIf(hasDocker)("follows a run over a restart of the Redis container", { timeout: 60_000 }, async () => {
  process.env["TESTCONTAINERS_RYUK_DISABLED"] = "true"; // its reaper would have to be pulled
  const { GenericContainer, Wait } = await import("testcontainers");
  const port = await findFreePort();
  await using container = await new GenericContainer(await ensureRedisImage())
    // On the host's own loopback: a published port would be open to the network.
    .withNetworkMode("host")
    .withCommand(["redis-server", "--bind", "127.0.0.1", "--port", String(port), "--appendonly", "yes", "--save", ""])
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
    .start();
  const url = `redis://127.0.0.1:${port}`;
  const redis = await connectRedis(url, { role: "request", name: "followers" });
  const writer = await connectRedis(url, { role: "blocking", name: "writer" });
  const followers = new Followers({
    redis,
    openSubscriber: () => connectRedis(url, { role: "subscriber", name: "subscriber" }),
    pollMs: 60_000,
  });
  const log = new RedisRunLog({ redis: writer });
  const { owner } = await claimRun(log, await enqueueRun(log));
  await log.append(owner, [deltaEvent(owner, 2), deltaEvent(owner, 3)]);

  const sequences: number[] = [];
  const { promise: caughtUp, resolve } = Promise.withResolvers<void>();
  const following = (async () => {
    for await (const event of followers.follow(owner)) {
      sequences.push(event.sequence);
      if (event.sequence === 3) resolve();
    }
  })();
  await caughtUp;
  // Its own restart waits for a log line that may have passed by the time that it looks; the connections see it anyway.
  await docker("restart", "--time", "1", container.getId());
  await log.append(owner, [deltaEvent(owner, 4)]);
  await log.finish(owner, [terminalEvent(owner, 5)], "succeeded");
  await following;

  expect(sequences).toEqual([1, 2, 3, 4, 5]);
  await auditRuns(writer);
  await followers.close();
  await Promise.all([closeRedis(redis), closeRedis(writer)]);
});
