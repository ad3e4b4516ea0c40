/**
 * Every Redis key and channel name of Skilldock.
 *
 * All keys of a lane share the hash tag `{sd:<lane>}`, so that one script touches one slot.
 *
 *     {sd:0}:t:<tenant>:run:<runId>         hash    the run record
 *     {sd:0}:t:<tenant>:run:<runId>:events  stream  ids <sequence>-0, one field `e`
 *     {sd:0}:t:<tenant>:run:<runId>:notice  channel "<sequence> <terminal 0|1>" after each append, "cancel"
 *     {sd:0}:t:<tenant>:idem:<sha256>       string  "<runId> <payload digest>"
 *     {sd:0}:t:<tenant>:backlog             zset    waiting runs, by arrival
 *     {sd:0}:t:<tenant>:active              zset    run id → lease expiry
 *     {sd:0}:ready                          zset    tenants with waiting runs, by the first one's arrival
 *     {sd:0}:grants                         zset    "<tenant> <runId> <grant>" → lease expiry
 *     {sd:0}:waiting                        zset    "<tenant> <runId>" → queue deadline
 *     BullMQ: prefix {sd:0}, queue "runs"
 *
 * The scripts of the run log make those of other runs and tenants in the same way, from the prefix.
 *
 * Tenant and run ids are validated before they get here (`^[a-z0-9][a-z0-9_-]{0,62}$`,
 * `^[A-Za-z0-9_-]{8,64}$`): they hold no `:`, `{`, `*` or space.
 */

export const QUEUE_NAME = "runs";

/** One lane until tenants are spread over several. */
export const DEFAULT_LANE = 0;

/** The hash tag that every key of a lane starts with; also BullMQ's prefix. */
export function lanePrefix(lane: number): string {
  return `{sd:${lane}}`;
}

export interface RunKeys {
  readonly record: string;
  readonly events: string;
  readonly notice: string;
}

export function runKeys(lane: number, tenantId: string, runId: string): RunKeys {
  const record = `${lanePrefix(lane)}:t:${tenantId}:run:${runId}`;
  return { record, events: `${record}:events`, notice: `${record}:notice` };
}

export interface LaneKeys {
  readonly grants: string;
  readonly waiting: string;
}

export function laneKeys(lane: number): LaneKeys {
  return { grants: `${lanePrefix(lane)}:grants`, waiting: `${lanePrefix(lane)}:waiting` };
}

/** @param keyDigest Hex SHA-256 of the caller's idempotency key. */
export function idempotencyKey(lane: number, tenantId: string, keyDigest: string): string {
  return `${lanePrefix(lane)}:t:${tenantId}:idem:${keyDigest}`;
}

/** BullMQ's id of a grant: no `:` and never a number. */
export function jobId(tenantId: string, runId: string, grant: number): string {
  return `${tenantId}.${runId}.${grant}`;
}
