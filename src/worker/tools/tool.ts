import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";
import type { Effects } from "../../shared/contracts/receipt.ts";
import type { RunRequest } from "../../shared/contracts/request.ts";

/** What a handler is told. Frozen, all the way down. */
export interface ToolContext {
  readonly runId: string;
  readonly tenantId: string;
  readonly callId: string;
  /** `<runId>/<callId>`: the same for a call that is dispatched again by a later attempt. */
  readonly idempotencyKey: string;
  readonly correlationId?: string;
  readonly caller?: RunRequest["caller"];
  readonly attempt: number;
  /** Milliseconds left for this call: the smaller of its time-out and the run's rest. */
  readonly deadlineMs: number;
  /** Aborts when the call's time is up or the run ends. A handler that ignores it is abandoned, not awaited. */
  readonly signal: AbortSignal;
  readonly workspacePolicy: WorkspacePolicy;
}

/**
 * A caller tool: a trusted function of the host. It runs in the worker's process, outside the sandbox.
 */
export interface CallerTool {
  /** `caller.<name>@<version>`, such as `caller.lookup_order@1`. The model sees `caller_<name>`. */
  readonly id: string;
  readonly description: string;
  /** JSON Schema (2020-12) of the arguments, an object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** JSON Schema of what the handler returns. Absent: any JSON. */
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  readonly effects: Effects;
  /** A second call with the same idempotency key does nothing more. Default false. */
  readonly idempotent?: boolean;
  /** 1–600,000; default 30,000. */
  readonly timeoutMs?: number;
  /** Returns JSON. What it throws becomes a failed receipt; its message is not shown to the model. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the schema, not the compiler, types the arguments
  readonly handler: (args: any, context: ToolContext) => unknown;
}
