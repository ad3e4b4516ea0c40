import { atMost, compare, spread, type Figure, type Scale } from "./measure.ts";
import type { ModelServerReady } from "./fake-model-server.ts";
import { cpuMs, startPeer } from "./peer.ts";
import type { DriverCommand } from "./peers/skilldock-driver.ts";
import { round } from "./print.ts";
import { openWholePath, type WholePath } from "./whole-path.ts";

const IN_FLIGHT = 16;

/** CPU of a streaming run over the whole path, in all processes but the model's, against the naive BullMQ job. */
export async function benchPath(scale: Scale): Promise<readonly Figure[]> {
  await using parts = new AsyncDisposableStack();
  const server = await startPeer<ModelServerReady>(new URL("./fake-model-server.ts", import.meta.url), {});
  parts.use(server);
  const ours = await openWholePath(parts, { side: "skilldock", concurrency: IN_FLIGHT, model: server.ready });
  const naive = await openWholePath(parts, { side: "plain", concurrency: IN_FLIGHT, model: server.ready });
  const command: DriverCommand = { kind: "follow", runs: scale.size(300), inFlight: IN_FLIGHT };
  const shares = { ours: new Shares(), naive: new Shares() };
  const compared = await compare(scale, {
    ours: async () => shares.ours.add(await cost(ours, command)),
    baseline: async () => shares.naive.add(await cost(naive, command)),
  });
  return [
    {
      ...compared,
      name: `CPU of a streaming run over the whole path, producer to follower, ${IN_FLIGHT} at once`,
      unit: "ms/run",
      baselineName: "naive BullMQ job: openai loop, an awaited XADD for each event, a subscriber",
      goals: [atMost(compared.ratio, 0.5)],
      notes: [`skilldock ${shares.ours.describe()}; baseline ${shares.naive.describe()}`],
    },
  ];
}

interface Cost {
  readonly driver: number;
  readonly worker: number;
  readonly redis: number;
}

async function cost(path: WholePath, command: DriverCommand): Promise<Cost> {
  const before = readCost(path);
  await path.drive(command);
  const after = readCost(path);
  const of = (part: keyof Cost): number => (after[part] - before[part]) / command.runs;
  return { driver: of("driver"), worker: of("worker"), redis: of("redis") };
}

function readCost({ pids }: WholePath): Cost {
  return { driver: cpuMs(pids.driver), worker: cpuMs(pids.worker), redis: cpuMs(pids.redis) };
}

class Shares {
  readonly #costs: Cost[] = [];

  /** @returns All processes together. */
  add(one: Cost): number {
    this.#costs.push(one);
    return one.driver + one.worker + one.redis;
  }

  describe(): string {
    const costs = this.#costs.slice(1);
    const of = (part: keyof Cost): string => round(spread(costs.map((one) => one[part])).median);
    return `worker ${of("worker")}, driver ${of("driver")}, Redis ${of("redis")} ms`;
  }
}
