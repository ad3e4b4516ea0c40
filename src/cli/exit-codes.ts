import type { ErrorCode } from "../shared/errors.ts";
import type { RunResult } from "../shared/contracts/result.ts";

/** What the command's exit status says. No other status is used. */
export const EXIT = {
  ok: 0,
  /** The run ended other than succeeded; or something failed that no other status names. */
  notSucceeded: 1,
  /** Wrong usage, or a request that breaks the contract. */
  usage: 2,
  configuration: 3,
  /** Refused before it became a run. */
  refused: 4,
  notFound: 5,
  /** `--timeout` or `--wait` ran out. */
  timeRanOut: 7,
  /** Redis or Docker cannot be reached. */
  unreachable: 8,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const EXIT_BY_CODE: Partial<Record<ErrorCode, ExitCode>> = {
  invalid_request: EXIT.usage,
  not_supported: EXIT.usage,
  invalid_configuration: EXIT.configuration,
  run_id_conflict: EXIT.refused,
  idempotency_conflict: EXIT.refused,
  unknown_tenant: EXIT.refused,
  tenant_suspended: EXIT.refused,
  queue_full: EXIT.refused,
  run_not_found: EXIT.notFound,
  redis_unavailable: EXIT.unreachable,
  sandbox_unavailable: EXIT.unreachable,
};

/** The exit status for an error that ended the command itself (not a run: see {@link exitCodeOfResult}). */
export function exitCodeOfError(code: ErrorCode): ExitCode {
  return EXIT_BY_CODE[code] ?? EXIT.notSucceeded;
}

/** 0 for a run that succeeded, 1 for every other end. */
export function exitCodeOfResult(result: RunResult): ExitCode {
  return result.status === "succeeded" ? EXIT.ok : EXIT.notSucceeded;
}
