import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { runKeys } from "../../src/shared/redis/keys.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import type { Grant, RunRef } from "../../src/shared/run-log/run-log.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { claimRun, deltaEvent, enqueueRun, makeEnqueue, makeRequest, terminalEvent } from "../support/run-log.ts";

let server: TestRedis;
let client: ReturnType<TestRedis["client"]>;
let log: RedisRunLog;
/** Every lease of this one has run out when it begins. */
let hasty: RedisRunLog;

beforeAll(async () => {
  server = await startRedis();
  client = server.client();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(async () => {
  await client.flushall();
  log = new RedisRunLog({ redis: client });
  hasty = new RedisRunLog({ redis: client, leases: { grantMs: 0, renewedMs: 0 } });
});

const cancelled = (run: RunRef) => ({ terminal: terminalEvent(run, 2, "cancelled"), state: "cancelled" }) as const;
const byRun = (a: RunRef, b: RunRef): number => a.runId.localeCompare(b.runId);

interface Arrival {
  readonly tenantId: string;
  readonly at: number;
}

const arrivals = (count: number, tenantId: string, first: number): readonly Arrival[] =>
  Array.from({ length: count }, (_, index) => ({ tenantId, at: first + index }));

/** Puts runs into their backlogs without admitting them, as a picker with a limit leaves them. */
async function leaveWaiting(list: readonly Arrival[]): Promise<readonly string[]> {
  const grants: Grant[] = [];
  for (const { tenantId } of list) grants.push(await enqueueRun(log, { tenantId }));
  for (const [index, { tenantId, at }] of list.entries()) {
    const runId = grants[index]?.runId ?? "";
    await client.hset(runKeys(0, tenantId, runId).record, "state", "queued", "grant", "0");
    await client.zadd(`{sd:0}:t:${tenantId}:backlog`, at, runId);
    await client.zadd("{sd:0}:ready", "LT", at, tenantId);
    await client.zrem(`{sd:0}:t:${tenantId}:active`, runId);
    await client.zrem("{sd:0}:grants", `${tenantId} ${runId} 1`);
  }
  return grants.map(({ runId }) => runId);
}

describe("grant", () => {
  it("admits at most 16 a call, in the order of arrival over all tenants", async () => {
    const waiting = await leaveWaiting([...arrivals(10, "acme", 1_000), ...arrivals(10, "globex", 1_005.5)]);
    const acme = waiting.slice(0, 10);
    const globex = waiting.slice(10);
    const first = await log.grant();
    const second = await log.grant();
    expect(first).toHaveLength(16);
    expect(second).toHaveLength(4);
    const admitted = [...first, ...second];
    expect(admitted.slice(0, 8).map(({ runId }) => runId)).toEqual([...acme.slice(0, 6), globex[0], acme[6]]);
    expect(admitted.filter(({ tenantId }) => tenantId === "globex").map(({ runId }) => runId)).toEqual(globex);
    expect(admitted.filter(({ tenantId }) => tenantId === "acme").map(({ runId }) => runId)).toEqual(acme);
    expect(await log.grant()).toEqual([]);
    expect(await client.exists("{sd:0}:ready", "{sd:0}:t:acme:backlog")).toBe(0);
  });

  it("admits waiting runs when another ends", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const [waiting] = await leaveWaiting(arrivals(1, "globex", 1_000));
    const reply = await log.finish(owner, [terminalEvent(grant, 2)], "succeeded");
    expect(reply).toEqual({ kind: "finished", grants: [{ tenantId: "globex", runId: waiting, grant: 1 }] });
  });

  it("passes over a waiting run whose record is gone", async () => {
    const [gone, there] = await leaveWaiting(arrivals(2, "acme", 1_000));
    const keys = runKeys(0, "acme", gone ?? "");
    await client.del(keys.record, keys.events);
    expect(await log.grant()).toEqual([{ tenantId: "acme", runId: there, grant: 1 }]);
  });
});

describe("ending a run that waits", () => {
  it("ends an admitted one by event 2 and names the grant whose job may stand in the queue", async () => {
    const grant = await enqueueRun(log);
    expect(await log.endWaiting(grant, cancelled(grant))).toEqual({ kind: "ended", grant: 1, grants: [] });
    expect(await log.record(grant)).toMatchObject({ state: "cancelled", sequence: 2, terminal: true, epoch: 0 });
    expect(await log.endWaiting(grant, cancelled(grant))).toEqual({ kind: "closed", state: "cancelled" });
    expect(await log.sweep({ limit: 10 })).toEqual({ grants: [], waits: [], waiting: 0 });
    expect(await client.exists("{sd:0}:grants", "{sd:0}:t:acme:active")).toBe(0);
  });

  it("takes one out of the backlog, and nobody admits it later", async () => {
    const [runId = ""] = await leaveWaiting(arrivals(1, "acme", 1_000));
    const run = { tenantId: "acme", runId };
    expect(await log.endWaiting(run, cancelled(run))).toEqual({ kind: "ended", grant: undefined, grants: [] });
    expect(await log.grant()).toEqual([]);
  });

  it("leaves a cancel for the attempt that runs; the first one stays", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    expect(await log.endWaiting(grant, { ...cancelled(grant), cancel: { reason: 'said "stop"' } })).toEqual({
      kind: "running",
    });
    expect(await log.endWaiting(grant, { ...cancelled(grant), cancel: { reason: "again" } })).toEqual({
      kind: "running",
    });
    const cancel = { reason: 'said "stop"', requestedAt: expect.any(Number) };
    expect(await log.append(owner, [deltaEvent(grant, 2)])).toEqual({ kind: "written", cancel });
    expect(await log.renew([owner])).toEqual([{ kind: "renewed", cancel }]);
    expect((await claimRun(log, grant)).cancel).toEqual(cancel);
  });

  it("sets no flag where none is asked for, and takes a cancel without a reason", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    await log.endWaiting(grant, { terminal: terminalEvent(grant, 2, "timed_out"), state: "timed_out" });
    expect(await log.renew([owner])).toEqual([{ kind: "renewed", cancel: undefined }]);
    await log.endWaiting(grant, { ...cancelled(grant), cancel: {} });
    expect(await log.renew([owner])).toEqual([{ kind: "renewed", cancel: { requestedAt: expect.any(Number) } }]);
  });

  it("knows no run of another tenant", async () => {
    const grant = await enqueueRun(log);
    const foreign = { ...grant, tenantId: "globex" };
    expect(await log.endWaiting(foreign, { ...cancelled(foreign), cancel: {} })).toEqual({ kind: "not_found" });
  });
});

