import { randomUUID } from "node:crypto";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { RunRequest } from "../../src/shared/contracts/request.ts";
import type { RunResult, TerminalState } from "../../src/shared/contracts/result.ts";
import type { Claim, EnqueueCommand, Grant, RunLog, RunOwner, RunRef } from "../../src/shared/run-log/run-log.ts";

/** Small valid documents for tests of the run log and of what stands on it. */

const DIGEST = `sha256:${"0".repeat(64)}`;

export function makeRequest(change: Partial<RunRequest> = {}): RunRequest {
  const request = {
    tenantId: "acme",
    runId: randomUUID(),
    query: "hello",
    allowedCapabilities: [],
    limits: {
      maxTurns: 16,
      maxToolCalls: 64,
      wallClockMs: 300_000,
      maxOutputBytes: 200_000,
      maxAttempts: 3,
      maxQueueWaitMs: 86_400_000,
    },
    onWorkerLoss: "fail",
    priority: 0,
    ...change,
  };
  return request as RunRequest; // the rest of the fields is optional to the run log
}

export function makeEnqueue(change: Partial<RunRequest> = {}, payloadDigest: string = DIGEST): EnqueueCommand {
  const request = makeRequest(change);
  return { request, enqueueId: randomUUID(), payloadDigest, queued: queuedEvent(request) };
}

function queuedEvent(run: RunRef): RunEvent {
  return { ...envelope(run, 1, 0), type: "run.queued", terminal: false, data: { requestDigest: DIGEST } };
}

/** A short event of an attempt. */
export function deltaEvent(
  run: RunRef,
  sequence: number,
  options: { readonly attempt?: number; readonly text?: string } = {},
): RunEvent {
  const data = { turn: 1, text: options.text ?? `text ${sequence}` };
  return { ...envelope(run, sequence, options.attempt ?? 1), type: "model.delta", terminal: false, data };
}

export function terminalEvent(
  run: RunRef,
  sequence: number,
  state: TerminalState = "succeeded",
  attempt: number = sequence === 2 ? 0 : 1,
): RunEvent {
  const failure =
    state === "succeeded" || state === "cancelled"
      ? {}
      : { error: { code: "internal", message: "It failed.", retryable: true } };
  const data: RunResult = {
    type: "result",
    schemaVersion: "1",
    runId: run.runId,
    tenantId: run.tenantId,
    status: state,
    outputText: "",
    receipts: [],
    evidence: [],
    catalogDigest: null,
    attempts: attempt,
    lastSequence: sequence,
    ...failure,
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
    timings: { queuedAt: isoNow(), endedAt: isoNow(), queueWaitMs: 0, durationMs: 0 },
  };
  return { ...envelope(run, sequence, attempt), type: terminalType(state), terminal: true, data };
}

/** Enqueues a run; fails the test where it is not accepted and admitted at once. */
export async function enqueueRun(log: RunLog, change: Partial<RunRequest> = {}): Promise<Grant> {
  const command = makeEnqueue(change);
  const reply = await log.enqueue(command);
  if (reply.kind !== "enqueued") throw new Error(`not enqueued: ${reply.kind}`);
  const grant = reply.grants.find(({ runId }) => runId === command.request.runId);
  if (grant === undefined) throw new Error("not admitted");
  return grant;
}

/** Claims a grant with a new claim id; fails the test where it cannot be had. */
export async function claimRun(log: RunLog, grant: Grant): Promise<Claim & { readonly owner: RunOwner }> {
  const reply = await log.claim(grant, { claimId: randomUUID(), worker: "test" });
  if (reply.kind !== "claimed") throw new Error(`not claimed: ${reply.kind}`);
  return { ...reply.claim, owner: { tenantId: grant.tenantId, runId: grant.runId, epoch: reply.claim.epoch } };
}

function terminalType(state: TerminalState): "run.final_response" | "run.cancelled" | "run.error" {
  if (state === "succeeded") return "run.final_response";
  return state === "cancelled" ? "run.cancelled" : "run.error";
}

function envelope(run: RunRef, sequence: number, attempt: number) {
  return { schemaVersion: "1", runId: run.runId, tenantId: run.tenantId, sequence, time: isoNow(), attempt } as const;
}

function isoNow(): string {
  return new Date().toISOString();
}
