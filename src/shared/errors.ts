/**
 * The one error class of Skilldock and the closed table of its codes.
 *
 * Every code has one row: who is at fault, whether the same request may succeed later, where it may
 * appear (a refusal, the end of a run, or only in a receipt) and a sentence that is safe to show to
 * a tenant. Nothing in Skilldock decides by the text of a message.
 */

/** A run's end other than success, or `refused`: it never became a run. `receipt`: only in a receipt. */
type Outcome = "refused" | "policy_denied" | "limit_exceeded" | "timed_out" | "failed" | "receipt";

interface ErrorRow {
  readonly outcome: Outcome;
  readonly retryable: boolean;
  readonly fault: "tenant" | "platform" | "provider";
  readonly message: string;
}

const tenant = { retryable: false, fault: "tenant" } as const;
const platform = { retryable: true, fault: "platform" } as const;

export const ERROR_TABLE = {
  invalid_request: { outcome: "refused", ...tenant, message: "The request does not satisfy the contract." },
  not_supported: {
    outcome: "refused",
    ...tenant,
    message: "The request uses a field that this version does not support.",
  },
  run_id_conflict: { outcome: "refused", ...tenant, message: "A run with this id exists already." },
  idempotency_conflict: {
    outcome: "refused",
    ...tenant,
    message: "The idempotency key was used with another request.",
  },
  unknown_tenant: { outcome: "refused", ...tenant, message: "The tenant is not known." },
  tenant_suspended: { outcome: "refused", ...tenant, message: "The tenant is suspended." },
  queue_full: { outcome: "refused", retryable: true, fault: "tenant", message: "The tenant's queue is full." },
  run_not_found: { outcome: "refused", ...tenant, message: "No such run." },
  redis_unavailable: { outcome: "refused", ...platform, message: "Redis cannot be reached." },
  invalid_configuration: { outcome: "refused", ...tenant, message: "The configuration is not valid." },

  unknown_capability: {
    outcome: "policy_denied",
    ...tenant,
    message: "The request allows a capability that does not exist.",
  },
  capability_not_allowed: { outcome: "policy_denied", ...tenant, message: "The tenant may not use this capability." },
  workspace_unavailable: {
    outcome: "policy_denied",
    ...tenant,
    message: "The request allows workspace capabilities, and no sandbox backend is configured.",
  },
  network_denied: { outcome: "policy_denied", ...tenant, message: "Network capabilities are never admitted." },
  model_not_allowed: { outcome: "policy_denied", ...tenant, message: "The model may not be used for this request." },
  skill_not_allowed: { outcome: "policy_denied", ...tenant, message: "The tenant may not use this skill." },

  max_turns: { outcome: "limit_exceeded", ...tenant, message: "The run reached its limit of turns." },
  max_tool_calls: { outcome: "limit_exceeded", ...tenant, message: "The run reached its limit of tool calls." },
  max_output: { outcome: "limit_exceeded", ...tenant, message: "The run reached its limit of output bytes." },
  token_limit: { outcome: "limit_exceeded", ...tenant, message: "The run reached its limit of tokens." },
  cost_limit: { outcome: "limit_exceeded", ...tenant, message: "The run reached its limit of cost." },
  budget_exhausted: {
    outcome: "limit_exceeded",
    retryable: true,
    fault: "tenant",
    message: "The tenant's budget is used up.",
  },
  journal_limit: { outcome: "limit_exceeded", ...tenant, message: "The run's journal reached its size limit." },
  thread_too_large: { outcome: "limit_exceeded", ...tenant, message: "The conversation reached its size limit." },

  wall_clock: {
    outcome: "timed_out",
    retryable: true,
    fault: "tenant",
    message: "The run reached its wall-clock limit.",
  },
  queue_expired: { outcome: "timed_out", ...platform, message: "The run waited longer than its queue limit." },

  skill_not_found: { outcome: "failed", ...tenant, message: "No worker's catalog holds this skill." },
  skill_invalid: { outcome: "failed", ...tenant, message: "The skill could not be loaded." },
  skill_digest_mismatch: { outcome: "failed", ...tenant, message: "The catalog holds another version of the skill." },
  unknown_model: { outcome: "failed", ...tenant, message: "No model route has this name." },
  model_unavailable: {
    outcome: "failed",
    retryable: true,
    fault: "provider",
    message: "The model could not be reached or broke off.",
  },
  model_refused: { outcome: "failed", retryable: false, fault: "provider", message: "The model refused to answer." },
  model_protocol: {
    outcome: "failed",
    retryable: true,
    fault: "provider",
    message: "The model's answer broke its protocol.",
  },
  response_schema: {
    outcome: "failed",
    retryable: true,
    fault: "provider",
    message: "The final text does not satisfy the response schema.",
  },
  sandbox_unavailable: { outcome: "failed", ...platform, message: "The sandbox engine cannot be reached." },
  sandbox_failed: { outcome: "failed", ...platform, message: "The sandbox broke." },
  worker_lost: {
    outcome: "failed",
    ...platform,
    message: "The worker was lost and the run cannot be resumed faithfully.",
  },
  poisoned: { outcome: "failed", retryable: false, fault: "platform", message: "The run lost its worker too often." },
  internal: { outcome: "failed", ...platform, message: "An internal error ended the run." },

  tool_not_allowed: { outcome: "receipt", ...tenant, message: "The tool is not allowed here." },
  invalid_arguments: {
    outcome: "receipt",
    ...tenant,
    message: "The arguments do not satisfy the tool's input schema.",
  },
  invalid_output: {
    outcome: "receipt",
    retryable: false,
    fault: "platform",
    message: "The tool returned what its output schema forbids.",
  },
  tool_failed: { outcome: "receipt", retryable: false, fault: "platform", message: "The tool failed." },
  tool_timeout: {
    outcome: "receipt",
    retryable: false,
    fault: "platform",
    message: "The tool did not answer in time.",
  },
  command_timeout: { outcome: "receipt", ...tenant, message: "The command reached its time limit and was killed." },
  output_limit: { outcome: "receipt", ...tenant, message: "The command reached its output limit and was killed." },
  too_many_files: { outcome: "receipt", ...tenant, message: "The workspace would hold too many files." },
  file_too_large: { outcome: "receipt", ...tenant, message: "The file is larger than the workspace policy allows." },
  workspace_full: { outcome: "receipt", ...tenant, message: "The workspace would be larger than its policy allows." },
  path_refused: {
    outcome: "receipt",
    ...tenant,
    message: "The path does not name a regular file inside the workspace.",
  },
  file_not_found: { outcome: "receipt", ...tenant, message: "The file does not exist." },
  out_of_memory: { outcome: "receipt", ...tenant, message: "The command ran out of memory." },
} as const satisfies Record<string, ErrorRow>;

