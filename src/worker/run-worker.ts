import type { Logger } from "pino";
import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunRequest } from "../shared/contracts/request.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { shiftedClock } from "../shared/clock.ts";
import { RunError } from "../shared/errors.ts";
import { newNonce } from "../shared/ids.ts";
import { runLogger } from "../shared/logging/run-logger.ts";
import type { Claim, Grant, RunLog } from "../shared/run-log/run-log.ts";
import { ActiveRun } from "./active-run.ts";
import { ActiveRuns } from "./active-runs.ts";
import { auditor, type Audit } from "./executor/audit.ts";
import { EventStamper } from "./executor/event-stamper.ts";
import { execute } from "./executor/execute.ts";
import { RunInterrupt, type Execution, type ExecutionDependencies, type UnsealedResult } from "./executor/execution.ts";
import { foldHistory, type History } from "./prior-attempts.ts";
import type { RunObserver } from "./run-observer.ts";
import { RunWriter } from "./run-writer.ts";
import { untilAnswered } from "./until-answered.ts";

/** Events that must be durable before the executor goes on: what follows them cannot be taken back. */
const BARRIERS: ReadonlySet<RunEvent["type"]> = new Set(["model.started", "tool.call"]);
const READ_PAGE = 500;

export interface RunWorkerOptions {
  readonly log: RunLog;
  readonly dependencies: ExecutionDependencies;
  readonly logger: Logger;
  /** Counts an attempt of this request. */
  readonly observe: (request: RunRequest) => RunObserver;
  readonly audit?: Audit;
  /** How long a confirmed lock is trusted, in ms. */
  readonly lockMs: number;
}

/** What became of a delivered job. */
export type Delivery =
  | { readonly kind: "done"; readonly grants: readonly Grant[] }
  /** This attempt ended without a result, because another owns the run or nothing was to be done. */
  | { readonly kind: "nothing" }
  /** It must be delivered again. */
  | { readonly kind: "put_back" };

/** How long an outage is waited out to give a run back. */
const HAND_BACK_MS = 3_000;

/**
 * Carries out delivered jobs: claims the run, pumps the executor into the run log, ends the run.
 *
 * P1 The executor is asked for more only after `model.started` and `tool.call` are durable.
 * P2 A fenced or handed-over attempt writes nothing more.
 * P3 One run is executed at most once at a time in this process. A second delivery waits for the first to settle; the lock
 *    that came with it is renewed meanwhile, and counts for the first as well.
 */
export class RunWorker {
  readonly #options: RunWorkerOptions;
  readonly #active = new ActiveRuns();
  #handingOver = false;

  constructor(options: RunWorkerOptions) {
    this.#options = options;
  }

  get active(): ActiveRuns {
    return this.#active;
  }

