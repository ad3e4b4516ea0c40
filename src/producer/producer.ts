import { findTenant, OPEN_DOOR, type TenantRecords } from "../shared/config/tenants.ts";
import { toIsoTime } from "../shared/clock.ts";
import { payloadDigest } from "../shared/contracts/digest.ts";
import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunRequest, RunRequestInput } from "../shared/contracts/request.ts";
import type { RunResult, RunState } from "../shared/contracts/result.ts";
import { parseRunRequest } from "../shared/contracts/validate.ts";
import { assertNever, RunError, toRunError } from "../shared/errors.ts";
import { newNonce, newRunId } from "../shared/ids.ts";
import type { Logger } from "../shared/logging/logger.ts";
import { DEFAULT_LANE, runKeys } from "../shared/redis/keys.ts";
import type { EnqueueReply, Grant, RunRef } from "../shared/run-log/run-log.ts";
import { cancelRun, type Cancelled } from "./cancel-run.ts";
import { loadQueue } from "./queue.ts";
import { toRedisUrl } from "./redis-address.ts";
import { findRecord, readResult, resultOf } from "./read-result.ts";
import { checkOptions, type ProducerOptions } from "./producer-options.ts";
import { checkRunQuery } from "./run-query.ts";
import { CALL_TIMEOUT_MS, Connections, type Session } from "./session.ts";

/** What became of a request. */
export interface Enqueued {
  readonly runId: string;
  readonly state: RunState;
  /** The idempotency key was used before with the same request: this is that run. */
  readonly duplicate: boolean;
  /** The Redis stream of the run's events: ids `<sequence>-0`, one field `e` with the event as JSON. */
  readonly streamKey: string;
  /** The Redis channel that says when something was appended. */
  readonly channel: string;
}

export interface FollowQuery extends RunRef {
  /** The first event to deliver. Default 1. */
  readonly fromSequence?: number;
  /** Leaves, without an error and without a result; the run goes on. */
  readonly signal?: AbortSignal;
}

export interface ResultQuery extends RunRef {
  /** How long to wait for the end, 0–86,400,000. Default 0. */
  readonly waitMs?: number;
  /** Stops waiting: the answer is undefined then. */
  readonly signal?: AbortSignal;
}

export interface CancelQuery extends RunRef {
  /** Up to 1,000 characters; stands in the result as `cancelReason`. */
  readonly reason?: string | undefined;
}

/**
 * `cancelled`: no worker had it and it has ended now. `requested`: its worker has been told and ends it within
 * seconds. `already_ended`: nothing changed.
 */
export interface CancelReply {
  readonly outcome: "cancelled" | "requested" | "already_ended";
  readonly state: RunState;
}

/**
 * Puts runs on the queue, follows them, waits for them and cancels them.
 *
 * One instance serves a whole process: any number of calls and followers share two connections, opened at the
 * first need. While Redis is away calls fail with `redis_unavailable` within about five seconds; they work again
 * when it is back.
 */
export class Producer {
  readonly #tenants: TenantRecords;
  readonly #logger: Pick<Logger, "warn"> | undefined;
  readonly #connections: Connections;

