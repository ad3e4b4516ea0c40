import { createHash } from "node:crypto";
import type { Redis } from "ioredis";
import type { RunEvent } from "../contracts/event.ts";
import { type TerminalState } from "../contracts/result.ts";
import { RunError } from "../errors.ts";
import { guard } from "../redis/guard.ts";
import { DEFAULT_LANE, idempotencyKey, laneKeys, lanePrefix, runKeys } from "../redis/keys.ts";
import { checkBatch, checkFinal, parseEntries, toRecord } from "./events.ts";
import * as replies from "./replies.ts";
import type {
  ClaimReply,
  EndWaitingReply,
  EnqueueCommand,
  EnqueueReply,
  FinishReply,
  Grant,
  RenewReply,
  RunLog,
  RunOwner,
  RunRecord,
  RunRef,
  SweepReply,
  WriteReply,
} from "./run-log.ts";
import { defineScripts, runScript, type ScriptCall, type ScriptName, type ScriptReply } from "./scripts.ts";

export interface RedisRunLogOptions {
  /** A connection of the role `request`. It stays the caller's to close. */
  readonly redis: Redis;
  /** Default 0. */
  readonly lane?: number;
  readonly retention?: {
    /** Life of record, stream and idempotency entry after the end. Default 86 400 000, one day. */
    readonly ttlMs?: number;
  };
  readonly leases?: {
    /** From an admission to its claim. Default 30 000. */
    readonly grantMs?: number;
    /** From a claim or a renewal to the next one. Default 15 000. */
    readonly renewedMs?: number;
  };
  /** Bytes of a run's events before its terminal one. Default 33 554 432, 32 MiB. */
  readonly journalLimitBytes?: number;
}

const MAX_OWNERS_PER_CALL = 500;
const RECORD_FIELDS = ["state", "epoch", "seq", "grant", "queuedAt", "terminal", "enqueueId"] as const;

/** The run log in Redis, version 6.2 and later: one script a change, so that each is all or nothing. */
export class RedisRunLog implements RunLog {
  readonly #redis: Redis;
  readonly #lane: number;
  readonly #prefix: string;
  readonly #ttlMs: number;
  readonly #grantLeaseMs: number;
  readonly #renewedLeaseMs: number;
  readonly #journalLimitBytes: number;

  constructor(options: RedisRunLogOptions) {
    this.#redis = options.redis;
    this.#lane = options.lane ?? DEFAULT_LANE;
    this.#prefix = lanePrefix(this.#lane);
    this.#ttlMs = options.retention?.ttlMs ?? 86_400_000;
    this.#grantLeaseMs = options.leases?.grantMs ?? 30_000;
    this.#renewedLeaseMs = options.leases?.renewedMs ?? 15_000;
    this.#journalLimitBytes = options.journalLimitBytes ?? 32 * 1_048_576;
    defineScripts(this.#redis);
  }

  async enqueue(command: EnqueueCommand): Promise<EnqueueReply> {
    const { request, queued } = command;
    const { tenantId, runId } = queued;
    if (checkBatch(request, [queued]) !== 1) throw new RunError("internal", { message: "A run begins with event 1." });
    const { record, events } = runKeys(this.#lane, tenantId, runId);
    const key = request.idempotencyKey;
    const reply = await this.#run("enqueue", {
      keys: key === undefined ? [record, events] : [record, events, this.#idempotencyEntry(tenantId, key)],
      args: [
        this.#prefix,
        tenantId,
        runId,
        command.enqueueId,
        command.payloadDigest,
        JSON.stringify(request),
        JSON.stringify(queued),
        request.limits.maxQueueWaitMs,
        this.#grantLeaseMs,
      ],
    });
    return replies.toEnqueueReply(reply);
  }

  async grant(): Promise<readonly Grant[]> {
    const { grants } = laneKeys(this.#lane);
    return replies.toGrants(await this.#run("grant", { keys: [grants], args: [this.#prefix, this.#grantLeaseMs] }));
  }

  async claim(grant: Grant, options: { readonly claimId: string; readonly worker: string }): Promise<ClaimReply> {
    const reply = await this.#run("claim", {
      keys: [this.#record(grant)],
      args: [
        this.#prefix,
        grant.tenantId,
        grant.runId,
        grant.grant,
        options.claimId,
        options.worker,
        this.#renewedLeaseMs,
      ],
    });
    return replies.toClaimReply(reply);
  }

  async append(owner: RunOwner, events: readonly RunEvent[]): Promise<WriteReply> {
    const first = checkBatch(owner, events);
    const keys = runKeys(this.#lane, owner.tenantId, owner.runId);
    const reply = await this.#run("append", {
      keys: [keys.record, keys.events],
      args: [keys.notice, owner.epoch, first, this.#journalLimitBytes, ...toTexts(events)],
    });
    return replies.toWriteReply(reply);
  }

  async finish(owner: RunOwner, events: readonly RunEvent[], state: TerminalState): Promise<FinishReply> {
    const { tenantId, runId, epoch } = owner;
    const first = checkFinal(owner, events, state);
    const keys = runKeys(this.#lane, tenantId, runId);
    const reply = await this.#run("finish", {
      keys: [keys.record, keys.events],
      args: [
        this.#prefix,
        tenantId,
        runId,
        epoch,
        first,
        state,
        this.#ttlMs,
        this.#grantLeaseMs,
        this.#journalLimitBytes,
        ...toTexts(events),
      ],
    });
    return replies.toFinishReply(reply);
  }

  async endWaiting(
    run: RunRef,
    options: {
      readonly terminal: RunEvent;
      readonly state: TerminalState;
      readonly cancel?: { readonly reason?: string };
    },
  ): Promise<EndWaitingReply> {
    const sequence = checkFinal(run, [options.terminal], options.state);
    const keys = runKeys(this.#lane, run.tenantId, run.runId);
    const reason = options.cancel?.reason;
    const reply = await this.#run("end-waiting", {
      keys: [keys.record, keys.events],
      args: [
        this.#prefix,
        run.tenantId,
        run.runId,
        JSON.stringify(options.terminal),
        sequence,
        options.terminal.attempt,
        options.state,
        this.#ttlMs,
        this.#grantLeaseMs,
        options.cancel === undefined ? "" : "cancel",
        reason === undefined ? "" : JSON.stringify(reason),
      ],
    });
    return replies.toEndWaitingReply(reply);
  }