export type ErrorCode = keyof typeof ERROR_TABLE;

/** The codes that may stand in a terminal `run.error`. */
export type RunErrorCode = {
  [C in ErrorCode]: (typeof ERROR_TABLE)[C]["outcome"] extends "refused" | "receipt" ? never : C;
}[ErrorCode];

/** The codes that may stand in a receipt. */
export type ReceiptCode = {
  [C in ErrorCode]: (typeof ERROR_TABLE)[C]["outcome"] extends "receipt" ? C : never;
}[ErrorCode];

/** `error` as it stands in a result, a refusal or a CLI answer. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly details?: Readonly<Record<string, unknown>>;
}

export interface RunErrorOptions {
  /** One sentence for the reader of this error: no secret, no host path, no stack. Default: the table's. */
  readonly message?: string;
  /** Facts for machines, JSON. The same rules hold. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Kept for logs, never part of an answer. */
  readonly cause?: unknown;
}

/** The only class thrown across a folder of this project. */
export class RunError extends Error {
  override readonly name = "RunError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, options: RunErrorOptions = {}) {
    super(
      options.message ?? ERROR_TABLE[code].message,
      options.cause === undefined ? undefined : { cause: options.cause },
    );
    this.code = code;
    this.details = options.details;
  }

  get retryable(): boolean {
    return ERROR_TABLE[this.code].retryable;
  }

  get outcome(): Outcome {
    return ERROR_TABLE[this.code].outcome;
  }

  /** The shape shown to tenants: without cause and stack. */
  toBody(): ErrorBody {
    return {
      code: this.code,
      message: this.message,
      retryable: this.retryable,
      ...(this.details === undefined ? {} : { details: this.details }),
    };
  }
}

/**
 * Turns anything caught into a {@link RunError}, once.
 *
 * @param fallback The code for what is not a `RunError` yet; its message is the table's, so that no
 *   foreign text (paths, secrets) reaches an answer. The original is kept as `cause`.
 */
export function toRunError(caught: unknown, fallback: ErrorCode = "internal"): RunError {
  return caught instanceof RunError ? caught : new RunError(fallback, { cause: caught });
}

/** Marks a branch that cannot be reached; names the value when it is. */
export function assertNever(value: never): never {
  throw new RunError("internal", { message: `Unexpected value: ${String(value)}` });
}
