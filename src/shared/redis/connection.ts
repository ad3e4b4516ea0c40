import type { Redis, RedisOptions } from "ioredis";
import { RunError } from "../errors.ts";
import { isRefused, toRedisError } from "./guard.ts";
import { joinWrites } from "./joint-writes.ts";

/**
 * What a connection is for decides how it waits:
 *
 * - `request`: short commands of ours. Fails fast while Redis is away: nothing is queued, an unanswered
 *   command is sent again after a reconnect, and given up after two lost connections or 5 s.
 * - `queue`: handed to BullMQ's `Queue` in a producer. As `request`.
 * - `blocking`: handed to a BullMQ `Worker`, which waits on it. Commands wait until Redis is back.
 * - `subscriber`: pub/sub. Subscriptions wait until Redis is back; whoever made them renews them at each "ready". ioredis
 *   would, but a refusal would then be nobody's to catch, and end the process.
 */
export type RedisRole = "request" | "queue" | "blocking" | "subscriber";

export interface ConnectRedisOptions {
  readonly role: RedisRole;
  /** Shown by `CLIENT LIST`. No spaces. */
  readonly name: string;
  /** How long the first connection may take, refused tries repeated. Default 3 000. */
  readonly connectTimeoutMs?: number;
}

const DEFAULT_CONNECT_TIMEOUT_MS = 3_000;
const COMMAND_TIMEOUT_MS = 5_000;
const MAX_RETRY_DELAY_MS = 1_000;
const CLOSE_TIMEOUT_MS = 1_000;
/** How long a closed client waits for the other side to close its stream; its timer keeps the process alive. */
const DISCONNECT_TIMEOUT_MS = 250;

const ROLE_OPTIONS = {
  request: { maxRetriesPerRequest: 2, enableOfflineQueue: false, commandTimeout: COMMAND_TIMEOUT_MS },
  queue: { maxRetriesPerRequest: 2, enableOfflineQueue: false, commandTimeout: COMMAND_TIMEOUT_MS },
  blocking: { maxRetriesPerRequest: null },
  subscriber: { maxRetriesPerRequest: null, autoResubscribe: false },
} as const satisfies Record<RedisRole, RedisOptions>;

/**
 * Opens a connection and waits until Redis is ready to serve.
 *
 * @param url `redis://` or `rediss://`, with user, password and database where needed.
 * @returns A connection that reconnects by itself, at least once a second. Close it with {@link closeRedis}.
 * @throws {RunError} `redis_unavailable`, naming host and port but no credentials, when Redis did not get
 *   ready in time or refused the credentials; `invalid_configuration` for a URL that is none.
 */
export async function connectRedis(url: string, options: ConnectRedisOptions): Promise<Redis> {
  const address = parseAddress(url);
  const { Redis } = await import("ioredis");
  const timeoutMs = options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS;
  const redis = new Redis(url, {
    ...ROLE_OPTIONS[options.role],
    connectionName: options.name,
    connectTimeout: timeoutMs,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
    lazyConnect: true,
    retryStrategy,
  });
  // Without a listener ioredis prints every failed try. Commands are rejected on their own.
  redis.on("error", () => undefined);
  joinWrites(redis);
  try {
    await waitUntilReady(redis, timeoutMs);
    return redis;
  } catch (error) {
    redis.disconnect();
    throw toConnectError(address, error);
  }
}

/**
 * Closes a connection: politely where Redis answers, otherwise within a second. Never throws, never
 * hangs, may be called twice.
 */
export async function closeRedis(redis: Redis): Promise<void> {
  if (hasEnded(redis)) return;
  if (redis.status === "ready") {
    const { promise: closed, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_TIMEOUT_MS);
    redis.once("end", resolve);
    redis.quit().catch(() => undefined);
    await closed;
    clearTimeout(timer);
    redis.off("end", resolve);
  }
  // A client that has ended would keep a timer, and with it the process, for a stream that is closed already.
  if (!hasEnded(redis)) redis.disconnect();
}

function hasEnded(redis: Redis): boolean {
  return redis.status === "end";
}

function waitUntilReady(redis: Redis, timeoutMs: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let last: unknown;
  const onError = (error: unknown): void => {
    last = error;
    // Wrong credentials do not get right by trying again.
    if (isRefused(error)) reject(error);
  };
  const timer = setTimeout(() => reject(last), timeoutMs);
  redis.on("error", onError);
  redis.once("ready", resolve);
  redis.connect().catch(onError);
  return promise.finally(() => {
    clearTimeout(timer);
    redis.off("error", onError);
    redis.off("ready", resolve);
  });
}

/** 50, 100, 200, 400, 800, 1000 ms, and up to a tenth more so that a fleet does not come back at once. */
function retryStrategy(times: number): number {
  const delayMs = Math.min(50 * 2 ** (times - 1), MAX_RETRY_DELAY_MS);
  return Math.round(delayMs * (1 + Math.random() * 0.1));
}

function parseAddress(url: string): string {
  try {
    const { protocol, hostname, port } = new URL(url);
    if ((protocol === "redis:" || protocol === "rediss:") && hostname !== "")
      return `${hostname}:${port === "" ? "6379" : port}`;
  } catch {
    // Said below; the text of the URL may hold a password and is not repeated.
  }
  throw new RunError("invalid_configuration", { message: "The Redis URL must look like redis://host:port." });
}

function toConnectError(address: string, caught: unknown): RunError {
  const reply = toRedisError(caught);
  const why = reply.message === new RunError("redis_unavailable").message ? whyOf(caught) : reply.message;
  return new RunError("redis_unavailable", { message: `Redis at ${address} cannot be reached: ${why}`, cause: caught });
}

function whyOf(caught: unknown): string {
  const code = caught instanceof Error && "code" in caught && typeof caught.code === "string" ? caught.code : undefined;
  return code === undefined ? "it did not get ready in time." : `${code}.`;
}