  /** Hands over every run that executes now, and those that are about to. @returns The former. */
  handOverAll(): readonly ActiveRun[] {
    this.#handingOver = true;
    const runs = [...this.#active];
    for (const run of runs) run.handOver();
    return runs;
  }

  /** @throws {RunError} `redis_unavailable`: nothing is known; the job's lock decides. */
  async deliver(grant: Grant, jobId: string): Promise<Delivery> {
    const { log, dependencies, lockMs } = this.#options;
    const arrivedAt = performance.now();
    const { waited } = await this.#active.reserve(grant);
    // While it waited its lock was renewed, the last time not longer ago than half of its duration.
    const deliveredAt = waited ? performance.now() - lockMs / 4 : arrivedAt;
    try {
      if (this.#handingOver) return { kind: "put_back" };
      const claimant = { claimId: newNonce(), worker: dependencies.worker };
      const reply = await untilAnswered(AbortSignal.timeout(lockMs), async () => log.claim(grant, claimant));
      if (reply.kind !== "claimed") return { kind: "nothing" };
      const owner = { tenantId: grant.tenantId, runId: grant.runId, epoch: reply.claim.epoch };
      const active = new ActiveRun({ owner, jobId, lockMs, deliveredAt });
      this.#active.add(active);
      if (this.#handingOver) active.handOver();
      try {
        return await this.#attempt(active, reply.claim);
      } finally {
        active.settle();
      }
    } finally {
      this.#active.release(grant);
    }
  }

  async #attempt(active: ActiveRun, claim: Claim): Promise<Delivery> {
    const { request } = claim;
    const logger = runLogger(this.#options.logger, { ...request, attempt: claim.epoch });
    const observer = this.#options.observe(request);
    if (claim.cancel !== undefined) active.cancel(claim.cancel.reason);
    try {
      const history = claim.epoch === 1 ? undefined : await this.#readHistory(active, claim);
      const execution = toExecution(claim, history);
      observer.began(claim, execution.prior?.usage);
      logger.debug({ skill: request.skill, lostAttempts: claim.lostAttempts }, "attempt started");
      const { result, grants } = await this.#pump({ active, claim, execution, observer, logger });
      observer.ended(result);
      logger.info(
        {
          skill: request.skill,
          status: result.status,
          code: result.error?.code,
          usage: result.usage,
          durationMs: result.timings.durationMs,
        },
        "run ended",
      );
      return { kind: "done", grants };
    } catch (error) {
      if (!(error instanceof RunInterrupt)) {
        logger.error({ err: error }, "attempt broke off");
        throw error;
      }
      observer.interrupted(error.kind);
      logger.warn({ interrupt: error.kind }, "attempt interrupted");
      // Where only the lock is in doubt, the job goes back: whoever claims next takes over.
      if (error.kind === "lock_lost") return { kind: "put_back" };
      if (error.kind !== "handed_over") return { kind: "nothing" };
      const outcome = await untilAnswered(AbortSignal.timeout(HAND_BACK_MS), async () =>
        this.#options.log.handBack(active.owner),
      );
      return outcome === "handed_back" ? { kind: "put_back" } : { kind: "nothing" };
    }
  }

  async #pump(pump: {
    readonly active: ActiveRun;
    readonly claim: Claim;
    readonly execution: Execution;
    readonly observer: RunObserver;
    readonly logger: Logger;
  }): Promise<{ readonly result: RunResult; readonly grants: readonly Grant[] }> {
    const { active, claim, execution, observer } = pump;
    const { dependencies } = this.#options;
    // All times of a run are the server's: when it was queued and begun, when its wall clock ends, when events happen.
    const clock = shiftedClock(dependencies.clock, claim.serverTime - dependencies.clock.now());
    const stamper = new EventStamper({
      runId: claim.request.runId,
      tenantId: claim.request.tenantId,
      attempt: claim.epoch,
      lastSequence: claim.sequence,
      now: () => clock.now(),
    });
    const writer = new RunWriter({
      log: this.#options.log,
      owner: active.owner,
      written: claim.sequence,
      signal: active.writeSignal,
      onCancel: (flag) => active.cancel(flag.reason),
      onFenced: () => active.fence(),
    });
    const tell = this.#teller(observer);
    const onFault: ExecutionDependencies["onFault"] = ({ error, callId }) =>
      pump.logger.warn({ err: error, callId }, "behind a failure of this run");
    const drafts = execute(execution, { ...dependencies, clock, onFault }, active.signal);
    const unsealed = await drain({ drafts, stamper, writer, tell });
    await writer.landed();
    active.finishing = true;
    const { terminal, grants } = await this.#finish(unsealed, stamper, writer);
    tell(terminal.event);
    return { result: terminal.result, grants };
  }

  /** Seals the result and writes the end. Where the journal has no room for the last events, the end stands without them. */
  async #finish(
    unsealed: UnsealedResult,
    stamper: EventStamper,
    writer: RunWriter,
  ): Promise<{ readonly terminal: ReturnType<EventStamper["seal"]>; readonly grants: readonly Grant[] }> {
    for (;;) {
      if (writer.overflowed) stamper.rewind(writer.written);
      const terminal = stamper.seal(writer.overflowed ? asOverflow(unsealed) : unsealed);
      const grants = await writer.finish(terminal.event, terminal.result.status);
      if (grants !== "journal_limit") return { terminal, grants };
    }
  }

