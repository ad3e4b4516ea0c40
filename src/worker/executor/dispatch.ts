import { canonicalJson, sha256Digest } from "../../shared/contracts/digest.ts";
import type { Receipt } from "../../shared/contracts/receipt.ts";
import { toIsoTime, type Clock } from "../../shared/clock.ts";
import type { RunEventDraft } from "../../shared/contracts/event.ts";
import { RunError, toRunError } from "../../shared/errors.ts";
import type { AdmissionWindow, Verdict } from "../tools/admission.ts";
import { callCallerTool } from "../tools/caller-call.ts";
import { failed, textDigest, toReceipt, type CallFacts, type ToolOutcome } from "../tools/outcome.ts";
import { callWorkspace } from "../tools/workspace-call.ts";
import { RunInterrupt, type Execution } from "./execution.ts";
import type { RunSandbox } from "./run-sandbox.ts";

/** What the calls of a batch share. */
export interface CallDesk {
  readonly execution: Execution;
  readonly clock: Clock;
  readonly window: AdmissionWindow;
  /** Epoch ms at which the run's wall clock ends. */
  readonly endsAt: number;
  readonly signal: AbortSignal;
  readonly sandbox: RunSandbox | undefined;
  readonly policyDigest: string;
  /** Told of what lies behind a failed call: for logs. */
  readonly onFault: (fault: { readonly error: unknown; readonly callId: string }) => void;
}

type Events = AsyncGenerator<RunEventDraft, string, void>;

/**
 * Carries out one verdict: blocked calls are told so, refused arguments fail, the rest is dispatched once.
 *
 * @returns The text that the model sees.
 * @throws {RunError} `sandbox_unavailable`, `sandbox_failed`: the run cannot go on. Or `signal.reason`. The call's
 *   receipt is `indeterminate` then, or `failed` where it had not begun, and its result is still yielded where the run
 *   will end with one.
 */
export async function* runCall(verdict: Verdict, desk: CallDesk, receipts: Receipt[]): Events {
  if (verdict.kind === "blocked") return yield* blockCall(verdict, desk, receipts);
  const { capability, call } = verdict;
  const facts = factsOf(verdict, desk);
  desk.signal.throwIfAborted();
  yield {
    type: "tool.call",
    data: {
      callId: call.callId,
      capabilityId: capability.id,
      modelName: call.name,
      arguments: verdict.kind === "admitted" ? verdict.args : call.arguments,
      argumentsDigest: facts.argumentsDigest,
    },
  };
  const startedAt = desk.clock.now();
  const startedAtMonotonic = desk.clock.monotonic();
  const progress = { begun: false };
  let outcome: ToolOutcome;
  let broken: RunError | RunInterrupt | undefined;
  try {
    outcome =
      verdict.kind === "invalid"
        ? failed("invalid_arguments", { message: verdict.problem })
        : await dispatch(verdict, desk, progress);
  } catch (error) {
    const cause: unknown = desk.signal.aborted ? desk.signal.reason : error;
    if (cause instanceof RunInterrupt && cause.kind !== "cancelled") throw cause;
    broken = cause instanceof RunInterrupt ? cause : toRunError(cause);
    // What had not begun has done nothing; otherwise nobody knows how far the call came.
    const status = progress.begun ? "indeterminate" : "failed";
    outcome = failed("tool_failed", { status, message: "The run ended before this call had a result." });
  }
  const times = { startedAt: toIsoTime(startedAt), durationMs: desk.clock.monotonic() - startedAtMonotonic };
  const receipt = toReceipt(facts, outcome, times);
  receipts.push(receipt);
  yield { type: "tool.result", data: { callId: call.callId, receipt, output: outcome.output } };
  if (broken !== undefined) throw broken;
  return outcome.output;
}

/** @param progress Told when the tool itself begins: not before the sandbox is there. */
async function dispatch(
  verdict: Extract<Verdict, { kind: "admitted" }>,
  desk: CallDesk,
  progress: { begun: boolean },
): Promise<ToolOutcome> {
  const { capability, args, call } = verdict;
  const { execution, clock, signal } = desk;
  if (capability.implementation.kind === "workspace") {
    if (desk.sandbox === undefined) throw new RunError("workspace_unavailable");
    const workspace = await desk.sandbox.workspace(signal);
    progress.begun = true;
    return callWorkspace(workspace, { operation: capability.implementation.operation, args, signal });
  }
  progress.begun = true;
  return callCallerTool({
    capability,
    implementation: capability.implementation,
    args,
    callId: call.callId,
    attempt: execution.attempt,
    request: execution.request,
    remainingMs: desk.endsAt - clock.now(),
    signal,
    clock,
    onFault: (error) => desk.onFault({ error, callId: call.callId }),
  });
}

async function* blockCall(verdict: Extract<Verdict, { kind: "blocked" }>, desk: CallDesk, receipts: Receipt[]): Events {
  const { call, rule, problem } = verdict;
  const { window } = desk;
  const code = rule === "truncated" ? "invalid_arguments" : "tool_not_allowed";
  const outcome = failed(code, { status: "blocked", message: problem });
  const receipt = toReceipt(factsOf(verdict, desk), outcome, { startedAt: toIsoTime(desk.clock.now()), durationMs: 0 });
  receipts.push(receipt);
  yield {
    type: "tool.blocked",
    data: {
      callId: call.callId,
      modelName: receipt.modelName,
      rule,
      skills: [...window.narrowedBy],
      allowed: [...window.effective],
      receipt,
      output: outcome.output,
    },
  };
  return outcome.output;
}

function factsOf(verdict: Verdict, desk: CallDesk): CallFacts {
  const { call, capability } = verdict;
  return {
    callId: call.callId,
    capabilityId: capability?.id ?? "",
    modelName: call.name,
    effects: capability?.effects ?? "none",
    argumentsText: call.arguments,
    argumentsDigest:
      verdict.kind === "admitted" ? sha256Digest(canonicalJson(verdict.args)) : textDigest(call.arguments),
    attempt: desk.execution.attempt,
    ...(capability?.implementation.kind === "workspace" ? { policyDigest: desk.policyDigest } : {}),
  };
}
