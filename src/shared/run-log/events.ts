import type { RunEvent } from "../contracts/event.ts";
import { TERMINAL_STATES, type RunState, type TerminalState } from "../contracts/result.ts";
import { RunError } from "../errors.ts";
import type { RunRecord, RunRef } from "./run-log.ts";

/** The two ways between events as objects and events as they stand in Redis, with the checks of R1 and R2. */

/** A stream entry as the client hands it out: its id, and its fields and values in a flat list. */
export type StreamEntry = readonly [id: string, fields: readonly string[]];

/**
 * Checks a batch before it is written: consecutive events of this run, none terminal.
 *
 * @returns The first sequence.
 * @throws {RunError} `internal`: only a bug of the writer gets here.
 */
export function checkBatch(run: RunRef, events: readonly RunEvent[]): number {
  const first = checkConsecutive(run, events);
  if (events.some((event) => event.terminal)) throw bug("a terminal event is written by the end of the run only");
  return first;
}

/** As {@link checkBatch}, for the last events of a run: exactly the last is terminal, and its result agrees. */
export function checkFinal(run: RunRef, events: readonly RunEvent[], state: TerminalState): number {
  const first = checkConsecutive(run, events);
  const last = events.at(-1);
  const terminals = events.filter((event) => event.terminal).length;
  if (last?.terminal !== true || terminals !== 1) throw bug("exactly the last event must be terminal");
  if (last.type !== terminalTypeOf(state)) throw bug(`${last.type} does not end a run as ${state}`);
  return first;
}

/**
 * Reads stream entries that must start at `fromSequence`.
 *
 * @throws {RunError} `internal` where one is missing or is no event.
 */
export function parseEntries(entries: readonly StreamEntry[], fromSequence: number): readonly RunEvent[] {
  return entries.map(([id, [field, text]], index) => {
    const sequence = fromSequence + index;
    if (id !== `${sequence}-0`) throw bug(`event ${sequence} is missing, the stream goes on at ${id}`);
    if (field !== "e" || text === undefined) throw bug(`entry ${id} holds no event`);
    // Only the run log writes here, and what it writes was typed.
    return JSON.parse(text) as RunEvent;
  });
}

/** @param fields state, epoch, seq, grant, queuedAt, terminal, enqueueId as they stand in the record. */
export function toRecord(fields: readonly (string | null)[]): RunRecord | undefined {
  const [state, epoch, sequence, grant, queuedAt, terminal, enqueueId] = fields;
  if (typeof state !== "string" || typeof enqueueId !== "string") return undefined;
  return {
    state: toRunState(state === "granted" ? "queued" : state),
    epoch: Number(epoch),
    sequence: Number(sequence),
    grant: Number(grant),
    queuedAt: Number(queuedAt),
    terminal: terminal === "1",
    enqueueId,
  };
}

/** @throws {RunError} `internal` for what is no outward state. */
export function toRunState(text: unknown): RunState {
  if (text === "queued" || text === "running") return text;
  return toTerminalState(text);
}

/** @throws {RunError} `internal` for what is no terminal state. */
export function toTerminalState(text: unknown): TerminalState {
  const state = TERMINAL_STATES.find((known) => known === text);
  if (state === undefined) throw bug(`unknown state ${String(text)}`);
  return state;
}

function checkConsecutive(run: RunRef, events: readonly RunEvent[]): number {
  const first = events[0]?.sequence;
  if (first === undefined) throw bug("an empty batch");
  for (const [index, event] of events.entries()) {
    if (event.sequence !== first + index) throw bug(`sequence ${event.sequence} where ${first + index} follows`);
    if (event.runId !== run.runId || event.tenantId !== run.tenantId) throw bug("an event of another run");
  }
  return first;
}

function terminalTypeOf(state: TerminalState): RunEvent["type"] {
  if (state === "succeeded") return "run.final_response";
  return state === "cancelled" ? "run.cancelled" : "run.error";
}

function bug(what: string): RunError {
  return new RunError("internal", { message: `The run log refuses: ${what}.` });
}