  /**
   * Connects to nothing yet.
   *
   * @throws {RunError} `invalid_configuration`: no address, or a life that is none.
   */
  constructor(options: ProducerOptions) {
    checkOptions(options);
    this.#tenants = options.tenants ?? OPEN_DOOR;
    this.#logger = options.logger;
    this.#connections = new Connections({
      url: toRedisUrl(options.redis),
      retentionMs: options.retentionMs,
      onQueueError: (error) => this.#logger?.warn({ code: toRunError(error, "redis_unavailable").code }, "queue error"),
    });
  }

  /**
   * Accepts a run: when this resolves, it will end in a terminal state, whatever happens to this process.
   *
   * With an `idempotencyKey` (or a `runId` of your own) it may be called again after any error: a run that was
   * accepted meanwhile is found, not repeated.
   *
   * @throws {RunError} `invalid_request`, `not_supported` (`details.problems` with JSON pointers), `unknown_tenant`,
   *   `run_id_conflict`, `idempotency_conflict` (`details.runId`: the run that has the key); `redis_unavailable`,
   *   where `details.accepted: "unknown"` means that the answer was lost.
   */
  async enqueue(input: RunRequestInput): Promise<Enqueued> {
    const request = parseRunRequest(input, { runId: newRunId() });
    findTenant(this.#tenants, request.tenantId);
    // BullMQ takes longer to load than Redis to answer. What goes wrong is seen where the queue is opened.
    void loadQueue().catch(() => undefined);
    const reply = await this.#submit(request);
    if (reply.kind === "run_id_conflict") throw new RunError("run_id_conflict", { details: { runId: request.runId } });
    if (reply.kind === "idempotency_conflict")
      throw new RunError("idempotency_conflict", { details: { runId: reply.runId } });
    await this.#deliver(reply.grants);
    const { events, notice } = runKeys(DEFAULT_LANE, request.tenantId, reply.runId);
    return {
      runId: reply.runId,
      state: reply.state,
      duplicate: reply.kind === "duplicate",
      streamKey: events,
      channel: notice,
    };
  }

  /**
   * Delivers a run's events in order, each once, from any of them on, and last the result: `item.type` tells.
   * Waits while the run goes on; survives lost connections.
   *
   * @throws {RunError} `invalid_request`; `run_not_found`: no run of this tenant, or no longer;
   *   `redis_unavailable` where Redis is away at the beginning, for five seconds.
   */
  async *follow(query: FollowQuery): AsyncGenerator<RunEvent | RunResult, void, undefined> {
    const run = checkRunQuery(query);
    const { signal, fromSequence = 1 } = query;
    const look = async (session: Session) => ({ session, record: await findRecord(session, run) });
    const { session, record } = await this.#connections.use(look, { retryWithinMs: CALL_TIMEOUT_MS });
    let result: RunResult | undefined;
    for await (const event of session.followers.follow(run, {
      fromSequence,
      enqueueId: record.enqueueId,
      ...(signal === undefined ? {} : { signal }),
    })) {
      result = resultOf(event);
      yield event;
    }
    if (signal?.aborted === true) return;
    // The caller began behind the last event: the result is still owed.
    yield result ?? (await this.#connections.use((again) => readResult(again, run)));
  }

  /**
   * Gives the result of a run that has ended, or ends within `waitMs`.
   *
   * @returns undefined where it has not, or where Redis went away while it waited and did not come back in time.
   * @throws {RunError} `invalid_request`, `run_not_found`, `redis_unavailable`.
   */
  async result(query: ResultQuery): Promise<RunResult | undefined> {
    const run = checkRunQuery(query);
    const waitMs = query.waitMs ?? 0;
    const look = async (session: Session) => ({ session, record: await findRecord(session, run) });
    const { session, record } = await this.#connections.use(look);
    if (record.terminal) return this.#connections.use((again) => readResult(again, run));
    if (waitMs === 0 || query.signal?.aborted === true) return undefined;
    const leave = new AbortController();
    const timer = setTimeout(() => leave.abort(), waitMs);
    const signal = query.signal === undefined ? leave.signal : AbortSignal.any([leave.signal, query.signal]);
    try {
      const from = { fromSequence: record.sequence + 1, enqueueId: record.enqueueId, signal };
      for await (const event of session.followers.follow(run, from)) {
        const result = resultOf(event);
        if (result !== undefined) return result;
      }
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Ends a run that no worker has: it has not started, or was given back; asks the worker of a running one to end it.
   * Calling it again changes nothing.
   *
   * @throws {RunError} `invalid_request`, `run_not_found`, `redis_unavailable`.
   */
  async cancel(query: CancelQuery): Promise<CancelReply> {
    const run = checkRunQuery(query);
    const reason = query.reason === undefined ? {} : { reason: query.reason };
    const reply = await cancelRun(this.#connections, run, reason);
    if (reply.kind === "ended") {
      await this.#deliver(reply.grants);
      if (reply.grant !== undefined) await this.#withdraw({ ...run, grant: reply.grant });
    }
    return toCancelReply(reply);
  }

  /** Ends followers by an error and closes the connections, within about three seconds. Safe to call again. */
  async close(): Promise<void> {
    await this.#connections.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Sends the one script that makes a request a run: again after a lost connection, under the same enqueue id. */
  async #submit(request: RunRequest): Promise<EnqueueReply> {
    const digest = payloadDigest(request);
    const command = { request, enqueueId: newNonce(), payloadDigest: digest, queued: toQueued(request, digest) };
    let sent = false;
    try {
      return await this.#connections.use(({ log }) => {
        sent = true;
        return log.enqueue(command);
      });
    } catch (error) {
      const failure = toRunError(error);
      if (failure.code !== "redis_unavailable" || !sent) throw failure;
      throw new RunError("redis_unavailable", {
        message: "Redis did not answer: the run may have been accepted.",
        details: { runId: request.runId, accepted: "unknown" },
        cause: error,
      });
    }
  }

  /**
   * Puts admitted runs on the queue. They are accepted already: a grant that does not get there is found by the
   * workers' reconciler when its lease runs out. So the caller is not told, but the log is.
   */
  async #deliver(grants: readonly Grant[]): Promise<void> {
    if (grants.length === 0) return;
    const outcomes = await Promise.allSettled(
      grants.map((grant) => this.#connections.use(async (session) => (await session.openQueue()).add(grant))),
    );
    for (const [index, outcome] of outcomes.entries()) {
      if (outcome.status === "rejected")
        this.#warn(grants[index], outcome.reason, "a run waits for the reconciler: it could not be put on the queue");
    }
  }

  /** The job of a run that has ended does no harm: a worker finds nothing to do. */
  async #withdraw(grant: Grant): Promise<void> {
    try {
      await this.#connections.use(async (session) => (await session.openQueue()).remove(grant));
    } catch (error) {
      this.#warn(grant, error, "the job of a cancelled run stays on the queue");
    }
  }

  /** The cause stays out of the line: a client's error may hold the command and with it the request. */
  #warn(grant: Grant | undefined, error: unknown, message: string): void {
    this.#logger?.warn(
      { tenantId: grant?.tenantId, runId: grant?.runId, code: toRunError(error, "redis_unavailable").code },
      message,
    );
  }
}

function toQueued(request: RunRequest, requestDigest: string): RunEvent {
  return {
    schemaVersion: "1",
    runId: request.runId,
    tenantId: request.tenantId,
    sequence: 1,
    type: "run.queued",
    time: toIsoTime(Date.now()),
    attempt: 0,
    terminal: false,
    data: {
      requestDigest,
      ...(request.skill === undefined ? {} : { skill: request.skill }),
      ...(request.correlationId === undefined ? {} : { correlationId: request.correlationId }),
    },
  };
}

function toCancelReply(reply: Cancelled): CancelReply {
  switch (reply.kind) {
    case "ended":
      return { outcome: "cancelled", state: "cancelled" };
    case "running":
      return { outcome: "requested", state: "running" };
    case "outdated":
      return { outcome: "requested", state: "queued" };
    case "closed":
      return { outcome: "already_ended", state: reply.state };
    default:
      return assertNever(reply);
  }
}
