import type { Config } from "../shared/config/config.ts";
import type { Producer } from "../producer/index.ts";

/** The producer of a command, to be closed with its scope. Its code is loaded here: not every command needs it. */
export async function openProducer(config: Config): Promise<Producer> {
  const { Producer } = await import("../producer/index.ts");
  return new Producer({ redis: config.redis.url, tenants: config.tenants, retentionMs: config.retention.ttlMs });
}
