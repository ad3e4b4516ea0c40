import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { idempotencyKey, runKeys } from "../../src/shared/redis/keys.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { claimRun, deltaEvent, enqueueRun, makeEnqueue, terminalEvent } from "../support/run-log.ts";

let server: TestRedis;
let client: ReturnType<TestRedis["client"]>;
let log: RedisRunLog;

beforeAll(async () => {
  server = await startRedis();
  client = server.client();
});
afterAll(() => server[Symbol.asyncDispose]());
beforeEach(() => {
  log = new RedisRunLog({ redis: client });
});

const sha256 = async (text: string): Promise<string> =>
  Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toString("hex");

describe("enqueue", () => {
  it("creates the record, event 1 and a grant in one step", async () => {
    const command = makeEnqueue();
    const { runId } = command.request;
    const reply = await log.enqueue(command);
    expect(reply).toEqual({
      kind: "enqueued",
      runId,
      state: "queued",
      grants: [{ tenantId: "acme", runId, grant: 1 }],
    });
    expect(await log.record({ tenantId: "acme", runId })).toMatchObject({
      state: "queued",
      epoch: 0,
      sequence: 1,
      grant: 1,
      terminal: false,
      enqueueId: command.enqueueId,
    });
    expect(await log.read({ tenantId: "acme", runId }, { fromSequence: 1, limit: 10 })).toEqual([command.queued]);
  });

  it("answers a re-sent call as the first time, and another call with the id by run_id_conflict", async () => {
    const command = makeEnqueue();
    const first = await log.enqueue(command);
    expect(await log.enqueue(command)).toEqual(first);
    expect(await log.enqueue({ ...command, enqueueId: randomUUID() })).toEqual({ kind: "run_id_conflict" });
  });

  it("names no grant to a re-sent call once an attempt has claimed the run", async () => {
    const command = makeEnqueue();
    const reply = await log.enqueue(command);
    if (reply.kind !== "enqueued" || reply.grants[0] === undefined) throw new Error("not admitted");
    await claimRun(log, reply.grants[0]);
    expect(await log.enqueue(command)).toEqual({ ...reply, state: "running", grants: [] });
  });

  it("answers the same idempotency key and payload with the run that exists", async () => {
    const first = makeEnqueue({ idempotencyKey: "order-1" });
    await log.enqueue(first);
    const second = makeEnqueue({ idempotencyKey: "order-1" });
    const { runId } = first.request;
    expect(await log.enqueue(second)).toEqual({
      kind: "duplicate",
      runId,
      state: "queued",
      grants: [{ tenantId: "acme", runId, grant: 1 }],
    });
    expect(await log.record(second.request)).toBeUndefined();
    expect(await log.enqueue(first)).toMatchObject({ kind: "enqueued", runId });
  });

  it("refuses the same idempotency key with another payload", async () => {
    const first = makeEnqueue({ idempotencyKey: "order-2" });
    await log.enqueue(first);
    const second = makeEnqueue({ idempotencyKey: "order-2" }, `sha256:${"1".repeat(64)}`);
    expect(await log.enqueue(second)).toEqual({ kind: "idempotency_conflict", runId: first.request.runId });
  });

  it("keeps the same idempotency key of two tenants apart", async () => {
    const acme = await log.enqueue(makeEnqueue({ idempotencyKey: "order-3" }));
    const globex = await log.enqueue(
      makeEnqueue({ tenantId: "globex", idempotencyKey: "order-3" }, `sha256:${"1".repeat(64)}`),
    );
    expect([acme.kind, globex.kind]).toEqual(["enqueued", "enqueued"]);
  });

  it("lets the idempotency entry live with its run, and takes one whose run is gone for absent", async () => {
    const first = makeEnqueue({ idempotencyKey: "order-4" });
    await log.enqueue(first);
    const entry = idempotencyKey(0, "acme", await sha256("order-4"));
    expect(await client.pttl(entry)).toBe(-1);
    await log.endWaiting(first.request, { terminal: terminalEvent(first.request, 2, "cancelled"), state: "cancelled" });
    expect(await client.pttl(entry)).toBeGreaterThan(86_000_000);
    const { record, events } = runKeys(0, "acme", first.request.runId);
    await client.del(record, events);
    const second = makeEnqueue({ idempotencyKey: "order-4" });
    expect(await log.enqueue(second)).toMatchObject({ kind: "enqueued", runId: second.request.runId });
    expect(await client.pttl(entry)).toBe(-1);
  });
});

