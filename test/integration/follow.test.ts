import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { runKeys } from "../../src/shared/redis/keys.ts";
import { Followers, type FollowersOptions } from "../../src/shared/run-log/follow.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import type { RunOwner, RunRef } from "../../src/shared/run-log/run-log.ts";
import { startProxy } from "../support/proxy.ts";
import { startRedis, type StartRedisOptions, type TestRedis } from "../support/redis.ts";
import { claimRun, deltaEvent, enqueueRun, terminalEvent } from "../support/run-log.ts";

/** For a condition that no event tells: looked at often, and given up late on a busy machine. */
const PATIENCE = { interval: 2, timeout: 20_000 } as const;

interface Stage extends AsyncDisposable {
  readonly server: TestRedis;
  readonly log: RedisRunLog;
  readonly followers: Followers;
  /** Connections that were opened for notices. */
  readonly subscribers: () => number;
}

/** A server, a log on a connection of its own, and followers whose connections may go through a proxy. */
async function setUp(
  options: StartRedisOptions = {},
  following: Partial<FollowersOptions> & { readonly url?: string } = {},
): Promise<Stage> {
  const server = await startRedis(options);
  return attach(server, following);
}

async function attach(
  server: TestRedis,
  following: Partial<FollowersOptions> & { readonly url?: string },
): Promise<Stage> {
  const url = following.url ?? server.url;
  const redis = await connectRedis(url, { role: "request", name: "followers" });
  const writer = await connectRedis(server.url, { role: "blocking", name: "writer" });
  let opened = 0;
  const followers = new Followers({
    redis,
    openSubscriber: () => {
      opened += 1;
      return connectRedis(url, { role: "subscriber", name: "subscriber" });
    },
    ...following,
  });
  return {
    server,
    log: new RedisRunLog({ redis: writer }),
    followers,
    subscribers: () => opened,
    async [Symbol.asyncDispose]() {
      await followers.close();
      await Promise.all([closeRedis(redis), closeRedis(writer)]);
      await server[Symbol.asyncDispose]();
    },
  };
}

async function startRun(log: RedisRunLog): Promise<RunOwner> {
  return (await claimRun(log, await enqueueRun(log))).owner;
}

async function appendDeltas(
  log: RedisRunLog,
  owner: RunOwner,
  range: { readonly from: number; readonly to: number },
): Promise<void> {
  for (let sequence = range.from; sequence <= range.to; sequence += 1) {
    const reply = await log.append(owner, [deltaEvent(owner, sequence)]);
    if (reply.kind !== "written") throw new Error(reply.kind);
  }
}

/** Collects sequences; `heard` resolves when one has come. */
function listen(events: AsyncGenerator<RunEvent>) {
  const sequences: number[] = [];
  const waits = new Map<number, () => void>();
  const done = (async () => {
    for await (const event of events) {
      sequences.push(event.sequence);
      waits.get(event.sequence)?.();
    }
    return sequences;
  })();
  done.catch(() => undefined);
  const heard = (sequence: number): Promise<void> =>
    sequences.includes(sequence) ? Promise.resolve() : new Promise((resolve) => waits.set(sequence, resolve));
  return { sequences, done, heard };
}

const upTo = (last: number, first = 1): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);
const waitingIs = (stage: Stage, count: number): Promise<void> =>
  vi.waitFor(() => expect(stage.followers.waiting).toBe(count), PATIENCE);