describe("renew", () => {
  it("answers in the order of the owners, over many tenants and more than one call's worth", async () => {
    const living = await Promise.all(
      Array.from({ length: 3 }, async (_, index) => claimRun(log, await enqueueRun(log, { tenantId: `t${index}` }))),
    );
    const ended = await claimRun(log, await enqueueRun(log));
    await log.finish(ended.owner, [terminalEvent(ended.owner, 2)], "succeeded");
    const unknown = { tenantId: "acme", runId: "no-such-run", epoch: 1 };
    const fenced = living.map(({ owner }) => ({ ...owner, epoch: 9 }));
    const owners = [
      ...Array.from({ length: 400 }, () => unknown),
      ...living.map(({ owner }) => owner),
      ended.owner,
      ...fenced,
      ...Array.from({ length: 300 }, () => unknown),
    ];
    const replies = await log.renew(owners);
    expect(replies).toHaveLength(owners.length);
    expect(replies.slice(400, 407).map(({ kind }) => kind)).toEqual([
      "renewed",
      "renewed",
      "renewed",
      "closed",
      "fenced",
      "fenced",
      "fenced",
    ]);
    expect(await log.renew([])).toEqual([]);
  });

  it("keeps a run out of the sweep", async () => {
    const grant = await enqueueRun(hasty);
    const { owner } = await claimRun(hasty, grant);
    await log.renew([owner]);
    expect(await log.sweep({ limit: 10 })).toMatchObject({ grants: [] });
  });
});