describe("claim", () => {
  it("hands over the request and where the stream stands", async () => {
    const command = makeEnqueue({ query: "Größe?" });
    await log.enqueue(command);
    const { owner: _owner, ...claim } = await claimRun(log, {
      tenantId: "acme",
      runId: command.request.runId,
      grant: 1,
    });
    expect(claim).toMatchObject({
      epoch: 1,
      sequence: 1,
      request: command.request,
      lostAttempts: 0,
      handedOver: false,
      cancel: undefined,
    });
    expect(claim.firstClaimedAt).toBe(claim.serverTime);
    expect(claim.queuedAt).toBeLessThanOrEqual(claim.serverTime);
  });

  it("hands over a request that nobody can change, all the way down", async () => {
    const grant = await enqueueRun(log, { metadata: { order: "42" } });
    const { request } = await claimRun(log, grant);
    const parts = [request, request.limits, request.allowedCapabilities, request.metadata];
    expect(parts.every((part) => part !== undefined && Object.isFrozen(part))).toBe(true);
  });

  it("answers a re-sent claim with the same epoch and another one with the next", async () => {
    const grant = await enqueueRun(log);
    const first = await log.claim(grant, { claimId: "claim-a", worker: "a" });
    const again = await log.claim(grant, { claimId: "claim-a", worker: "a" });
    if (first.kind !== "claimed" || again.kind !== "claimed") throw new Error("not claimed");
    expect({ ...again.claim, serverTime: 0 }).toEqual({ ...first.claim, serverTime: 0 });
    const second = await log.claim(grant, { claimId: "claim-b", worker: "b" });
    expect(second).toMatchObject({
      kind: "claimed",
      claim: { epoch: 2, lostAttempts: 1, handedOver: false, firstClaimedAt: first.claim.firstClaimedAt },
    });
  });

  it("does not let a re-sent claim of a superseded attempt fence its successor", async () => {
    const grant = await enqueueRun(log);
    await log.claim(grant, { claimId: "claim-a", worker: "a" });
    const b = await claimRun(log, grant);
    expect(await log.claim(grant, { claimId: "claim-a", worker: "a" })).toEqual({ kind: "stale" });
    expect(await log.append(b.owner, [deltaEvent(grant, 2)])).toEqual({ kind: "written", cancel: undefined });
  });

  it("refuses an ended run, a superseded grant and an unknown run", async () => {
    const grant = await enqueueRun(log);
    const next = await log.regrant(grant);
    expect(next).toEqual({ ...grant, grant: 2 });
    expect(await log.claim(grant, { claimId: randomUUID(), worker: "a" })).toEqual({ kind: "stale" });
    await log.endWaiting(grant, { terminal: terminalEvent(grant, 2, "cancelled"), state: "cancelled" });
    expect(await log.claim({ ...grant, grant: 2 }, { claimId: randomUUID(), worker: "a" })).toEqual({ kind: "ended" });
    expect(await log.claim({ ...grant, runId: "no-such-run" }, { claimId: randomUUID(), worker: "a" })).toEqual({
      kind: "not_found",
    });
  });
});

describe("append", () => {
  it("writes a batch under the ids of its sequences and the events unchanged", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const events = [deltaEvent(grant, 2, { text: "ä\u2028\u0000" }), deltaEvent(grant, 3), deltaEvent(grant, 4)];
    expect(await log.append(owner, events)).toEqual({ kind: "written", cancel: undefined });
    const entries = await client.xrange(runKeys(0, "acme", grant.runId).events, "-", "+");
    expect(entries.map(([id]) => id)).toEqual(["1-0", "2-0", "3-0", "4-0"]);
    expect(await log.read(grant, { fromSequence: 2, limit: 100 })).toEqual(events);
    expect(await log.read(grant, { fromSequence: 3, limit: 1 })).toEqual(events.slice(1, 2));
  });

  it("answers a re-sent batch as written and writes it once", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const events = [deltaEvent(grant, 2), deltaEvent(grant, 3)];
    await log.append(owner, events);
    expect(await log.append(owner, events)).toEqual({ kind: "written", cancel: undefined });
    expect(await log.record(grant)).toMatchObject({ sequence: 3 });
  });

  it.each([[3], [2]])("refuses as a bug a batch of two that starts at %i where 2 is written", async (first) => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    await log.append(owner, [deltaEvent(grant, 2)]);
    const start = first === 3 ? 4 : 2;
    await expect(log.append(owner, [deltaEvent(grant, start), deltaEvent(grant, start + 1)])).rejects.toMatchObject({
      code: "internal",
    });
    expect(await log.record(grant)).toMatchObject({ sequence: 2 });
  });

  it("refuses before Redis what no writer may send", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const other = { tenantId: "acme", runId: "another-run" };
    for (const events of [
      [],
      [deltaEvent(grant, 2), deltaEvent(grant, 4)],
      [deltaEvent(other, 2)],
      [terminalEvent(grant, 2)],
    ]) {
      await expect(log.append(owner, events)).rejects.toMatchObject({ code: "internal" });
    }
    await expect(log.finish(owner, [deltaEvent(grant, 2)], "failed")).rejects.toMatchObject({ code: "internal" });
    await expect(log.finish(owner, [terminalEvent(grant, 2, "failed")], "succeeded")).rejects.toMatchObject({
      code: "internal",
    });
    expect(await log.record(grant)).toMatchObject({ sequence: 1, terminal: false });
  });

  it("fences the earlier attempt and closes after the end", async () => {
    const grant = await enqueueRun(log);
    const a = await claimRun(log, grant);
    const b = await claimRun(log, grant);
    expect(await log.append(a.owner, [deltaEvent(grant, 2)])).toEqual({ kind: "fenced" });
    expect(await log.finish(a.owner, [terminalEvent(grant, 2)], "succeeded")).toEqual({ kind: "fenced" });
    expect(await log.finish(b.owner, [deltaEvent(grant, 2), terminalEvent(grant, 3)], "succeeded")).toEqual({
      kind: "finished",
      grants: [],
    });
    expect(await log.append(b.owner, [deltaEvent(grant, 4)])).toEqual({ kind: "closed" });
    expect(await log.append(a.owner, [deltaEvent(grant, 2)])).toEqual({ kind: "closed" });
    expect(await log.record(grant)).toMatchObject({ state: "succeeded", sequence: 3, terminal: true });
  });

  it("writes nothing of a batch over the journal limit, and still lets the run end", async () => {
    log = new RedisRunLog({ redis: client, journalLimitBytes: 2_000 });
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    expect(await log.append(owner, [deltaEvent(grant, 2, { text: "x".repeat(1_000) })])).toMatchObject({
      kind: "written",
    });
    const large = [deltaEvent(grant, 3), deltaEvent(grant, 4, { text: "x".repeat(1_000) })];
    expect(await log.append(owner, large)).toEqual({ kind: "journal_limit" });
    expect(await log.record(grant)).toMatchObject({ sequence: 2 });
    expect(await log.finish(owner, [terminalEvent(grant, 3, "limit_exceeded")], "limit_exceeded")).toMatchObject({
      kind: "finished",
    });
  });
});

