import type { Redis } from "ioredis";
import { TERMINAL_STATES } from "../../src/shared/contracts/result.ts";
import { validateEvent } from "../../src/shared/contracts/validate.ts";

/** The judge of every integration test: what stands in Redis must be what the contract promises. */

const RUN_STREAMS = "{sd:*}:t:*:run:*:events";
const MAX_LISTED = 20;

interface StreamEntry {
  readonly id: string;
  readonly text: string;
}

/** One event as far as the judge looks into it. */
interface JudgedEvent {
  readonly runId: string;
  readonly tenantId: string;
  readonly sequence: number;
  readonly type: string;
  readonly attempt: number;
  readonly terminal: boolean;
  readonly data: { readonly status?: string; readonly lastSequence?: number };
}

/**
 * Looks at every run stream: ids `1-0, 2-0, …` without a gap and equal to `sequence`; every event
 * valid; no attempt after its successor; at most one terminal event, and it is last; the record agrees in state and sequence; a life
 * on record and stream after the terminal event, and none before.
 *
 * @throws {Error} that lists the violations.
 */
export async function auditRuns(redis: Redis): Promise<void> {
  const violations: string[] = [];
  for (const key of await scan(redis, RUN_STREAMS)) {
    for (const violation of await auditRun(redis, key)) violations.push(`${key}: ${violation}`);
  }
  if (violations.length === 0) return;
  const listed = violations.slice(0, MAX_LISTED).join("\n  ");
  throw new Error(`the run log broke the contract in ${violations.length} places:\n  ${listed}`);
}

async function auditRun(redis: Redis, eventsKey: string): Promise<readonly string[]> {
  const recordKey = eventsKey.slice(0, -":events".length);
  const [rawEntries, record, eventsTtl, recordTtl] = await Promise.all([
    redis.xrange(eventsKey, "-", "+"),
    redis.hgetall(recordKey),
    redis.pttl(eventsKey),
    redis.pttl(recordKey),
  ]);
  if (eventsTtl === -2) return [];
  const entries = rawEntries.map(([id, fields]) => ({ id, text: fields[1] ?? "", fields }));
  const violations = entries.flatMap((entry) =>
    entry.fields[0] === "e" && entry.fields.length === 2 ? [] : [`entry ${entry.id} does not hold one field e`],
  );
  const events = entries.map((entry, index) => judgeEvent(entry, index + 1, eventsKey, violations));
  judgeFence(events, violations);
  judgeTerminal(events, violations);
  judgeRecord(record, events, violations);
  judgeLife(
    {
      eventsTtl,
      recordTtl,
      ended: events.at(-1)?.terminal === true,
      recordGone: record["seq"] === undefined,
    },
    violations,
  );
  return violations;
}

function judgeEvent(entry: StreamEntry, sequence: number, key: string, violations: string[]): JudgedEvent | undefined {
  if (entry.id !== `${sequence}-0`) violations.push(`entry ${sequence} has the id ${entry.id}`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(entry.text);
  } catch {
    violations.push(`${entry.id} is not JSON`);
    return undefined;
  }
  const problems = validateEvent(parsed);
  if (problems.length > 0) {
    violations.push(`${entry.id} is not a valid event: ${JSON.stringify(problems)}: ${entry.text.slice(0, 300)}`);
    return undefined;
  }
  const event = parsed as JudgedEvent; // just validated
  if (event.sequence !== sequence) violations.push(`${entry.id} says sequence ${event.sequence}`);
  if (!key.endsWith(`:t:${event.tenantId}:run:${event.runId}:events`)) {
    violations.push(`${entry.id} belongs to ${event.tenantId}/${event.runId}`);
  }
  return event;
}

/** A write of a superseded attempt would stand after one of its successor. */
function judgeFence(events: readonly (JudgedEvent | undefined)[], violations: string[]): void {
  let latest = 0;
  for (const event of events) {
    if (event === undefined) continue;
    if (event.attempt < latest)
      violations.push(`attempt ${event.attempt} wrote event ${event.sequence} after attempt ${latest}`);
    latest = Math.max(latest, event.attempt);
  }
}

function judgeTerminal(events: readonly (JudgedEvent | undefined)[], violations: string[]): void {
  const terminals = events.filter((event) => event?.terminal === true).length;
  if (terminals > 1) violations.push(`${terminals} terminal events`);
  if (terminals === 1 && events.at(-1)?.terminal !== true) violations.push("something follows the terminal event");
  const last = events.at(-1);
  if (last?.terminal === true && last.data.lastSequence !== last.sequence) {
    violations.push(`the result says lastSequence ${last.data.lastSequence}, the stream ${last.sequence}`);
  }
}

function judgeRecord(
  record: Readonly<Record<string, string>>,
  events: readonly (JudgedEvent | undefined)[],
  violations: string[],
): void {
  const last = events.at(-1);
  const { state, seq } = record;
  if (state === undefined || seq === undefined) {
    if (last?.terminal !== true) violations.push("the record of a living run is gone");
    return;
  }
  if (Number(seq) !== events.length)
    violations.push(`the record says sequence ${seq}, the stream has ${events.length}`);
  const ended = (TERMINAL_STATES as readonly string[]).includes(state); // wider for the question, never written
  if (ended !== (last?.terminal === true)) violations.push(`the record says ${state}, the last event is ${last?.type}`);
  if (last === undefined || !last.terminal) return;
  if (last.data.status !== state) violations.push(`the record says ${state}, the result ${last.data.status}`);
  if (last.type !== terminalTypeOf(state)) violations.push(`the record says ${state}, the last event is ${last.type}`);
}

function judgeLife(
  life: {
    readonly eventsTtl: number;
    readonly recordTtl: number;
    readonly ended: boolean;
    readonly recordGone: boolean;
  },
  violations: string[],
): void {
  if (life.ended) {
    if (life.eventsTtl < 0) violations.push("the stream of an ended run has no life");
    if (life.recordTtl < 0 && !life.recordGone) violations.push("the record of an ended run has no life");
    return;
  }
  if (life.eventsTtl >= 0) violations.push("the stream of a living run has a life");
  if (life.recordTtl >= 0) violations.push("the record of a living run has a life");
}

function terminalTypeOf(state: string): string {
  if (state === "succeeded") return "run.final_response";
  return state === "cancelled" ? "run.cancelled" : "run.error";
}

async function scan(redis: Redis, pattern: string): Promise<readonly string[]> {
  const keys = new Set<string>();
  let cursor = "0";
  do {
    const [next, page] = await redis.scan(cursor, "MATCH", pattern, "COUNT", 1_000);
    for (const key of page) keys.add(key);
    cursor = next;
  } while (cursor !== "0");
  return [...keys].sort();
}
