import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { RunError } from "../shared/errors.ts";
import type { RunRecord, RunRef } from "../shared/run-log/run-log.ts";
import type { Session } from "./session.ts";

/** @throws {RunError} `run_not_found`. */
export async function findRecord(session: Session, run: RunRef): Promise<RunRecord> {
  const record = await session.log.record(run);
  if (record === undefined) throw new RunError("run_not_found");
  return record;
}

/** The result of a run that has ended. @throws {RunError} `run_not_found`. */
export async function readResult(session: Session, run: RunRef): Promise<RunResult> {
  const { sequence } = await findRecord(session, run);
  const [last] = await session.log.read(run, { fromSequence: sequence, limit: 1 });
  const result = last && resultOf(last);
  // The record of an ended run may outlive its stream by a moment.
  if (result === undefined) throw new RunError("run_not_found");
  return result;
}

/** The result that a terminal event carries; undefined for other events. */
export function resultOf(event: RunEvent): RunResult | undefined {
  switch (event.type) {
    case "run.final_response":
    case "run.cancelled":
    case "run.error":
      return event.data;
    default:
      return undefined;
  }
}