  async renew(owners: readonly RunOwner[]): Promise<readonly RenewReply[]> {
    const chunks: Promise<readonly RenewReply[]>[] = [];
    for (let start = 0; start < owners.length; start += MAX_OWNERS_PER_CALL) {
      chunks.push(this.#renewChunk(owners.slice(start, start + MAX_OWNERS_PER_CALL)));
    }
    return (await Promise.all(chunks)).flat();
  }

  async handBack(owner: RunOwner): Promise<"handed_back" | "fenced" | "closed"> {
    const reply = await this.#run("hand-back", {
      keys: [this.#record(owner)],
      args: [this.#prefix, owner.tenantId, owner.runId, owner.epoch, this.#grantLeaseMs],
    });
    return replies.toHandBackReply(reply);
  }

  async regrant(grant: Grant): Promise<Grant | undefined> {
    const { tenantId, runId } = grant;
    const reply = await this.#run("regrant", {
      keys: [this.#record(grant)],
      args: [this.#prefix, tenantId, runId, grant.grant, this.#grantLeaseMs],
    });
    return reply === "" ? undefined : { tenantId, runId, grant: Number(reply) };
  }

  async now(): Promise<number> {
    const [seconds, microseconds] = await guard(this.#redis.time());
    return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
  }

  async sweep(options: { readonly limit: number }): Promise<SweepReply> {
    const { grants, waiting } = laneKeys(this.#lane);
    const reply = await this.#run("sweep", {
      keys: [grants, waiting],
      args: [this.#prefix, options.limit, this.#grantLeaseMs],
    });
    return replies.toSweepReply(reply);
  }

  async record(run: RunRef): Promise<RunRecord | undefined> {
    return toRecord(await guard(this.#redis.hmget(this.#record(run), ...RECORD_FIELDS)));
  }

  async read(
    run: RunRef,
    options: { readonly fromSequence: number; readonly limit: number },
  ): Promise<readonly RunEvent[]> {
    const { events } = runKeys(this.#lane, run.tenantId, run.runId);
    const { fromSequence, limit } = options;
    const entries = await guard(this.#redis.xrange(events, `${fromSequence}-0`, "+", "COUNT", limit));
    return parseEntries(entries, fromSequence);
  }

  async #renewChunk(owners: readonly RunOwner[]): Promise<readonly RenewReply[]> {
    const reply = await this.#run("renew", {
      keys: owners.map((owner) => this.#record(owner)),
      args: [
        this.#prefix,
        this.#renewedLeaseMs,
        ...owners.flatMap(({ tenantId, runId, epoch }) => [tenantId, runId, epoch]),
      ],
    });
    return replies.toRenewReplies(reply);
  }

  #run(name: ScriptName, call: ScriptCall): Promise<ScriptReply> {
    return runScript(this.#redis, name, call);
  }

  #record(run: RunRef): string {
    return runKeys(this.#lane, run.tenantId, run.runId).record;
  }

  #idempotencyEntry(tenantId: string, key: string): string {
    return idempotencyKey(this.#lane, tenantId, createHash("sha256").update(key).digest("hex"));
  }
}

function toTexts(events: readonly RunEvent[]): readonly string[] {
  return events.map((event) => JSON.stringify(event));
}
