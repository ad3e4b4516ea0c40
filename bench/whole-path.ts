import { startRedis } from "../test/support/redis.ts";
import type { ModelServerReady } from "./fake-model-server.ts";
import { spread } from "./measure.ts";
import { cpuMs, startPeer, type Peer } from "./peer.ts";
import type { DriverCommand, DriverReply } from "./peers/skilldock-driver.ts";
import { round } from "./print.ts";

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

/** CPU of one run, user and system, in ms. */
export interface Cost {
  readonly driver: number;
  readonly worker: number;
  readonly redis: number;
}

/** What one command took: time, and CPU a run. */
export interface Charged extends Cost {
  readonly seconds: number;
}

/** Has a side do something and reads what it cost its processes. */
export async function driveAndCharge(path: WholePath, command: DriverCommand, shares: Shares): Promise<Charged> {
  const before = readCost(path);
  const { seconds } = await path.drive(command);
  const after = readCost(path);
  const of = (part: keyof Cost): number => (after[part] - before[part]) / command.runs;
  const cost: Cost = { driver: of("driver"), worker: of("worker"), redis: of("redis") };
  shares.add(cost);
  return { ...cost, seconds };
}

export function totalMs(cost: Cost): number {
  return cost.driver + cost.worker + cost.redis;
}

function readCost({ pids }: WholePath): Cost {
  return { driver: cpuMs(pids.driver), worker: cpuMs(pids.worker), redis: cpuMs(pids.redis) };
}

/** How the cost of a side is spread over its processes. The first measurement warms up and does not count. */
export class Shares {
  readonly #costs: Cost[] = [];

  add(cost: Cost): void {
    this.#costs.push(cost);
  }

  describe(): string {
    const costs = this.#costs.slice(1);
    const of = (part: keyof Cost): string => round(spread(costs.map((one) => one[part])).median);
    return `worker ${of("worker")}, driver ${of("driver")}, Redis ${of("redis")} ms`;
  }
}
