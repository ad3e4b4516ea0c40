import { toIsoTime } from "../clock.ts";
import type { RunEvent } from "../contracts/event.ts";
import type { RunResult } from "../contracts/result.ts";
import { RunError } from "../errors.ts";
import type { RunRef } from "./run-log.ts";

/** The only event that can follow `run.queued` without an attempt. */
const TERMINAL_SEQUENCE = 2;

/**
 * Builds the terminal event of a run that no attempt has started: it was cancelled while it waited, or it waited longer
 * than its `maxQueueWaitMs`.
 *
 * @param end.queuedAt Epoch ms.
 * @param end.now Epoch ms.
 */
export function buildWaitingEnd(end: {
  readonly run: RunRef;
  readonly queuedAt: number;
  readonly now: number;
  readonly state: "cancelled" | "timed_out";
  readonly reason?: string;
}): RunEvent {
  const { runId, tenantId } = end.run;
  const result: RunResult = {
    type: "result",
    schemaVersion: "1",
    runId,
    tenantId,
    status: end.state,
    outputText: "",
    ...(end.state === "timed_out" ? { error: new RunError("queue_expired").toBody() } : { cancelledAfterMs: 0 }),
    ...(end.reason === undefined ? {} : { cancelReason: end.reason }),
    receipts: [],
    evidence: [],
    usage: {
      turns: 0,
      modelCalls: 0,
      toolCalls: 0,
      inputTokens: 0,
      cachedInputTokens: 0,
      outputTokens: 0,
      reasoningTokens: 0,
      totalTokens: 0,
      estimated: false,
      sandboxMs: 0,
    },
    catalogDigest: null,
    attempts: 0,
    timings: {
      queuedAt: toIsoTime(end.queuedAt),
      endedAt: toIsoTime(end.now),
      queueWaitMs: Math.max(0, end.now - end.queuedAt),
      durationMs: 0,
    },
    lastSequence: TERMINAL_SEQUENCE,
  };
  return {
    schemaVersion: "1",
    runId,
    tenantId,
    sequence: TERMINAL_SEQUENCE,
    type: end.state === "cancelled" ? "run.cancelled" : "run.error",
    time: toIsoTime(end.now),
    attempt: 0,
    terminal: true,
    data: result,
  };
}