describe("hand-back", () => {
  it("fences the giver at once and spends no attempt", async () => {
    const grant = await enqueueRun(log);
    const a = await claimRun(log, grant);
    expect(await log.handBack(a.owner)).toBe("handed_back");
    expect(await log.append(a.owner, [deltaEvent(grant, 2)])).toEqual({ kind: "fenced" });
    expect(await log.finish(a.owner, [terminalEvent(grant, 2)], "succeeded")).toEqual({ kind: "fenced" });
    expect(await log.renew([a.owner])).toEqual([{ kind: "fenced" }]);
    expect(await log.handBack(a.owner)).toBe("handed_back");
    expect(await claimRun(log, grant)).toMatchObject({ epoch: 2, lostAttempts: 0, handedOver: true });
    expect(await log.handBack(a.owner)).toBe("fenced");
    expect(await claimRun(log, grant)).toMatchObject({ epoch: 3, lostAttempts: 1, handedOver: false });
  });

  it("refuses the claim id of the attempt that gave the run back", async () => {
    const grant = await enqueueRun(log);
    await log.claim(grant, { claimId: "claim-a", worker: "a" });
    await log.handBack({ ...grant, epoch: 1 });
    expect(await log.claim(grant, { claimId: "claim-a", worker: "a" })).toEqual({ kind: "stale" });
    expect(await log.record(grant)).toMatchObject({ state: "queued", epoch: 1 });
  });

  it("lets a cancel end the run, by the event that follows, in the epoch that gave it back", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    await log.append(owner, [deltaEvent(grant, 2)]);
    await log.handBack(owner);
    const terminal = terminalEvent(grant, 3, "cancelled", 1);
    expect(await log.endWaiting(grant, { terminal, state: "cancelled", cancel: {} })).toEqual({
      kind: "ended",
      grant: 1,
      grants: [],
    });
    expect(await log.record(grant)).toMatchObject({ state: "cancelled", sequence: 3, terminal: true, epoch: 1 });
    expect(await log.handBack(owner)).toBe("closed");
    expect(await log.append(owner, [deltaEvent(grant, 3)])).toEqual({ kind: "closed" });
    expect(await log.claim(grant, { claimId: randomUUID(), worker: "b" })).toEqual({ kind: "ended" });
    expect(await log.sweep({ limit: 10 })).toEqual({ grants: [], waits: [], waiting: 0 });
  });

  it("does not let an end that was made before it, and leaves the cancel for the next attempt", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    await log.append(owner, [deltaEvent(grant, 2)]);
    await log.handBack(owner);
    for (const terminal of [
      terminalEvent(grant, 2, "cancelled"),
      terminalEvent(grant, 3, "cancelled", 0),
      terminalEvent(grant, 2, "cancelled", 1),
      terminalEvent(grant, 4, "cancelled", 1),
    ]) {
      expect(await log.endWaiting(grant, { terminal, state: "cancelled", cancel: { reason: "enough" } })).toEqual({
        kind: "outdated",
      });
    }
    expect(await claimRun(log, grant)).toMatchObject({ sequence: 2, cancel: { reason: "enough" } });
  });

  it("leaves the run to the sweep, where its job gets lost, and no longer to its queue deadline", async () => {
    const { limits } = makeRequest();
    const grant = await enqueueRun(hasty, { limits: { ...limits, maxQueueWaitMs: 0 } });
    const { owner } = await claimRun(hasty, grant);
    await hasty.handBack(owner);
    expect(await log.sweep({ limit: 10 })).toEqual({ grants: [{ ...grant, state: "queued" }], waits: [], waiting: 0 });
  });

  it("is closed after the end", async () => {
    const { owner } = await claimRun(log, await enqueueRun(log));
    await log.finish(owner, [terminalEvent(owner, 2)], "succeeded");
    expect(await log.handBack(owner)).toBe("closed");
  });
});

describe("regrant", () => {
  it("makes the old grant stale and fences the attempt that held it, which counts as lost", async () => {
    const grant = await enqueueRun(log);
    const a = await claimRun(log, grant);
    const next = await log.regrant(grant);
    expect(next).toEqual({ ...grant, grant: 2 });
    expect(await log.regrant(grant)).toBeUndefined();
    expect(await log.append(a.owner, [deltaEvent(grant, 2)])).toEqual({ kind: "fenced" });
    expect(await log.claim(grant, { claimId: randomUUID(), worker: "b" })).toEqual({ kind: "stale" });
    expect(await claimRun(log, next as Grant)).toMatchObject({ epoch: 2, lostAttempts: 1 }); // toEqual above
    expect(await client.zrange("{sd:0}:grants", "0", "-1")).toEqual([`acme ${grant.runId} 2`]);
  });

  it("lets a cancel end the run, whose attempt was lost", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    await log.append(owner, [deltaEvent(grant, 2)]);
    await log.regrant(grant);
    const terminal = terminalEvent(grant, 3, "cancelled", 1);
    expect(await log.endWaiting(grant, { terminal, state: "cancelled" })).toEqual({
      kind: "ended",
      grant: 2,
      grants: [],
    });
    expect(await client.exists("{sd:0}:grants", "{sd:0}:t:acme:active")).toBe(0);
  });

  it("does nothing for an ended and for an unknown run", async () => {
    const grant = await enqueueRun(log);
    await log.endWaiting(grant, cancelled(grant));
    expect(await log.regrant(grant)).toBeUndefined();
    expect(await log.regrant({ ...grant, runId: "no-such-run" })).toBeUndefined();
  });
});

