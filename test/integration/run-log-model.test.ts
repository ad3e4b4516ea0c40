import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { TerminalState } from "../../src/shared/contracts/result.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import type { Grant, RunOwner, RunRef } from "../../src/shared/run-log/run-log.ts";
import { startRedis, type TestRedis } from "../support/redis.ts";
import { deltaEvent, makeEnqueue, terminalEvent } from "../support/run-log.ts";

/**
 * Any interleaving of two attempts, cancels, hand-backs, regrants, sweeps and re-sent commands, against a
 * model of one run that is small enough to be seen right. After each step the whole stream is compared.
 */

type Slot = "a" | "b";

/** What an attempt knows: only what it was answered. */
interface Attempt {
  grant: Grant | undefined;
  claimId: string;
  owner: RunOwner | undefined;
  sequence: number;
  lastAppend: { readonly owner: RunOwner; readonly events: readonly RunEvent[] } | undefined;
  lastFinish:
    | { readonly owner: RunOwner; readonly events: readonly RunEvent[]; readonly state: TerminalState }
    | undefined;
}

interface Model {
  state: "granted" | "running" | TerminalState;
  epoch: number;
  grant: number;
  owner: string;
  readonly claimed: Set<string>;
  lost: number;
  handedOver: number;
  cancelled: boolean;
  readonly events: RunEvent[];
}

interface Real {
  readonly log: RedisRunLog;
  readonly run: RunRef;
  readonly command: ReturnType<typeof makeEnqueue>;
  readonly attempts: Record<Slot, Attempt>;
}

const isLiving = (model: Model): boolean => model.state === "granted" || model.state === "running";
const isOwner = (model: Model, owner: RunOwner): boolean => model.state === "running" && owner.epoch === model.epoch;
const outward = (model: Model): string => (model.state === "granted" ? "queued" : model.state);
const cancelOf = (model: Model): unknown =>
  model.cancelled ? { reason: "stop", requestedAt: expect.any(Number) } : undefined;

abstract class Step implements fc.AsyncCommand<Model, Real> {
  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    const before = model.events.length;
    await this.act(model, real);
    expect(model.events.length).toBeGreaterThanOrEqual(before);
    expect(await real.log.record(real.run)).toMatchObject({
      state: outward(model),
      epoch: model.epoch,
      grant: model.grant,
      sequence: model.events.length,
      terminal: !isLiving(model),
    });
    expect(await real.log.read(real.run, { fromSequence: 1, limit: 1_000 })).toEqual(model.events);
  }

  protected abstract act(model: Model, real: Real): Promise<void>;
}

class Claim extends Step {
  readonly slot: Slot;
  readonly resent: boolean;
  readonly stale: boolean;

  constructor(slot: Slot, kind: "new" | "resent" | "stale") {
    super();
    this.slot = slot;
    this.resent = kind === "resent";
    this.stale = kind === "stale";
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const attempt = real.attempts[this.slot];
    const number = Math.max(1, model.grant - (this.stale ? 1 : 0));
    if (!this.resent || attempt.grant === undefined) {
      attempt.grant = { ...real.run, grant: number };
      attempt.claimId = randomUUID();
    }
    const reply = await real.log.claim(attempt.grant, { claimId: attempt.claimId, worker: this.slot });
    if (!isLiving(model)) return expect(reply).toEqual({ kind: "ended" });
    if (attempt.grant.grant !== model.grant) return expect(reply).toEqual({ kind: "stale" });
    if (model.owner !== attempt.claimId) {
      if (model.claimed.has(attempt.claimId)) return expect(reply).toEqual({ kind: "stale" });
      if (model.epoch > 0 && model.handedOver !== model.epoch) model.lost += 1;
      Object.assign(model, { state: "running", owner: attempt.claimId, epoch: model.epoch + 1 });
      model.claimed.add(attempt.claimId);
    }
    expect(reply).toMatchObject({
      kind: "claimed",
      claim: {
        epoch: model.epoch,
        sequence: model.events.length,
        lostAttempts: model.lost,
        cancel: cancelOf(model),
        handedOver: model.epoch > 1 && model.handedOver === model.epoch - 1,
      },
    });
    attempt.owner = { ...real.run, epoch: model.epoch };
    attempt.sequence = model.events.length;
  }

  override toString(): string {
    return `claim(${this.slot}${this.resent ? ", resent" : ""}${this.stale ? ", stale grant" : ""})`;
  }
}

class Append extends Step {
  readonly slot: Slot;
  readonly count: number;
  readonly resent: boolean;