describe("following", () => {
  let stage: Stage;
  beforeEach(async () => {
    stage = await setUp();
  });
  afterEach(() => stage[Symbol.asyncDispose]());

  it("delivers a finished run from any event on, without subscribing", async () => {
    const { log, followers } = stage;
    const owner = await startRun(log);
    await log.append(
      owner,
      upTo(350, 2).map((sequence) => deltaEvent(owner, sequence)),
    );
    await log.finish(owner, [terminalEvent(owner, 351)], "succeeded");
    for (const first of [1, 2, 151, 251, 252, 351]) {
      expect(await listen(followers.follow(owner, { fromSequence: first })).done).toEqual(upTo(351, first));
    }
    expect(await listen(followers.follow(owner, { fromSequence: 352 })).done).toEqual([]);
    expect(stage.subscribers()).toBe(0);
  });

  it("delivers what is there and then what comes, to everybody from where they want", async () => {
    const { log, followers } = stage;
    const owner = await startRun(log);
    await appendDeltas(log, owner, { from: 2, to: 5 });
    const all = listen(followers.follow(owner));
    const late = listen(followers.follow(owner, { fromSequence: 4 }));
    const ahead = listen(followers.follow(owner, { fromSequence: 8 }));
    await waitingIs(stage, 3);
    await appendDeltas(log, owner, { from: 6, to: 9 });
    await log.finish(owner, [terminalEvent(owner, 10)], "succeeded");
    expect(await all.done).toEqual(upTo(10));
    expect(await late.done).toEqual(upTo(10, 4));
    expect(await ahead.done).toEqual(upTo(10, 8));
    expect(stage.subscribers()).toBe(1);
    await waitingIs(stage, 0);
  });

  it("loses nothing to writes that race with its beginning", async () => {
    const { log, followers } = stage;
    const owners = await Promise.all(Array.from({ length: 50 }, () => startRun(log)));
    const writing = owners.map(async (owner) => {
      await appendDeltas(log, owner, { from: 2, to: 20 });
      await log.finish(owner, [terminalEvent(owner, 21)], "succeeded");
    });
    const reading = owners.map((owner) => listen(followers.follow(owner)).done);
    await Promise.all(writing);
    expect(await Promise.all(reading)).toEqual(owners.map(() => upTo(21)));
  });

  it("says run_not_found for an unknown run and for another tenant's", async () => {
    const owner = await startRun(stage.log);
    for (const run of [
      { ...owner, runId: "no-such-run" },
      { ...owner, tenantId: "globex" },
    ]) {
      await expect(stage.followers.follow(run).next()).rejects.toMatchObject({ code: "run_not_found" });
    }
  });

  it("unsubscribes when the last follower of a run leaves", async () => {
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    const channel = runKeys(0, owner.tenantId, owner.runId).notice;
    const admin = server.client();
    const subscriptions = async () => (await admin.pubsub("NUMSUB", channel))[1];
    const [one, two] = [new AbortController(), new AbortController()];
    const first = listen(followers.follow(owner, { signal: one.signal }));
    const second = listen(followers.follow(owner, { signal: two.signal }));
    await waitingIs(stage, 2);
    expect(await subscriptions()).toBe(1);
    one.abort();
    await first.done;
    expect(await subscriptions()).toBe(1);
    two.abort();
    await second.done;
    await vi.waitFor(async () => expect(await subscriptions()).toBe(0), PATIENCE);
    const third = listen(followers.follow(owner));
    await third.heard(1);
    await log.finish(owner, [terminalEvent(owner, 2)], "succeeded");
    expect(await third.done).toEqual([1, 2]);
  });

  it("holds no more than a page for a consumer that does not read on", async () => {
    const { log, followers } = stage;
    const owner = await startRun(log);
    const events = followers.follow(owner);
    await events.next();
    await appendDeltas(log, owner, { from: 2, to: 300 });
    expect(await events.next()).toMatchObject({ value: { sequence: 2 } });
    await events.return();
    expect(followers.waiting).toBe(0);
  });

  it("ends quietly when aborted, also before it begins", async () => {
    const owner = await startRun(stage.log);
    expect(await listen(stage.followers.follow(owner, { signal: AbortSignal.abort() })).done).toEqual([]);
    const leave = new AbortController();
    const listening = listen(stage.followers.follow(owner, { signal: leave.signal }));
    await waitingIs(stage, 1);
    leave.abort();
    expect(await listening.done).toEqual([1]);
  });

  it("gives everybody who waits an error when it is closed, and everybody who comes later", async () => {
    const owner = await startRun(stage.log);
    const listening = listen(stage.followers.follow(owner));
    await waitingIs(stage, 1);
    await Promise.all([stage.followers.close(), stage.followers.close()]);
    await expect(listening.done).rejects.toMatchObject({ code: "redis_unavailable" });
    await expect(stage.followers.follow(owner).next()).rejects.toMatchObject({ code: "redis_unavailable" });
  });
});

