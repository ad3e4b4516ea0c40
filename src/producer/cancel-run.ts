import type { RunEvent } from "../shared/contracts/event.ts";
import { RunError } from "../shared/errors.ts";
import { PastAttemptsFold, type PastAttempts } from "../shared/run-log/past-attempts.ts";
import type { EndWaitingReply, RunRecord, RunRef } from "../shared/run-log/run-log.ts";
import { buildWaitingEnd } from "../shared/run-log/waiting-end.ts";
import { findRecord } from "./read-result.ts";
import type { Connections } from "./session.ts";

/** A run may be taken and given back again between the look at it and its end; where that goes on, the flag has to do. */
const MAX_TRIES = 5;
const READ_PAGE = 200;

/** What became of a cancel. `outdated`: it is left for the next attempt. */
export type Cancelled = Exclude<EndWaitingReply, { readonly kind: "not_found" }>;

/**
 * Ends a run that no attempt holds, with all that earlier attempts have done; asks the attempt that holds it to end it.
 *
 * @throws {RunError} `run_not_found`, `redis_unavailable`.
 */
export async function cancelRun(
  connections: Connections,
  run: RunRef,
  cancel: { readonly reason?: string },
): Promise<Cancelled> {
  for (let tries = 1; ; tries++) {
    const record = await connections.use((session) => findRecord(session, run));
    const terminal = await buildEnd(connections, { run, record, cancel });
    const reply = await connections.use(({ log }) => log.endWaiting(run, { terminal, state: "cancelled", cancel }));
    if (reply.kind === "not_found") throw new RunError("run_not_found");
    if (reply.kind !== "outdated" || tries === MAX_TRIES) return reply;
  }
}

/** The end of a run as its record shows it. For one that runs or has ended it is never written, whatever it says. */
async function buildEnd(
  connections: Connections,
  options: { readonly run: RunRef; readonly record: RunRecord; readonly cancel: { readonly reason?: string } },
): Promise<RunEvent> {
  const { run, record, cancel } = options;
  const now = await connections.use(({ log }) => log.now());
  const end = { run, queuedAt: record.queuedAt, now, state: "cancelled", ...cancel } as const;
  if (record.state !== "queued" || record.epoch === 0) return buildWaitingEnd(end);
  const done = await readPastAttempts(connections, run, record.sequence);
  return buildWaitingEnd({ ...end, past: { attempts: record.epoch, done } });
}

async function readPastAttempts(connections: Connections, run: RunRef, sequence: number): Promise<PastAttempts> {
  const fold = new PastAttemptsFold();
  while (fold.lastSequence < sequence) {
    const from = { fromSequence: fold.lastSequence + 1, limit: READ_PAGE };
    const page = await connections.use(({ log }) => log.read(run, from));
    // Ended by somebody else, and gone by now.
    if (page.length === 0) throw new RunError("run_not_found");
    for (const event of page) fold.add(event);
  }
  return fold.end();
}