describe("sweep", () => {
  it("reports a grant whose lease ran out to one sweeper, and again when that one does nothing", async () => {
    const granted = await enqueueRun(hasty);
    const running = await enqueueRun(hasty);
    await claimRun(hasty, running);
    await enqueueRun(log);
    const expected = [
      { ...granted, state: "queued" },
      { ...running, state: "running" },
    ].sort(byRun);
    const seen = await log.sweep({ limit: 10 });
    expect([...seen.grants].sort(byRun)).toEqual(expected);
    expect(seen.waiting).toBe(2);
    expect((await log.sweep({ limit: 10 })).grants).toEqual([]);
    await client.zadd("{sd:0}:grants", 1, `acme ${granted.runId} 1`);
    expect((await log.sweep({ limit: 10 })).grants).toEqual([{ ...granted, state: "queued" }]);
  });

  it("keeps to its limit", async () => {
    for (let index = 0; index < 5; index += 1) await enqueueRun(hasty);
    expect((await log.sweep({ limit: 3 })).grants).toHaveLength(3);
    expect((await log.sweep({ limit: 3 })).grants).toHaveLength(2);
  });

  it("removes what belongs to no living run", async () => {
    await client.zadd("{sd:0}:grants", 1, "acme no-such-run 1");
    await client.zadd("{sd:0}:waiting", 1, "acme no-such-run");
    await client.zadd("{sd:0}:t:acme:active", 1, "no-such-run");
    expect(await log.sweep({ limit: 10 })).toEqual({ grants: [], waits: [], waiting: 0 });
    expect(await client.exists("{sd:0}:grants", "{sd:0}:waiting", "{sd:0}:t:acme:active")).toBe(0);
  });

  it("reports a run that waited too long, until an attempt claims it or it ends", async () => {
    const { limits } = makeRequest();
    const impatient = { limits: { ...limits, maxQueueWaitMs: 0 } };
    const claimed = await enqueueRun(log, impatient);
    await claimRun(log, claimed);
    const late = await enqueueRun(log, impatient);
    await enqueueRun(log);
    const { queuedAt } = (await log.record(late)) ?? { queuedAt: 0 };
    expect(await log.sweep({ limit: 10 })).toEqual({
      grants: [],
      waits: [{ tenantId: "acme", runId: late.runId, queuedAt }],
      waiting: 2,
    });
    expect((await log.sweep({ limit: 10 })).waits).toEqual([]);
    const end = { terminal: terminalEvent(late, 2, "timed_out"), state: "timed_out" } as const;
    expect(await log.endWaiting(late, end)).toMatchObject({ kind: "ended" });
    expect((await log.sweep({ limit: 10 })).waiting).toBe(1);
  });
});

describe("notices", () => {
  it("tell each append, a cancel and the end", async () => {
    const command = makeEnqueue();
    const run = { tenantId: "acme", runId: command.request.runId };
    const heard: string[] = [];
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    const subscriber = server.client();
    subscriber.on("message", (_channel: string, message: string) => {
      heard.push(message);
      if (message.endsWith(" 1")) resolve();
    });
    await subscriber.subscribe(runKeys(0, "acme", run.runId).notice);
    await log.enqueue(command);
    const { owner } = await claimRun(log, { ...run, grant: 1 });
    await log.append(owner, [deltaEvent(run, 2), deltaEvent(run, 3)]);
    await log.append(owner, [deltaEvent(run, 2), deltaEvent(run, 3)]);
    await log.endWaiting(run, { ...cancelled(run), cancel: {} });
    await log.finish(owner, [deltaEvent(run, 4), terminalEvent(run, 5, "cancelled")], "cancelled");
    await ended;
    expect(heard).toEqual(["1 0", "3 0", "cancel", "5 1"]);
  });
});
