import { startRedis } from "../test/support/redis.ts";
import type { ModelServerReady } from "./fake-model-server.ts";
import { startPeer, type Peer } from "./peer.ts";
import type { DriverCommand, DriverReply } from "./peers/skilldock-driver.ts";

/** Redis, a worker and a driver, each a process of its own: one side of a comparison. */
export interface WholePath {
  readonly pids: { readonly driver: number; readonly worker: number; readonly redis: number };
  drive(command: DriverCommand): Promise<DriverReply>;
  readonly worker: Peer;
}

export interface WholePathOptions {
  readonly side: "skilldock" | "plain";
  readonly concurrency: number;
  /** Where the model is a server. */
  readonly model?: ModelServerReady;
}

/** Starts one side. Everything ends with `parts`. */
export async function openWholePath(parts: AsyncDisposableStack, options: WholePathOptions): Promise<WholePath> {
  const { side, concurrency, model } = options;
  const redis = parts.use(await startRedis({ audit: false }));
  const own = { redis: redis.url, concurrency, ...model };
  const worker = parts.use(await startPeer(new URL(`./peers/${side}-worker.ts`, import.meta.url), own));
  const driver = parts.use(await startPeer(new URL(`./peers/${side}-driver.ts`, import.meta.url), own));
  return {
    pids: { driver: driver.pid, worker: worker.pid, redis: redis.pid },
    drive: (command) => driver.call(command),
    worker,
  };
}
