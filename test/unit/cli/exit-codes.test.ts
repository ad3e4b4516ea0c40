import { expect, test } from "vitest";
import { EXIT, exitCodeOfError, exitCodeOfResult } from "../../../src/cli/exit-codes.ts";
import { ERROR_TABLE, type ErrorCode } from "../../../src/shared/errors.ts";
import { TERMINAL_STATES, type RunResult } from "../../../src/shared/contracts/result.ts";

/** The whole promise, written out: what is not here ends with 1. */
const PROMISED: Partial<Record<ErrorCode, number>> = {
  invalid_request: 2,
  not_supported: 2,
  invalid_configuration: 3,
  run_id_conflict: 4,
  idempotency_conflict: 4,
  unknown_tenant: 4,
  tenant_suspended: 4,
  queue_full: 4,
  run_not_found: 5,
  redis_unavailable: 8,
  sandbox_unavailable: 8,
};

const CODES = Object.keys(ERROR_TABLE) as ErrorCode[]; // the table's own keys

test.each(CODES.map((code) => [code, PROMISED[code] ?? 1] as const))(
  "an error %s ends the command with %i",
  (code, status) => {
    expect(exitCodeOfError(code)).toBe(status);
  },
);

test("every code that refuses a request has a status of its own", () => {
  const refusing = CODES.filter((code) => ERROR_TABLE[code].outcome === "refused");
  expect(refusing.filter((code) => exitCodeOfError(code) === EXIT.notSucceeded)).toEqual([]);
});

test.each(TERMINAL_STATES.map((state) => [state, state === "succeeded" ? 0 : 1] as const))(
  "a run that ended %s ends the command with %i",
  (status, exitCode) => {
    expect(exitCodeOfResult({ status } as RunResult)).toBe(exitCode); // nothing else of it is looked at
  },
);
