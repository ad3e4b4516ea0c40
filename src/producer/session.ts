import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { RunError } from "../shared/errors.ts";
import { closeRedis, connectRedis } from "../shared/redis/connection.ts";
import { isRefused, toRedisError } from "../shared/redis/guard.ts";
import { DEFAULT_LANE } from "../shared/redis/keys.ts";
import { Followers } from "../shared/run-log/follow.ts";
import { RedisRunLog } from "../shared/run-log/redis-run-log.ts";
import { openGrantQueue, type GrantQueue } from "./queue.ts";
import { within } from "../shared/within.ts";

/** How long a call waits for Redis to come (back). */
const READY_TIMEOUT_MS = 3_000;
const CLOSE_STEP_MS = 1_000;
/** How long one call may take, with everything that is tried again in it. */
export const CALL_TIMEOUT_MS = 5_000;
/** How long after its beginning a call that failed is still tried again, where it does not say. */
const RETRY_WITHIN_MS = 2_000;
const FIRST_RETRY_MS = 25;

export interface SessionOptions {
  readonly url: string;
  /** Life of a run that this producer ends, after its end. */
  readonly retentionMs: number | undefined;
  readonly onQueueError: (error: Error) => void;
}

/** What a producer needs once it talks to Redis: one connection for commands, one for all followers. */
export interface Session {
  readonly log: RedisRunLog;
  readonly followers: Followers;
  /** Opened at the first need. */
  openQueue(): Promise<GrantQueue>;
}

/**
 * The producer's connections: opened at the first call that needs them, shared by all, kept through
 * outages of Redis, closed once.
 *
 * Where the first connection fails, the next call tries again. Later the client reconnects by itself, and a
 * call waits up to three seconds for it.
 */
export class Connections {
  readonly #options: SessionOptions;
  readonly #parts = new AsyncDisposableStack();
  #opened: Promise<{ readonly redis: Redis; readonly session: Session }> | undefined;
  #readying: Promise<void> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** @throws {RunError} `redis_unavailable` when Redis does not answer within about three seconds, or after `close`. */
  async open(): Promise<Session> {
    this.#checkOpen();
    this.#opened ??= this.#connect();
    try {
      const { redis, session } = await this.#opened;
      if (redis.status !== "ready") await this.#whenReady(redis);
      this.#checkOpen();
      return session;
    } catch (error) {
      throw toRedisError(error);
    }
  }

  /**
   * Makes one call that may be sent twice: again where the connection broke, within two seconds or `retryWithinMs`.
   *
   * @throws {RunError} `redis_unavailable` after five seconds at the latest; what `call` throws.
   */
  async use<T>(call: (session: Session) => Promise<T>, options: { readonly retryWithinMs?: number } = {}): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const giveUp = (): void => reject(new RunError("redis_unavailable", { message: "Redis did not answer in time." }));
    const timer = setTimeout(giveUp, CALL_TIMEOUT_MS);
    const calling = this.#call(call, options.retryWithinMs ?? RETRY_WITHIN_MS);
    // What comes after the deadline is nobody's any more.
    calling.catch(() => undefined);
    try {
      return await Promise.race([calling, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Within about three seconds, also while Redis is away. Safe to call again. */
  async close(): Promise<void> {
    this.#closed ??= this.#close();
    await this.#closed;
  }

  async #call<T>(call: (session: Session) => Promise<T>, retryWithinMs: number): Promise<T> {
    const startedAt = performance.now();
    for (let pauseMs = FIRST_RETRY_MS; ; pauseMs *= 2) {
      try {
        return await call(await this.open());
      } catch (error) {
        const failure = toRedisError(error);
        const isOver = this.#closed !== undefined || performance.now() - startedAt + pauseMs > retryWithinMs;
        if (failure.code !== "redis_unavailable" || isOver || isRefused(failure.cause)) throw failure;
      }
      await sleep(pauseMs);
    }
  }

  async #close(): Promise<void> {
    await this.#opened?.catch(() => undefined);
    await this.#parts.disposeAsync();
  }

  #checkOpen(): void {
    if (this.#closed !== undefined)
      throw new RunError("redis_unavailable", { message: "The producer has been closed." });
  }

  async #connect(): Promise<{ readonly redis: Redis; readonly session: Session }> {
    try {
      const redis = await connectRedis(this.#options.url, { role: "request", name: "skilldock-producer" });
      this.#parts.defer(() => closeRedis(redis));
      return { redis, session: this.#makeSession(redis) };
    } catch (error) {
      // The next call tries again.
      this.#opened = undefined;
      throw error;
    }
  }

  /** However many calls wait, they wait together. */
  async #whenReady(redis: Redis): Promise<void> {
    this.#readying ??= waitUntilReady(redis).finally(() => (this.#readying = undefined));
    return this.#readying;
  }

  #makeSession(redis: Redis): Session {
    const { url, retentionMs, onQueueError } = this.#options;
    const followers = new Followers({
      redis,
      openSubscriber: () => connectRedis(url, { role: "subscriber", name: "skilldock-followers" }),
    });
    this.#parts.defer(() => followers.close());
    let queue: Promise<GrantQueue> | undefined;
    const openQueue = async (): Promise<GrantQueue> => {
      const opened = await openGrantQueue({ lane: DEFAULT_LANE, redis, onError: onQueueError });
      // BullMQ's own closing may wait for an answer that does not come.
      this.#parts.defer(() => within(CLOSE_STEP_MS, opened.close()));
      return opened;
    };
    return {
      log: new RedisRunLog({ redis, ...(retentionMs === undefined ? {} : { retention: { ttlMs: retentionMs } }) }),
      followers,
      openQueue: () =>
        (queue ??= openQueue().catch((error: unknown) => {
          // The next call tries again.
          queue = undefined;
          throw error;
        })),
    };
  }
}

async function waitUntilReady(redis: Redis): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const giveUp = (): void => reject(new RunError("redis_unavailable"));
  const timer = setTimeout(giveUp, READY_TIMEOUT_MS);
  redis.once("ready", resolve);
  redis.once("end", giveUp);
  try {
    await promise;
  } finally {
    clearTimeout(timer);
    redis.off("ready", resolve);
    redis.off("end", giveUp);
  }
}
