import { Queue } from "bullmq";
import type { RunEvent } from "../../src/shared/contracts/event.ts";
import type { RunResult } from "../../src/shared/contracts/result.ts";
import { Producer, type ProducerOptions } from "../../src/producer/index.ts";
import { lanePrefix, QUEUE_NAME } from "../../src/shared/redis/keys.ts";
import { RedisRunLog } from "../../src/shared/run-log/redis-run-log.ts";
import { startRedis } from "./redis.ts";

/** A Redis, a producer, and the parts that a worker would use. */
export async function setUpProducer(options: Partial<ProducerOptions> = {}) {
  const redis = await startRedis();
  const producer = new Producer({ redis: redis.url, ...options });
  const client = redis.client();
  const log = new RedisRunLog({ redis: client });
  const queue = new Queue(QUEUE_NAME, {
    connection: redis.client({ maxRetriesPerRequest: null }),
    prefix: lanePrefix(0),
  });
  return {
    redis,
    client,
    producer,
    log,
    queue,
    async [Symbol.asyncDispose]() {
      await producer.close();
      await queue.close();
      await redis[Symbol.asyncDispose]();
    },
  };
}

/** Everything that a follower delivers. */
export async function collect(items: AsyncIterable<RunEvent | RunResult>): Promise<readonly (RunEvent | RunResult)[]> {
  const collected: (RunEvent | RunResult)[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

/** The sequences of what a follower delivered, and where the result came. */
export function sequencesOf(items: readonly (RunEvent | RunResult)[]): readonly (number | "result")[] {
  return items.map((item) => (item.type === "result" ? "result" : item.sequence));
}
