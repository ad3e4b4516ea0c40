import type { TenantRecords } from "../shared/config/tenants.ts";
import { RunError } from "../shared/errors.ts";
import type { Logger } from "../shared/logging/logger.ts";
import type { RedisAddress } from "./redis-address.ts";

export interface ProducerOptions {
  /** `redis://` or `rediss://` URL, or its parts. */
  readonly redis: string | RedisAddress;
  /** Who may enqueue. Default: every tenant, `{default: {}}`. */
  readonly tenants?: TenantRecords;
  /** Told of what does not concern the caller. Default: nobody. */
  readonly logger?: Pick<Logger, "warn">;
  /** Life of runs that `cancel` ends without a worker, in ms after their end. Default 86,400,000, one day. */
  readonly retentionMs?: number;
}

/**
 * From plain JavaScript anything may come.
 *
 * @throws {RunError} `invalid_configuration`: no address, or a life that is none.
 */
export function checkOptions(options: ProducerOptions | undefined): void {
  if (options?.redis === undefined || (typeof options.redis !== "string" && typeof options.redis !== "object")) {
    throw new RunError("invalid_configuration", { message: "A producer needs redis: a URL, or its parts." });
  }
  const { retentionMs } = options;
  if (retentionMs === undefined) return;
  if (!Number.isInteger(retentionMs) || retentionMs < 1_000 || retentionMs > 31_536_000_000) {
    throw new RunError("invalid_configuration", {
      message: "retentionMs must be a whole number from 1,000 to 31,536,000,000.",
    });
  }
}
