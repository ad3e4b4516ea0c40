/** The producer's entry point: put runs on the queue, follow them, get their results, cancel them. */
export {
  Producer,
  type CancelQuery,
  type CancelReply,
  type Enqueued,
  type FollowQuery,
  type ResultQuery,
} from "./producer.ts";
export type { ProducerOptions } from "./producer-options.ts";
export type { RedisAddress } from "./redis-address.ts";
export type { TenantRecord, TenantRecords } from "../shared/config/tenants.ts";
export { RunError, type ErrorBody, type ErrorCode } from "../shared/errors.ts";
export type { EventData, EventType, RunEvent } from "../shared/contracts/event.ts";
export type { Receipt } from "../shared/contracts/receipt.ts";
export type { RunLimits, RunRequest, RunRequestInput } from "../shared/contracts/request.ts";
export type { Evidence, RunResult, RunState, TerminalState, Usage } from "../shared/contracts/result.ts";
export type { WorkspacePolicy } from "../shared/contracts/policy.ts";