  constructor(slot: Slot, count: number, kind: "new" | "resent") {
    super();
    this.slot = slot;
    this.count = count;
    this.resent = kind === "resent";
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const attempt = real.attempts[this.slot];
    if (!this.resent && attempt.owner !== undefined) {
      const { owner, sequence } = attempt;
      const events = Array.from({ length: this.count }, (_, index) =>
        deltaEvent(real.run, sequence + 1 + index, { attempt: owner.epoch, text: randomUUID() }),
      );
      attempt.lastAppend = { owner, events };
    }
    if (attempt.lastAppend === undefined) return;
    const { owner, events } = attempt.lastAppend;
    const reply = await real.log.append(owner, events);
    if (!isLiving(model)) return expect(reply).toEqual({ kind: "closed" });
    if (!isOwner(model, owner)) return expect(reply).toEqual({ kind: "fenced" });
    expect(reply).toEqual({ kind: "written", cancel: cancelOf(model) });
    const last = events.at(-1)?.sequence ?? 0;
    if (last > model.events.length) model.events.push(...events);
    attempt.sequence = model.events.length;
  }

  override toString(): string {
    return this.resent ? `append(${this.slot}, resent)` : `append(${this.slot}, ${this.count})`;
  }
}

class Finish extends Step {
  readonly slot: Slot;
  readonly state: TerminalState;
  readonly resent: boolean;

  constructor(slot: Slot, state: TerminalState, kind: "new" | "resent") {
    super();
    this.slot = slot;
    this.state = state;
    this.resent = kind === "resent";
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const attempt = real.attempts[this.slot];
    if (!this.resent && attempt.owner !== undefined) {
      const { owner, sequence } = attempt;
      const events = [
        deltaEvent(real.run, sequence + 1, { attempt: owner.epoch }),
        terminalEvent(real.run, sequence + 2, this.state, owner.epoch),
      ];
      attempt.lastFinish = { owner, events, state: this.state };
    }
    if (attempt.lastFinish === undefined) return;
    const { owner, events, state } = attempt.lastFinish;
    const reply = await real.log.finish(owner, events, state);
    if (!isLiving(model)) {
      const isSame =
        model.state === state && model.epoch === owner.epoch && events.at(-1)?.sequence === model.events.length;
      return expect(reply.kind).toBe(isSame ? "finished" : "closed");
    }
    if (!isOwner(model, owner) || events[0]?.sequence !== model.events.length + 1)
      return expect(reply).toEqual({ kind: "fenced" });
    expect(reply).toEqual({ kind: "finished", grants: [] });
    model.events.push(...events);
    model.state = state;
  }

  override toString(): string {
    return this.resent ? `finish(${this.slot}, resent)` : `finish(${this.slot}, ${this.state})`;
  }
}

class HandBack extends Step {
  readonly slot: Slot;

  constructor(slot: Slot) {
    super();
    this.slot = slot;
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const { owner } = real.attempts[this.slot];
    if (owner === undefined) return;
    const reply = await real.log.handBack(owner);
    if (!isLiving(model)) return expect(reply).toBe("closed");
    if (model.epoch !== owner.epoch) return expect(reply).toBe("fenced");
    if (model.state === "granted")
      return expect(reply).toBe(model.handedOver === owner.epoch ? "handed_back" : "fenced");
    expect(reply).toBe("handed_back");
    Object.assign(model, { state: "granted", owner: "", handedOver: model.epoch });
  }

  override toString(): string {
    return `handBack(${this.slot})`;
  }
}

class Renew extends Step {
  protected override async act(model: Model, real: Real): Promise<void> {
    const owners = [real.attempts.a.owner, real.attempts.b.owner].filter((owner) => owner !== undefined);
    const expected = owners.map((owner) => {
      if (!isLiving(model)) return { kind: "closed" };
      return isOwner(model, owner) ? { kind: "renewed", cancel: cancelOf(model) } : { kind: "fenced" };
    });
    expect(await real.log.renew(owners)).toEqual(expected);
  }

  override toString(): string {
    return "renew()";
  }
}

class Regrant extends Step {
  readonly behind: number;

  constructor(behind: number) {
    super();
    this.behind = behind;
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const given = { ...real.run, grant: model.grant - this.behind };
    const reply = await real.log.regrant(given);
    if (!isLiving(model) || this.behind > 0) return expect(reply).toBeUndefined();
    Object.assign(model, { state: "granted", owner: "", grant: model.grant + 1 });
    expect(reply).toEqual({ ...real.run, grant: model.grant });
  }

  override toString(): string {
    return `regrant(${this.behind} behind)`;
  }
}

class Cancel extends Step {
  readonly behind: { readonly sequence: number; readonly epoch: number };

  constructor(behind: { readonly sequence: number; readonly epoch: number }) {
    super();
    this.behind = behind;
  }

