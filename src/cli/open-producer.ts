import type { Config } from "../shared/config/config.ts";
import type { Producer } from "../producer/index.ts";

/**
 * The producer of a command, to be closed with its scope. Its code is loaded here: not every command needs it.
 *
 * Where there is no configuration file, every tenant may enqueue: nobody has said who may not.
 */
export async function openProducer(config: Config): Promise<Producer> {
  const { Producer } = await import("../producer/index.ts");
  return new Producer({
    redis: config.redis.url,
    retentionMs: config.retention.ttlMs,
    ...(config.file === undefined ? {} : { tenants: config.tenants }),
  });
}
