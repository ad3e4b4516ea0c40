import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { startProxy } from "../support/proxy.ts";
import { startRedis } from "../support/redis.ts";
import { deltaEvent, makeEnqueue, terminalEvent } from "../support/run-log.ts";

/** The client sends a command again whose reply got lost. The server has done it already. */
it("answers every command whose reply was lost as if it had been sent once", async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(server.port);
  const redis = await connectRedis(proxy.url, { role: "request", name: "test" });
  const log = new RedisRunLog({ redis });
  const command = makeEnqueue({ idempotencyKey: "order-1" });
  const { tenantId, runId } = command.request;
  const grant = { tenantId, runId, grant: 1 };
  const owner = { tenantId, runId, epoch: 1 };
  const claimId = randomUUID();

  async function withLostReply<T>(send: () => Promise<T>): Promise<T> {
    const dropped = proxy.dropReplyTo(runId);
    const [reply] = await Promise.all([send(), dropped]);
    return reply;
  }

  expect(await withLostReply(() => log.enqueue(command))).toEqual({
    kind: "enqueued",
    runId,
    state: "queued",
    grants: [grant],
  });
  expect(await withLostReply(() => log.claim(grant, { claimId, worker: "a" }))).toMatchObject({
    kind: "claimed",
    claim: { epoch: 1, lostAttempts: 0 },
  });
  const events = [deltaEvent(grant, 2), deltaEvent(grant, 3)];
  expect(await withLostReply(() => log.append(owner, events))).toEqual({ kind: "written", cancel: undefined });
  expect(await withLostReply(() => log.renew([owner]))).toEqual([{ kind: "renewed", cancel: undefined }]);
  expect(await withLostReply(() => log.handBack(owner))).toBe("handed_back");
  expect(await withLostReply(() => log.claim(grant, { claimId: randomUUID(), worker: "b" }))).toMatchObject({
    claim: { epoch: 2, handedOver: true },
  });
  const end = [terminalEvent(grant, 4)];
  expect(await withLostReply(() => log.finish({ ...owner, epoch: 2 }, end, "succeeded"))).toEqual({
    kind: "finished",
    grants: [],
  });
  expect(await log.read(grant, { fromSequence: 1, limit: 10 })).toEqual([command.queued, ...events, ...end]);
  await closeRedis(redis);
});
