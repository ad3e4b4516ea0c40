import { mustBe, type Problem } from "../shared/contracts/problem.ts";
import { RUN_ID_PATTERN, TENANT_ID_PATTERN } from "../shared/contracts/request.ts";
import { RunError } from "../shared/errors.ts";
import type { RunRef } from "../shared/run-log/run-log.ts";

const TENANT_ID = new RegExp(TENANT_ID_PATTERN);
const RUN_ID = new RegExp(RUN_ID_PATTERN);
const MAX_WAIT_MS = 86_400_000;
const MAX_REASON_LENGTH = 1_000;

/** Which run is meant, and what is asked of it. */
export interface RunQuery {
  readonly tenantId: string;
  readonly runId: string;
  readonly fromSequence?: number | undefined;
  readonly waitMs?: number | undefined;
  readonly reason?: string | undefined;
}

/**
 * Checks what a caller asks, before it becomes part of a key.
 *
 * @throws {RunError} `invalid_request`, with all problems.
 */
export function checkRunQuery(query: RunQuery): RunRef {
  const { tenantId, runId, fromSequence, waitMs, reason } = query;
  const problems: Problem[] = [];
  if (!matches(TENANT_ID, tenantId)) problems.push(mustBe("/tenantId", `text that matches ${TENANT_ID_PATTERN}`));
  if (!matches(RUN_ID, runId)) problems.push(mustBe("/runId", `text that matches ${RUN_ID_PATTERN}`));
  if (fromSequence !== undefined && !(Number.isSafeInteger(fromSequence) && fromSequence >= 1)) {
    problems.push(mustBe("/fromSequence", "an integer of at least 1"));
  }
  if (waitMs !== undefined && !(Number.isSafeInteger(waitMs) && waitMs >= 0 && waitMs <= MAX_WAIT_MS)) {
    problems.push(mustBe("/waitMs", `an integer from 0 to ${MAX_WAIT_MS}`));
  }
  if (
    reason !== undefined &&
    !(typeof reason === "string" && reason.length <= MAX_REASON_LENGTH && reason.isWellFormed())
  ) {
    problems.push(mustBe("/reason", `well-formed text of at most ${MAX_REASON_LENGTH} characters`));
  }
  const [first] = problems;
  if (first === undefined) return { tenantId, runId };
  throw new RunError("invalid_request", { message: first.message, details: { pointer: first.pointer, problems } });
}

function matches(pattern: RegExp, value: unknown): boolean {
  return typeof value === "string" && pattern.test(value);
}
