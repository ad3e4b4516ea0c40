import { toIsoTime } from "../../shared/clock.ts";
import { toRunError, RunError } from "../../shared/errors.ts";
import { evidenceOf } from "../../shared/run-log/past-attempts.ts";
import type { Receipt } from "../../shared/contracts/receipt.ts";
import type { RunResult, TerminalState, Usage } from "../../shared/contracts/result.ts";
import type { Execution, ExecutionDependencies, UnsealedResult } from "./execution.ts";
import { Meter } from "./meter.ts";
import type { Plan } from "./prepare.ts";

/** How the loop ended. `stopped`: by an error that may end a run. */
export type Ending =
  | { readonly status: "succeeded"; readonly outputText: string; readonly output?: unknown }
  | { readonly status: "cancelled"; readonly reason: string | undefined }
  | { readonly status: "stopped"; readonly error: RunError };

export interface Conclusion {
  readonly execution: Execution;
  readonly dependencies: ExecutionDependencies;
  /** Undefined where the run was denied before turn 1. */
  readonly plan: Plan | undefined;
  readonly receipts: readonly Receipt[];
  readonly meter: Meter | undefined;
  readonly sandboxMs: number;
  readonly ending: Ending;
  /** The sandbox, if any, is known to be gone. */
  readonly confirmed: boolean;
  /** From the notice of the cancellation to the confirmed end of the sandbox. */
  readonly cancelledAfterMs: number;
}

/** Builds the one result of a run. A pure function, but for the clock. */
export function concludeRun(conclusion: Conclusion): UnsealedResult {
  const { execution, dependencies, plan, receipts, ending } = conclusion;
  const { request } = execution;
  const skill = plan?.skill === undefined ? undefined : { ref: plan.skill.ref, digest: plan.skill.digest };
  return {
    type: "result",
    schemaVersion: "1",
    runId: request.runId,
    tenantId: request.tenantId,
    ...outcomeOf(conclusion),
    receipts,
    evidence: evidenceOf(receipts, skill),
    usage: usageOf(conclusion),
    ...(skill === undefined ? {} : { skill }),
    ...(conclusion.confirmed ? {} : { sandboxUnconfirmed: true }),
    ...(ending.status === "cancelled" ? { cancelledAfterMs: conclusion.cancelledAfterMs } : {}),
    catalogDigest: dependencies.catalog.digest,
    attempts: execution.attempt,
    timings: timingsOf(execution, dependencies.clock.now()),
  };
}

type OutcomeFields = Pick<RunResult, "status" | "outputText" | "output" | "error" | "cancelReason">;

function outcomeOf({ ending }: Conclusion): OutcomeFields {
  if (ending.status === "succeeded") {
    return {
      status: "succeeded",
      outputText: ending.outputText,
      ...("output" in ending ? { output: ending.output } : {}),
    };
  }
  if (ending.status === "cancelled") {
    return {
      status: "cancelled",
      outputText: "",
      ...(ending.reason === undefined ? {} : { cancelReason: ending.reason }),
    };
  }
  const { error } = ending;
  return { status: terminalStateOf(error), outputText: "", error: error.toBody() };
}

/** What may not end a run (a refusal, a receipt's code), ends it as `internal`. */
export function toEndingError(caught: unknown): RunError {
  const error = toRunError(caught);
  return error.outcome === "refused" || error.outcome === "receipt"
    ? new RunError("internal", { cause: error })
    : error;
}

function terminalStateOf(error: RunError): Exclude<TerminalState, "succeeded" | "cancelled"> {
  const { outcome } = error;
  return outcome === "refused" || outcome === "receipt" ? "failed" : outcome;
}

function usageOf({ execution, meter, sandboxMs }: Conclusion): Usage {
  const counted = meter ?? new Meter({ limits: execution.request.limits, price: undefined, prior: execution.prior });
  return counted.usage(sandboxMs);
}

function timingsOf(execution: Execution, endedAt: number): RunResult["timings"] {
  const { queuedAt, startedAt } = execution;
  return {
    queuedAt: toIsoTime(queuedAt),
    startedAt: toIsoTime(startedAt),
    endedAt: toIsoTime(endedAt),
    queueWaitMs: Math.max(0, startedAt - queuedAt),
    durationMs: Math.max(0, endedAt - startedAt),
  };
}
