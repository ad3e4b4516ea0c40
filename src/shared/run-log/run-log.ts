import type { RunEvent } from "../contracts/event.ts";
import type { RunRequest } from "../contracts/request.ts";
import type { RunState, TerminalState } from "../contracts/result.ts";

/**
 * The run log: every change of a run's state, as one Lua script each.
 *
 * Outward states: `queued → running → succeeded | cancelled | policy_denied | limit_exceeded | timed_out | failed`.
 * Inside, a queued run waits in its tenant's backlog until `grant` admits it.
 *
 * R1 A run has exactly one terminal event; no script changes an ended run.
 * R2 Sequences are 1, 2, 3 …; the stream id is `<sequence>-0`; only `append`, `finish`, `enqueue` and
 *    `endWaiting` write events, and each numbers them inside the script.
 * R3 `claim` raises the epoch; whoever writes with another epoch is answered `fenced` and changes nothing.
 *    `handBack` and `regrant` fence the attempt at once, before the next one claims.
 * R4 A re-sent command is answered as the first one was: `enqueue` by its enqueue id, `claim` by its
 *    claim id, `append` and `finish` by epoch and sequence. Grants that such a reply admits are named once:
 *    where nobody heard of them, the sweep brings them up when their lease runs out.
 * R5 Every admitted run stands in the lane's `grants` with a lease until it ends.
 * R6 The record and the stream get a life only after the terminal event; nothing is trimmed before.
 */

/** A run that may be put on the queue: BullMQ's job id is made of these. */
export interface Grant {
  readonly tenantId: string;
  readonly runId: string;
  readonly grant: number;
}

export interface EnqueueCommand {
  readonly request: RunRequest;
  /** Random, one for each call of the producer: a re-sent script is told from another call by it. */
  readonly enqueueId: string;
  /** `sha256:<hex>` of the canonical request without runId, idempotencyKey, correlationId. */
  readonly payloadDigest: string;
  /** Event 1, `run.queued`, complete. */
  readonly queued: RunEvent;
}

export type EnqueueReply =
  | {
      readonly kind: "enqueued" | "duplicate";
      readonly runId: string;
      readonly state: RunState;
      readonly grants: readonly Grant[];
    }
  | { readonly kind: "run_id_conflict" }
  | { readonly kind: "idempotency_conflict"; readonly runId: string };

/** What `claim` hands to the attempt that now owns the run. */
export interface Claim {
  readonly epoch: number;
  /** Last sequence in the stream: 1 for a fresh run. */
  readonly sequence: number;
  readonly request: RunRequest;
  readonly queuedAt: number;
  /** Epoch ms of the first attempt's claim. */
  readonly firstClaimedAt: number;
  /** Attempts lost with their worker so far; hand-overs do not count. */
  readonly lostAttempts: number;
  /** The earlier attempt gave the run back by itself. */
  readonly handedOver: boolean;
  readonly cancel: CancelFlag | undefined;
  /** The server's clock at the claim, epoch ms. */
  readonly serverTime: number;
}

export interface CancelFlag {
  readonly reason?: string;
  /** Epoch ms, the server's clock. */
  readonly requestedAt: number;
}

export type ClaimReply =
  | { readonly kind: "claimed"; readonly claim: Claim }
  /** Ended already, or a later grant or another claim superseded this one, or the record is gone: nothing to do. */
  | { readonly kind: "ended" | "stale" | "not_found" };

/** `fenced`: a later attempt owns the run. `closed`: the run has ended. Both: stop, write nothing more. */
export type WriteReply =
  | { readonly kind: "written"; readonly cancel: CancelFlag | undefined }
  | { readonly kind: "fenced" | "closed" | "journal_limit" };

export type FinishReply =
  | { readonly kind: "finished"; readonly grants: readonly Grant[] }
  | { readonly kind: "fenced" | "closed" }
  /** The events before the terminal one are too many: nothing was written, and the terminal one alone will be. */
  | { readonly kind: "journal_limit" };

export interface RunRef {
  readonly tenantId: string;
  readonly runId: string;
}

