import { toIsoTime } from "../clock.ts";
import type { RunEvent } from "../contracts/event.ts";
import type { RunResult } from "../contracts/result.ts";
import { RunError } from "../errors.ts";
import { evidenceOf, PastAttemptsFold, type PastAttempts } from "./past-attempts.ts";
import type { RunRef } from "./run-log.ts";

/** Event 1, `run.queued`, is all that a run without an attempt has. */
const NONE: PastAttempts = { ...new PastAttemptsFold().end(), lastSequence: 1 };

/**
 * Builds the terminal event of a run that no attempt holds: it was cancelled while it waited, or it waited longer than its
 * `maxQueueWaitMs`.
 *
 * @param end.queuedAt Epoch ms.
 * @param end.now Epoch ms.
 * @param end.past Where attempts have begun: how many, and what they have done.
 */
export function buildWaitingEnd(end: {
  readonly run: RunRef;
  readonly queuedAt: number;
  readonly now: number;
  readonly state: "cancelled" | "timed_out";
  readonly reason?: string;
  readonly past?: { readonly attempts: number; readonly done: PastAttempts };
}): RunEvent {
  const { runId, tenantId } = end.run;
  const { attempts, done } = end.past ?? { attempts: 0, done: NONE };
  const sequence = done.lastSequence + 1;
  const result: RunResult = {
    type: "result",
    schemaVersion: "1",
    runId,
    tenantId,
    status: end.state,
    outputText: "",
    ...(end.state === "timed_out" ? { error: new RunError("queue_expired").toBody() } : { cancelledAfterMs: 0 }),
    ...(end.reason === undefined ? {} : { cancelReason: end.reason }),
    receipts: done.receipts,
    evidence: evidenceOf(done.receipts, done.skill),
    usage: done.usage,
    ...(done.skill === undefined ? {} : { skill: done.skill }),
    catalogDigest: done.catalogDigest ?? null,
    attempts,
    timings: timingsOf(end.queuedAt, done.startedAt, end.now),
    lastSequence: sequence,
  };
  return {
    schemaVersion: "1",
    runId,
    tenantId,
    sequence,
    type: end.state === "cancelled" ? "run.cancelled" : "run.error",
    time: toIsoTime(end.now),
    attempt: attempts,
    terminal: true,
    data: result,
  };
}

function timingsOf(queuedAt: number, startedAt: number | undefined, endedAt: number): RunResult["timings"] {
  return {
    queuedAt: toIsoTime(queuedAt),
    ...(startedAt === undefined ? {} : { startedAt: toIsoTime(startedAt) }),
    endedAt: toIsoTime(endedAt),
    queueWaitMs: Math.max(0, (startedAt ?? endedAt) - queuedAt),
    durationMs: startedAt === undefined ? 0 : Math.max(0, endedAt - startedAt),
  };
}
