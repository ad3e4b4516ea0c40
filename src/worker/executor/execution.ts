import type { RunRequest } from "../../shared/contracts/request.ts";
import type { RunResult } from "../../shared/contracts/result.ts";
import type { RunError } from "../../shared/errors.ts";
import type { Clock } from "../../shared/clock.ts";
import type { PastAttempts } from "../../shared/run-log/past-attempts.ts";
import type { SandboxBackend } from "../../sandbox/backend.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ModelRouter } from "../model/model.ts";
import type { ToolRegistry } from "../tools/registry.ts";

/** What the executor is given. It discovers nothing by itself. */
export interface ExecutionDependencies {
  readonly catalog: Catalog;
  readonly models: ModelRouter;
  readonly tools: ToolRegistry;
  /** Called once for a process, at the first admitted workspace call. Absent: workspace capabilities are denied. */
  readonly sandbox?: () => SandboxBackend | Promise<SandboxBackend>;
  readonly clock: Clock;
  /** Name of this process in `run.started` and on sandboxes; unique per start. */
  readonly worker: string;
  /** Which installation the sandboxes belong to. */
  readonly installation: string;
  /** Told of what lies behind a failure that the result only names: for logs. Never throws. */
  readonly onFault?: (fault: { readonly error: unknown; readonly callId?: string }) => void;
}

/** What earlier attempts of the run have used. Limits count across attempts. */
export interface PriorAttempts extends PastAttempts {
  /** Why this attempt follows. */
  readonly reason: "worker_lost" | "handed_over";
}

export interface Execution {
  readonly request: RunRequest;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Epoch ms. */
  readonly queuedAt: number;
  /** Epoch ms of the first attempt's start: `wallClockMs` counts from here. */
  readonly startedAt: number;
  readonly prior?: PriorAttempts;
  /** Settled before: the attempt ends with this error at once. */
  readonly refusal?: RunError;
}

/** The result, before the terminal event has its sequence. */
export type UnsealedResult = Omit<RunResult, "lastSequence">;

/**
 * Why a run was interrupted. `cancelled` ends the run; the others end only this attempt: nothing more is written, what
 * it holds is cleaned up, and the executor throws the interrupt. `fenced`: another attempt owns the run.
 * `lock_lost`: another may own it by now. `handed_over`: this process gives it back.
 */
export type InterruptKind = "cancelled" | "fenced" | "lock_lost" | "handed_over";

/** The reason that a run's signal is aborted with. */
export class RunInterrupt extends Error {
  override readonly name = "RunInterrupt";
  readonly kind: InterruptKind;
  readonly reason: string | undefined;

  constructor(kind: InterruptKind, reason?: string) {
    super(kind);
    this.kind = kind;
    this.reason = reason;
  }
}