export interface RunOwner extends RunRef {
  readonly epoch: number;
}

export type RenewReply =
  | { readonly kind: "renewed"; readonly cancel: CancelFlag | undefined }
  | { readonly kind: "fenced" | "closed" };

export type EndWaitingReply =
  | {
      readonly kind: "ended";
      readonly grants: readonly Grant[];
      /** The grant whose job may still stand in the queue. */ readonly grant: number | undefined;
    }
  /**
   * `running`: an attempt holds the run. `outdated`: none does, but `terminal` does not follow the run's last event in
   * its epoch. Both: the flag is set, if asked for, and published.
   */
  | { readonly kind: "running" | "outdated" }
  | { readonly kind: "closed"; readonly state: TerminalState }
  | { readonly kind: "not_found" };

/** What producers and workers may know of a run without reading its stream. */
export interface RunRecord {
  readonly state: RunState;
  readonly epoch: number;
  readonly sequence: number;
  readonly grant: number;
  readonly queuedAt: number;
  readonly terminal: boolean;
  /** Tells a run from a later one of the same id. */
  readonly enqueueId: string;
}

/** A grant whose lease ran out; its lease was pushed on by the sweep, so that one sweeper handles it at a time. */
export interface ExpiredGrant extends Grant {
  readonly state: "queued" | "running";
}

/** A run that has waited longer than its `maxQueueWaitMs` without an attempt. */
export interface ExpiredWait extends RunRef {
  readonly queuedAt: number;
}

export interface SweepReply {
  readonly grants: readonly ExpiredGrant[];
  readonly waits: readonly ExpiredWait[];
  /** Runs that no attempt holds yet, over the lane. */
  readonly waiting: number;
}

export interface RunLog {
  enqueue(command: EnqueueCommand): Promise<EnqueueReply>;
  /** Admits waiting runs, at most 16 a call. */
  grant(): Promise<readonly Grant[]>;
  /** @param claimId Random, one for each delivery of the job: a re-sent claim gets the same epoch. */
  claim(grant: Grant, options: { readonly claimId: string; readonly worker: string }): Promise<ClaimReply>;
  /** Writes consecutive events; the first's sequence must be the last written one + 1. */
  append(owner: RunOwner, events: readonly RunEvent[]): Promise<WriteReply>;
  /** Writes the last events, of which exactly the last is terminal, ends the run, admits what may start now. */
  finish(owner: RunOwner, events: readonly RunEvent[], state: TerminalState): Promise<FinishReply>;
  /**
   * Ends a run that no attempt holds: none has claimed it yet, or the last one gave it back or was lost. Otherwise leaves
   * `cancel`, if given, for the attempt that runs.
   *
   * @param options.terminal Follows the run's last event; its attempt is the run's epoch.
   */
  endWaiting(
    run: RunRef,
    options: {
      readonly terminal: RunEvent;
      readonly state: TerminalState;
      readonly cancel?: { readonly reason?: string };
    },
  ): Promise<EndWaitingReply>;
  /** Prolongs the leases of running runs, in one round trip. Replies in the order of `owners`. */
  renew(owners: readonly RunOwner[]): Promise<readonly RenewReply[]>;
  /** Gives a running run back: no attempt is spent, its job may be delivered again. */
  handBack(owner: RunOwner): Promise<"handed_back" | "fenced" | "closed">;
  /** Replaces a grant whose job is gone, if it is still the run's grant. */
  regrant(grant: Grant): Promise<Grant | undefined>;
  sweep(options: { readonly limit: number }): Promise<SweepReply>;
  record(run: RunRef): Promise<RunRecord | undefined>;
  /** The server's clock, epoch ms: the only one that a run's times are told by. */
  now(): Promise<number>;
  /**
   * Events from `fromSequence` on, at most `limit`.
   *
   * @throws {RunError} `internal` where the stream has a gap.
   */
  read(run: RunRef, options: { readonly fromSequence: number; readonly limit: number }): Promise<readonly RunEvent[]>;
}