  protected override async act(model: Model, real: Real): Promise<void> {
    const epoch = model.epoch - this.behind.epoch;
    const terminal = terminalEvent(real.run, model.events.length + 1 - this.behind.sequence, "cancelled", epoch);
    const reply = await real.log.endWaiting(real.run, { terminal, state: "cancelled", cancel: { reason: "stop" } });
    if (!isLiving(model)) return expect(reply).toEqual({ kind: "closed", state: model.state });
    const isCurrent = this.behind.epoch === 0 && this.behind.sequence === 0;
    if (model.state === "running" || !isCurrent) {
      model.cancelled = true;
      return expect(reply).toEqual({ kind: model.state === "running" ? "running" : "outdated" });
    }
    expect(reply).toEqual({ kind: "ended", grants: [], grant: model.grant });
    model.events.push(terminal);
    model.state = "cancelled";
  }

  override toString(): string {
    return `cancel(${this.behind.sequence} events, ${this.behind.epoch} epochs behind)`;
  }
}

class Sweep extends Step {
  protected override async act(model: Model, real: Real): Promise<void> {
    const { grants } = await real.log.sweep({ limit: 10_000 });
    const mine = grants.filter(({ runId }) => runId === real.run.runId);
    expect(mine).toEqual(isLiving(model) ? [{ ...real.run, grant: model.grant, state: outward(model) }] : []);
  }

  override toString(): string {
    return "sweep()";
  }
}

class ResendEnqueue extends Step {
  protected override async act(model: Model, real: Real): Promise<void> {
    const grants = model.state === "granted" ? [{ ...real.run, grant: model.grant }] : [];
    const expected = { runId: real.run.runId, state: outward(model), grants };
    expect(await real.log.enqueue(real.command)).toEqual({ kind: "enqueued", ...expected });
    const again = { ...real.command, enqueueId: randomUUID() };
    expect(await real.log.enqueue(again)).toEqual({ kind: "duplicate", ...expected });
  }

  override toString(): string {
    return "resendEnqueue()";
  }
}

const slot = fc.constantFrom<Slot>("a", "b");
const terminalState = fc.constantFrom<TerminalState>("succeeded", "cancelled", "failed", "timed_out");
const kind = fc.constantFrom<"new" | "resent">("new", "new", "resent");

const steps = fc.commands(
  [
    fc
      .tuple(slot, fc.constantFrom<"new" | "resent" | "stale">("new", "new", "resent", "stale"))
      .map((args) => new Claim(...args)),
    fc.tuple(slot, fc.integer({ min: 1, max: 4 }), kind).map((args) => new Append(...args)),
    fc.tuple(slot, fc.integer({ min: 1, max: 4 }), kind).map((args) => new Append(...args)),
    fc.tuple(slot, terminalState, kind).map((args) => new Finish(...args)),
    slot.map((name) => new HandBack(name)),
    fc.integer({ min: 0, max: 1 }).map((behind) => new Regrant(behind)),
    fc.constantFrom([0, 0], [0, 0], [1, 0], [0, 1]).map(([sequence = 0, epoch = 0]) => new Cancel({ sequence, epoch })),
    fc.constant(new Sweep()),
    fc.constant(new Renew()),
    fc.constant(new ResendEnqueue()),
  ],
  { maxCommands: 40, size: "max" },
);

let server: TestRedis;
let log: RedisRunLog;

beforeAll(async () => {
  server = await startRedis();
  log = new RedisRunLog({ redis: server.client(), leases: { grantMs: 0, renewedMs: 0 } });
});
afterAll(() => server[Symbol.asyncDispose]());

const newAttempt = (): Attempt => ({
  grant: undefined,
  claimId: "",
  owner: undefined,
  sequence: 0,
  lastAppend: undefined,
  lastFinish: undefined,
});

async function setUp(): Promise<{ model: Model; real: Real }> {
  const command = makeEnqueue({ idempotencyKey: randomUUID() });
  const run = { tenantId: command.request.tenantId, runId: command.request.runId };
  await log.enqueue(command);
  const model: Model = {
    state: "granted",
    epoch: 0,
    grant: 1,
    owner: "",
    claimed: new Set(),
    lost: 0,
    handedOver: 0,
    cancelled: false,
    events: [command.queued],
  };
  return { model, real: { log, run, command, attempts: { a: newAttempt(), b: newAttempt() } } };
}

it("keeps one end, gapless order and the fence in any interleaving of two attempts and re-sent commands", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (commands) => {
      await fc.asyncModelRun(setUp, commands);
    }),
    { numRuns: 150 },
  );
}, 60_000);