describe("finish", () => {
  it("writes nothing where the events before the end pass the journal limit, and takes the end alone", async () => {
    log = new RedisRunLog({ redis: client, journalLimitBytes: 2_000 });
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const events = [deltaEvent(grant, 2), deltaEvent(grant, 3, { text: "x".repeat(2_000) })];
    expect(await log.finish(owner, [...events, terminalEvent(grant, 4)], "succeeded")).toEqual({
      kind: "journal_limit",
    });
    expect(await log.record(grant)).toMatchObject({ state: "running", sequence: 1, terminal: false });
    expect(await log.read(grant, { fromSequence: 2, limit: 10 })).toEqual([]);
    expect(await log.finish(owner, [terminalEvent(grant, 2, "limit_exceeded", 1)], "limit_exceeded")).toMatchObject({
      kind: "finished",
    });
  });

  it("does not count the terminal event itself against the journal limit", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const delta = deltaEvent(grant, 2);
    const written = Number(await client.hget(runKeys(0, "acme", grant.runId).record, "bytes"));
    const journalLimitBytes = written + JSON.stringify(delta).length;
    const tight = new RedisRunLog({ redis: client, journalLimitBytes });
    expect(await tight.finish(owner, [delta, terminalEvent(grant, 3)], "succeeded")).toMatchObject({
      kind: "finished",
    });
  });

  it("gives record and stream their life, and none before", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const { record, events } = runKeys(0, "acme", grant.runId);
    expect([await client.pttl(record), await client.pttl(events)]).toEqual([-1, -1]);
    await log.finish(owner, [terminalEvent(grant, 2)], "succeeded");
    for (const key of [record, events]) {
      expect(await client.pttl(key)).toBeGreaterThan(86_390_000);
      expect(await client.pttl(key)).toBeLessThanOrEqual(86_400_000);
    }
    expect(await client.zscore("{sd:0}:t:acme:active", grant.runId)).toBeNull();
    expect(await client.zscore("{sd:0}:grants", `acme ${grant.runId} 1`)).toBeNull();
  });

  it("answers a re-sent end as finished and any other as closed", async () => {
    const grant = await enqueueRun(log);
    const { owner } = await claimRun(log, grant);
    const end = terminalEvent(grant, 2);
    await log.finish(owner, [end], "succeeded");
    expect(await log.finish(owner, [end], "succeeded")).toEqual({ kind: "finished", grants: [] });
    expect(await log.finish(owner, [terminalEvent(grant, 2, "failed")], "failed")).toEqual({ kind: "closed" });
    expect(await log.finish({ ...owner, epoch: 2 }, [end], "succeeded")).toEqual({ kind: "closed" });
    expect(await log.read(grant, { fromSequence: 1, limit: 10 })).toHaveLength(2);
  });
});

describe("reading", () => {
  it("refuses a stream with a gap", async () => {
    const events = runKeys(0, "acme", "run-with-gap").events;
    const run = { tenantId: "acme", runId: "run-with-gap" };
    await client.xadd(events, "1-0", "e", "{}");
    await client.xadd(events, "3-0", "e", "{}");
    await expect(log.read(run, { fromSequence: 1, limit: 10 })).rejects.toMatchObject({ code: "internal" });
    await expect(log.read(run, { fromSequence: 2, limit: 10 })).rejects.toMatchObject({ code: "internal" });
    await client.del(events);
  });

  it("finds nothing of an unknown run or of another tenant's", async () => {
    const grant = await enqueueRun(log);
    expect(await log.record({ ...grant, tenantId: "globex" })).toBeUndefined();
    expect(await log.read({ ...grant, tenantId: "globex" }, { fromSequence: 1, limit: 10 })).toEqual([]);
  });
});
