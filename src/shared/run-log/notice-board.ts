import type { Redis } from "ioredis";
import { RunError } from "../errors.ts";
import { closeRedis } from "../redis/connection.ts";
import { guard } from "../redis/guard.ts";
import { runKeys } from "../redis/keys.ts";
import type { RunRef } from "./run-log.ts";

/**
 * Who waits for which run, over one subscriber connection.
 *
 * N1 A run's channel is subscribed while at least one watch of it is there.
 * N2 A notice is a hint: it wakes, it is never delivered. A lost one is made good by a comparison with the
 *    run's record: after each reconnect of either connection, and every `pollMs`.
 * N3 `close` ends every wait by an error; nothing waits on a closed board.
 */

export interface NoticeBoardOptions {
  readonly redis: Redis;
  readonly openSubscriber: () => Promise<Redis>;
  readonly lane: number;
  readonly pollMs: number;
}

/** One follower's place on the board. */
export interface Watch {
  /** Forgets what was heard: a read that begins now sees it. */
  reset(): void;
  /** Resolves when event `next` may be there, the run may be gone, or the signal was aborted. */
  more(next: number): Promise<void>;
  leave(): void;
}

export interface WatchOptions {
  /** Tells the run from a later one of the same id. */
  readonly enqueueId: string | undefined;
  /** The sequence that is waited for. */
  readonly next: number;
  readonly signal: AbortSignal | undefined;
}

interface Topic {
  readonly run: RunRef;
  readonly channel: string;
  readonly waiters: Set<Waiter>;
  readonly subscribed: Promise<unknown>;
}

const COMPARED_PER_PIPELINE = 500;
const GONE = Number.POSITIVE_INFINITY;

export class NoticeBoard {
  readonly #options: NoticeBoardOptions;
  readonly #topics = new Map<string, Topic>();
  readonly #onReady = (): void => void this.#compare();
  #subscriber: Promise<Redis> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #comparing = false;
  #compareAgain = false;
  #closed = false;