describe("following through trouble", () => {
  it("finds by itself what no notice told", async () => {
    await using stage = await setUp({}, { pollMs: 20 });
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    const gone = await startRun(log);
    const listening = listen(followers.follow(owner));
    const orphan = listen(followers.follow(gone));
    await waitingIs(stage, 2);
    const { record, events } = runKeys(0, owner.tenantId, owner.runId);
    await server
      .client()
      .multi()
      .xadd(events, "2-0", "e", JSON.stringify(deltaEvent(owner, 2)))
      .hset(record, "seq", "2")
      .exec();
    await listening.heard(2);
    const lost = runKeys(0, gone.tenantId, gone.runId);
    await server.client().del(lost.record, lost.events);
    await expect(orphan.done).rejects.toMatchObject({ code: "run_not_found" });
    await log.finish(owner, [terminalEvent(owner, 3)], "succeeded");
    expect(await listening.done).toEqual([1, 2, 3]);
  });

  it("does not go on with another run of the same id", async () => {
    await using stage = await setUp({}, { pollMs: 20 });
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    const listening = listen(followers.follow(owner));
    await waitingIs(stage, 1);
    const keys = runKeys(0, owner.tenantId, owner.runId);
    await server.client().del(keys.record, keys.events);
    await enqueueRun(log, { runId: owner.runId });
    await expect(listening.done).rejects.toMatchObject({ code: "run_not_found" });
  });

  it("says redis_unavailable where Redis is away at the beginning", async () => {
    await using stage = await setUp();
    const owner = await startRun(stage.log);
    await stage.server.kill();
    await expect(stage.followers.follow(owner).next()).rejects.toMatchObject({ code: "redis_unavailable" });
    await stage.server.restart();
  });

  it("waits for Redis from the beginning on where it knows the run already", async () => {
    await using stage = await setUp({ appendonly: true });
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    const { enqueueId = "" } = (await log.record(owner)) ?? {};
    await server.kill();
    const listening = listen(followers.follow(owner, { enqueueId }));
    const stranger = listen(followers.follow(owner, { enqueueId: "another" }));
    await server.restart();
    await log.finish(owner, [terminalEvent(owner, 2)], "succeeded");
    expect(await listening.done).toEqual([1, 2]);
    await expect(stranger.done).rejects.toMatchObject({ code: "run_not_found" });
  });

  it("neither loses nor repeats an event while its connections are cut again and again", async () => {
    await using server = await startRedis();
    await using proxy = await startProxy(server.port);
    await using stage = await attach(server, { url: proxy.url });
    const { log, followers } = stage;
    const owners = await Promise.all(Array.from({ length: 20 }, () => startRun(log)));
    const listening = owners.map((owner) => listen(followers.follow(owner)));
    await waitingIs(stage, owners.length);
    for (let sequence = 2; sequence <= 60; sequence += 1) {
      await Promise.all(owners.map((owner) => appendDeltas(log, owner, { from: sequence, to: sequence })));
      if (sequence % 15 === 0) proxy.cut();
    }
    await Promise.all(owners.map((owner) => log.finish(owner, [terminalEvent(owner, 61)], "succeeded")));
    expect(await Promise.all(listening.map(({ done }) => done))).toEqual(owners.map(() => upTo(61)));
  });

  it("goes on without notices where Redis refuses to renew the subscriptions", async () => {
    await using server = await startRedis();
    await using proxy = await startProxy(server.port);
    await using stage = await attach(server, { url: proxy.url, pollMs: 20 });
    const { log, followers } = stage;
    const owner = await startRun(log);
    const listening = listen(followers.follow(owner));
    await waitingIs(stage, 1);
    const admin = server.client();
    await admin.acl("SETUSER", "default", "-subscribe");
    proxy.cut();
    await vi.waitFor(async () => expect(await admin.acl("LOG")).not.toEqual([]), PATIENCE);
    await appendDeltas(log, owner, { from: 2, to: 2 });
    await listening.heard(2);
    await log.finish(owner, [terminalEvent(owner, 3)], "succeeded");
    expect(await listening.done).toEqual([1, 2, 3]);
  });

  it("goes on where only one of the two connections is lost", async () => {
    await using stage = await setUp({}, { pollMs: 60_000 });
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    const listening = listen(followers.follow(owner));
    await waitingIs(stage, 1);
    const admin = server.client();
    let sequence = 2;
    for (const name of ["followers", "subscriber", "followers", "subscriber"]) {
      const line = String(await admin.client("LIST"))
        .split("\n")
        .find((entry) => entry.includes(` name=${name} `));
      await admin.client("KILL", "ID", line?.match(/^id=(\d+)/)?.[1] ?? "");
      await appendDeltas(log, owner, { from: sequence, to: sequence });
      await listening.heard(sequence);
      sequence += 1;
    }
    await log.finish(owner, [terminalEvent(owner, sequence)], "succeeded");
    expect(await listening.done).toEqual(upTo(sequence));
  });

  it("goes on after a restart of Redis that keeps its data", async () => {
    await using stage = await setUp({ appendonly: true }, { pollMs: 60_000 });
    const { log, followers, server } = stage;
    const owner = await startRun(log);
    await appendDeltas(log, owner, { from: 2, to: 5 });
    const listening = listen(followers.follow(owner, { fromSequence: 3 }));
    await waitingIs(stage, 1);
    await server.kill();
    await server.restart();
    await appendDeltas(log, owner, { from: 6, to: 8 });
    await log.finish(owner, [terminalEvent(owner, 9)], "succeeded");
    expect(await listening.done).toEqual(upTo(9, 3));
  });
});

it("follows two thousand runs on one subscriber connection", async () => {
  await using stage = await setUp();
  const { log, followers, server } = stage;
  const runs: RunRef[] = await Promise.all(Array.from({ length: 2_000 }, () => enqueueRun(log)));
  const listening = runs.map((run) => listen(followers.follow(run)));
  await waitingIs(stage, runs.length);
  const admin = server.client();
  const clients = String(await admin.client("LIST"))
    .split("\n")
    .filter((line) => /name=(followers|subscriber) /.test(line));
  expect(clients).toHaveLength(2);
  await vi.waitFor(async () => {
    expect(await admin.pubsub("CHANNELS", "*:notice")).toHaveLength(runs.length);
  }, PATIENCE);
  const end = (run: RunRef) => ({ terminal: terminalEvent(run, 2, "cancelled"), state: "cancelled" }) as const;
  await Promise.all(runs.map((run) => log.endWaiting(run, end(run))));
  expect(await Promise.all(listening.map(({ done }) => done))).toEqual(runs.map(() => [1, 2]));
  expect(stage.subscribers()).toBe(1);
  expect(followers.waiting).toBe(0);
});
