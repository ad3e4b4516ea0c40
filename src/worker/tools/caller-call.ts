import type { Clock } from "../../shared/clock.ts";
import type { RunRequest } from "../../shared/contracts/request.ts";
import { untilAborted } from "../../shared/until-aborted.ts";
import type { Capability } from "./registry.ts";
import type { ToolContext } from "./tool.ts";
import { failed, succeeded, type ToolOutcome } from "./outcome.ts";

export interface CallerCall {
  readonly capability: Capability;
  readonly implementation: Extract<Capability["implementation"], { kind: "caller" }>;
  readonly args: Readonly<Record<string, unknown>>;
  readonly callId: string;
  readonly attempt: number;
  readonly request: RunRequest;
  /** Milliseconds until the run's wall clock ends. */
  readonly remainingMs: number;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Told what a handler threw: for logs. */
  readonly onFault: (error: unknown) => void;
}

/**
 * Calls a registered handler, once.
 *
 * @returns What it came to. A handler that throws, is late, or returns what its output schema forbids is a
 *   failed outcome; what it threw stays out of it. A handler that ignores its signal is abandoned, not awaited.
 * @throws `signal.reason` when the run ends meanwhile: whether the handler did its work is not known then.
 */
export async function callCallerTool(call: CallerCall): Promise<ToolOutcome> {
  const { signal, clock, implementation } = call;
  signal.throwIfAborted();
  const late = new AbortController();
  const timeoutMs = Math.max(1, Math.min(implementation.timeoutMs, call.remainingMs));
  const cancelTimer = clock.after(timeoutMs, () => late.abort(TIMED_OUT));
  const either = AbortSignal.any([signal, late.signal]);
  try {
    const context = toContext(call, { deadlineMs: timeoutMs, signal: either });
    const returned = await untilAborted(either, async () => implementation.handler(call.args, context));
    return judgeOutput(returned, implementation.checkOutput);
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error === TIMED_OUT)
      return failed("tool_timeout", { message: `The tool did not answer within ${timeoutMs} ms.` });
    call.onFault(error);
    return failed("tool_failed");
  } finally {
    cancelTimer();
    // Whatever the handler still holds on to is told that nobody waits any more.
    late.abort(TIMED_OUT);
  }
}

const TIMED_OUT = new Error("The tool's time is up.");

function toContext(call: CallerCall, own: { readonly deadlineMs: number; readonly signal: AbortSignal }): ToolContext {
  const { request } = call;
  return Object.freeze({
    runId: request.runId,
    tenantId: request.tenantId,
    callId: call.callId,
    idempotencyKey: `${request.runId}/${call.callId}`,
    ...(request.correlationId === undefined ? {} : { correlationId: request.correlationId }),
    ...(request.caller === undefined ? {} : { caller: request.caller }),
    attempt: call.attempt,
    deadlineMs: own.deadlineMs,
    signal: own.signal,
    workspacePolicy: request.workspacePolicy,
  });
}

function judgeOutput(returned: unknown, checkOutput: (output: unknown) => readonly string[]): ToolOutcome {
  let value: unknown;
  try {
    // What counts is what JSON makes of it: no functions, dates as text, no cycles.
    value = JSON.parse(JSON.stringify(returned ?? null) ?? "null");
  } catch {
    return failed("invalid_output", { message: "The tool returned something that is not JSON." });
  }
  const problems = checkOutput(value);
  if (problems.length > 0) return failed("invalid_output");
  return succeeded(value);
}