  constructor(options: NoticeBoardOptions) {
    this.#options = options;
    options.redis.on("ready", this.#onReady);
  }

  get size(): number {
    let size = 0;
    for (const topic of this.#topics.values()) size += topic.waiters.size;
    return size;
  }

  /** @throws {RunError} `redis_unavailable` after {@link close}. */
  checkOpen(): void {
    if (this.#closed) throw closedError();
  }

  /**
   * Resolves when the run's notices are heard, or the signal was aborted. What was written before is not
   * told: read again afterwards.
   */
  async watch(run: RunRef, options: WatchOptions): Promise<Watch> {
    const { notice } = runKeys(this.#options.lane, run.tenantId, run.runId);
    const subscriber = await this.#openSubscriber();
    this.checkOpen();
    const topic = this.#topics.get(notice) ?? this.#open(subscriber, { run, channel: notice });
    const waiter = new Waiter(options, () => this.#leave(subscriber, topic, waiter));
    topic.waiters.add(waiter);
    this.#timer ??= setInterval(this.#onReady, this.#options.pollMs).unref();
    try {
      await Promise.race([guard(topic.subscribed), waiter.stopped()]);
      return waiter;
    } catch (error) {
      waiter.leave();
      throw error;
    }
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#options.redis.off("ready", this.#onReady);
    for (const topic of this.#topics.values()) for (const waiter of topic.waiters) waiter.fail(closedError());
    clearInterval(this.#timer);
    const subscriber = await this.#subscriber?.catch(() => undefined);
    if (subscriber !== undefined) await closeRedis(subscriber);
  }

  #open(subscriber: Redis, name: { readonly run: RunRef; readonly channel: string }): Topic {
    const subscribed = subscriber.subscribe(name.channel);
    subscribed.catch(() => undefined); // whoever waits for it is told
    const topic = { ...name, waiters: new Set<Waiter>(), subscribed };
    this.#topics.set(name.channel, topic);
    return topic;
  }

  #leave(subscriber: Redis, topic: Topic, waiter: Waiter): void {
    if (!topic.waiters.delete(waiter) || topic.waiters.size > 0) return;
    this.#topics.delete(topic.channel);
    if (!this.#closed) subscriber.unsubscribe(topic.channel).catch(() => undefined);
    if (this.#topics.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #openSubscriber(): Promise<Redis> {
    this.#subscriber ??= this.#options.openSubscriber().then(
      (subscriber) => {
        subscriber.on("message", (channel: string, message: string) => this.#hear(channel, message));
        subscriber.on("ready", () => void this.#renew(subscriber));
        return subscriber;
      },
      (error: unknown) => {
        this.#subscriber = undefined;
        throw error;
      },
    );
    return this.#subscriber;
  }

  /** Subscribes again after a reconnect. Only then can nothing be missed; where Redis refuses, the poll has to do. */
  async #renew(subscriber: Redis): Promise<void> {
    const channels = [...this.#topics.keys()];
    if (channels.length > 0) await subscriber.subscribe(...channels).catch(() => undefined);
    await this.#compare();
  }

  #hear(channel: string, message: string): void {
    const sequence = Number.parseInt(message, 10);
    if (Number.isNaN(sequence)) return; // "cancel" is for the attempt, not for followers
    for (const waiter of this.#topics.get(channel)?.waiters ?? []) waiter.hear(sequence);
  }

  /** Compares every wait with its run's record; one round at a time, and one more where asked meanwhile. */
  async #compare(): Promise<void> {
    this.#compareAgain = true;
    if (this.#comparing) return;
    this.#comparing = true;
    while (this.#compareAgain && !this.#closed) {
      this.#compareAgain = false;
      const topics = [...this.#topics.values()];
      for (let start = 0; start < topics.length; start += COMPARED_PER_PIPELINE) {
        await this.#compareSome(topics.slice(start, start + COMPARED_PER_PIPELINE));
      }
    }
    this.#comparing = false;
  }

  async #compareSome(topics: readonly Topic[]): Promise<void> {
    const pipeline = this.#options.redis.pipeline();
    for (const { run } of topics)
      pipeline.hmget(runKeys(this.#options.lane, run.tenantId, run.runId).record, "enqueueId", "seq");
    // Where Redis is away there is nothing to compare with: its return is the next occasion.
    const replies = (await pipeline.exec().catch(() => null)) ?? [];
    for (const [index, [error, fields]] of replies.entries()) {
      if (error !== null || !Array.isArray(fields)) continue;
      const [enqueueId, sequence]: readonly unknown[] = fields;
      for (const waiter of topics[index]?.waiters ?? []) {
        waiter.hear(enqueueId === waiter.enqueueId ? Number(sequence) : GONE);
      }
    }
  }
}

class Waiter implements Watch {
  readonly enqueueId: string | undefined;
  readonly #onLeave: () => void;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = (): void => this.hear(GONE);
  #next: number;
  #heard = 0;
  #failure: RunError | undefined;
  #wake: (() => void) | undefined;

  constructor(options: WatchOptions, onLeave: () => void) {
    this.enqueueId = options.enqueueId;
    this.#next = options.next;
    this.#signal = options.signal;
    this.#onLeave = onLeave;
    this.#signal?.addEventListener("abort", this.#onAbort);
  }

  hear(sequence: number): void {
    this.#heard = Math.max(this.#heard, sequence);
    if (this.#heard >= this.#next) this.#wake?.();
  }

  fail(error: RunError): void {
    this.#failure = error;
    this.#wake?.();
  }

  reset(): void {
    this.#heard = 0;
  }

  async more(next: number): Promise<void> {
    this.#next = next;
    if (this.#heard < next && this.#failure === undefined && this.#signal?.aborted !== true) {
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = undefined;
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when the signal is aborted; rejects when the board is closed. Notices do not matter. */
  async stopped(): Promise<void> {
    await this.more(GONE);
  }

  leave(): void {
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#onLeave();
  }
}

function closedError(): RunError {
  return new RunError("redis_unavailable", { message: "Following has been closed." });
}
