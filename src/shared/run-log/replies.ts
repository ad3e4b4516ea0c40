import type { RunRequest } from "../contracts/request.ts";
import { RunError } from "../errors.ts";
import { deepFreeze } from "../freeze.ts";
import { toRunState, toTerminalState } from "./events.ts";
import type {
  CancelFlag,
  ClaimReply,
  EndWaitingReply,
  EnqueueReply,
  ExpiredGrant,
  ExpiredWait,
  FinishReply,
  Grant,
  RenewReply,
  SweepReply,
  WriteReply,
} from "./run-log.ts";
import type { ScriptReply } from "./scripts.ts";

/**
 * The scripts' replies as the port's values. The shape of each reply is stated in the head of its script;
 * anything else is an `internal` error.
 */

export function toEnqueueReply(reply: ScriptReply): EnqueueReply {
  const [kind, runId, state, grants] = toList(reply);
  switch (kind) {
    case "enqueued":
    case "duplicate":
      return { kind, runId: toText(runId), state: toRunState(state), grants: toGrants(grants) };
    case "run_id_conflict":
      return { kind };
    case "idempotency_conflict":
      return { kind, runId: toText(runId) };
    default:
      throw unexpected(reply);
  }
}

/** A flat list: tenant, run id, grant, … */
export function toGrants(reply: ScriptReply | undefined): readonly Grant[] {
  return toRows(reply, 3).map(([tenantId, runId, grant]) => ({
    tenantId: toText(tenantId),
    runId: toText(runId),
    grant: toNumber(grant),
  }));
}

export function toClaimReply(reply: ScriptReply): ClaimReply {
  const [kind, epoch, sequence, request, queuedAt, firstClaimedAt, lost, handedOver, cancel, serverTime] =
    toList(reply);
  if (kind === "ended" || kind === "stale" || kind === "not_found") return { kind };
  if (kind !== "claimed") throw unexpected(reply);
  return {
    kind,
    claim: {
      epoch: toNumber(epoch),
      sequence: toNumber(sequence),
      // Validated before it was written, and nobody else writes it.
      request: deepFreeze(JSON.parse(toText(request)) as RunRequest),
      queuedAt: toNumber(queuedAt),
      firstClaimedAt: toNumber(firstClaimedAt),
      lostAttempts: toNumber(lost),
      handedOver: handedOver === 1,
      cancel: toCancel(cancel),
      serverTime: toNumber(serverTime),
    },
  };
}

export function toWriteReply(reply: ScriptReply): WriteReply {
  const [kind, cancel] = toList(reply);
  if (kind === "written") return { kind, cancel: toCancel(cancel) };
  if (kind === "fenced" || kind === "closed" || kind === "journal_limit") return { kind };
  throw unexpected(reply);
}

export function toFinishReply(reply: ScriptReply): FinishReply {
  const [kind, grants] = toList(reply);
  if (kind === "finished") return { kind, grants: toGrants(grants) };
  if (kind === "fenced" || kind === "closed" || kind === "journal_limit") return { kind };
  throw unexpected(reply);
}

export function toEndWaitingReply(reply: ScriptReply): EndWaitingReply {
  const [kind, detail, grants] = toList(reply);
  switch (kind) {
    case "ended":
      return { kind, grants: toGrants(grants), grant: detail === "" ? undefined : toNumber(detail) };
    case "closed":
      return { kind, state: toTerminalState(detail) };
    case "running":
    case "outdated":
    case "not_found":
      return { kind };
    default:
      throw unexpected(reply);
  }
}

export function toRenewReplies(reply: ScriptReply): readonly RenewReply[] {
  return toRows(reply, 2).map(([kind, cancel]): RenewReply => {
    if (kind === "renewed") return { kind, cancel: toCancel(cancel) };
    if (kind === "fenced" || kind === "closed") return { kind };
    throw unexpected(reply);
  });
}

export function toHandBackReply(reply: ScriptReply): "handed_back" | "fenced" | "closed" {
  if (reply === "handed_back" || reply === "fenced" || reply === "closed") return reply;
  throw unexpected(reply);
}

export function toSweepReply(reply: ScriptReply): SweepReply {
  const [grants, waits, waiting] = toList(reply);
  return {
    grants: toRows(grants, 4).map(toExpiredGrant),
    waits: toRows(waits, 3).map(toExpiredWait),
    waiting: toNumber(waiting),
  };
}

function toExpiredGrant([tenantId, runId, grant, state]: readonly ScriptReply[]): ExpiredGrant {
  if (state !== "queued" && state !== "running") throw unexpected(state);
  return { tenantId: toText(tenantId), runId: toText(runId), grant: toNumber(grant), state };
}

function toExpiredWait([tenantId, runId, queuedAt]: readonly ScriptReply[]): ExpiredWait {
  return { tenantId: toText(tenantId), runId: toText(runId), queuedAt: toNumber(queuedAt) };
}

/** `{"reason"?, "requestedAt"}` as the script wrote it; empty: no cancel was asked for. */
function toCancel(value: ScriptReply | undefined): CancelFlag | undefined {
  const json = toText(value);
  return json === "" ? undefined : (JSON.parse(json) as CancelFlag); // written by end-waiting.lua only
}

function toRows(reply: ScriptReply | undefined, width: number): readonly (readonly ScriptReply[])[] {
  const flat = toList(reply);
  const rows: (readonly ScriptReply[])[] = [];
  for (let start = 0; start < flat.length; start += width) rows.push(flat.slice(start, start + width));
  return rows;
}

function toList(reply: ScriptReply | undefined): readonly ScriptReply[] {
  if (typeof reply === "object" && reply !== null) return reply;
  throw unexpected(reply);
}

function toText(value: ScriptReply | undefined): string {
  if (typeof value === "string") return value;
  throw unexpected(value);
}

function toNumber(value: ScriptReply | undefined): number {
  const number = Number(value);
  if (value === undefined || value === "" || !Number.isSafeInteger(number)) throw unexpected(value);
  return number;
}

function unexpected(reply: unknown): RunError {
  return new RunError("internal", { message: "A script of the run log answered what it should not.", cause: reply });
}