  #teller(observer: RunObserver): (event: RunEvent) => void {
    const audit = auditor(this.#options.audit);
    return (event) => {
      observer.saw(event);
      audit(event);
    };
  }

  /** @returns `unreadable` where the stream contradicts the record: the run cannot go on, but it can end. */
  async #readHistory(active: ActiveRun, claim: Claim): Promise<History | "unreadable"> {
    const { log, dependencies } = this.#options;
    const events: RunEvent[] = [];
    try {
      while (events.length < claim.sequence) {
        const from = { fromSequence: events.length + 1, limit: READ_PAGE };
        const page = await untilAnswered(active.writeSignal, async () => log.read(claim.request, from));
        if (page.length === 0) return "unreadable";
        events.push(...page);
      }
    } catch (error) {
      if (error instanceof RunError && error.code === "internal") return "unreadable";
      throw error;
    }
    return foldHistory(events, dependencies.tools);
  }
}

function toExecution(claim: Claim, history: History | "unreadable" | undefined): Execution {
  const known = history === "unreadable" ? undefined : history;
  const refusal = refusalOf(claim, history);
  return {
    request: claim.request,
    attempt: claim.epoch,
    queuedAt: claim.queuedAt,
    startedAt: claim.firstClaimedAt,
    // An earlier claim that wrote nothing has used nothing: this is the first start.
    ...(known?.past.startedAt === undefined
      ? {}
      : { prior: { ...known.past, reason: claim.handedOver ? "handed_over" : "worker_lost" } }),
    ...(refusal === undefined ? {} : { refusal }),
  };
}

/** Why this attempt may not even begin: lost too often, too late, unreadable, or not to be repeated. */
function refusalOf(claim: Claim, history: History | "unreadable" | undefined): RunError | undefined {
  const { limits, onWorkerLoss } = claim.request;
  if (claim.lostAttempts >= limits.maxAttempts) {
    return new RunError("poisoned", { details: { lostAttempts: claim.lostAttempts } });
  }
  if (claim.epoch === 1 && claim.serverTime - claim.queuedAt > limits.maxQueueWaitMs) {
    return new RunError("queue_expired", { details: { maxQueueWaitMs: limits.maxQueueWaitMs } });
  }
  if (history === "unreadable") return new RunError("internal", { message: "The run's events are damaged." });
  if (history?.effectsDispatched === true && onWorkerLoss === "fail") return new RunError("worker_lost");
  return undefined;
}

/** Pumps the executor's events into the log until it returns. A full journal is thrown into it, and ends it. */
async function drain(pump: {
  readonly drafts: ReturnType<typeof execute>;
  readonly stamper: EventStamper;
  readonly writer: RunWriter;
  readonly tell: (event: RunEvent) => void;
}): Promise<UnsealedResult> {
  const { drafts, stamper, writer, tell } = pump;
  try {
    let next = await drafts.next();
    while (next.done !== true) {
      const event = stamper.stamp(next.value);
      writer.push(event);
      tell(event);
      const overflow = BARRIERS.has(event.type) || writer.full ? await madeDurable(writer) : undefined;
      next = overflow === undefined ? await drafts.next() : await drafts.throw(overflow);
    }
    return next.value;
  } finally {
    // After a fence the generator stands at a yield: leaving it ends its model call and its sandbox.
    await drafts.return(undefined as never); // its value is not looked at
  }
}

/** @returns The `journal_limit` error, which the executor turns into the run's end. @throws Everything else. */
async function madeDurable(writer: RunWriter): Promise<RunError | undefined> {
  try {
    await writer.durable();
    return undefined;
  } catch (error) {
    if (writer.overflowed && error instanceof RunError) return error;
    throw error;
  }
}

/** A result whose events did not all fit into the journal: it may not count as a success. */
function asOverflow(unsealed: UnsealedResult): UnsealedResult {
  if (unsealed.status !== "succeeded") return unsealed;
  const { output: _output, ...rest } = unsealed;
  return { ...rest, status: "limit_exceeded", outputText: "", error: new RunError("journal_limit").toBody() };
}
