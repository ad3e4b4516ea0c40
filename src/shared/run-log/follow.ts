import type { Redis } from "ioredis";
import type { RunEvent } from "../contracts/event.ts";
import { RunError } from "../errors.ts";
import { guard, isRefused } from "../redis/guard.ts";
import { DEFAULT_LANE, runKeys } from "../redis/keys.ts";
import { parseEntries } from "./events.ts";
import { NoticeBoard, type Watch } from "./notice-board.ts";
import { untilAborted } from "../until-aborted.ts";
import type { RunRef } from "./run-log.ts";

export interface FollowersOptions {
  /** For reading, of the role `request`; it may be shared and stays the caller's to close. */
  readonly redis: Redis;
  /** Opens the one connection that hears the notices, of the role `subscriber`: at the first need, closed by `close`. */
  readonly openSubscriber: () => Promise<Redis>;
  /** Default 0. */
  readonly lane?: number;
  /** How often a waiting follower looks by itself, in case a notice was lost. Default 10 000. */
  readonly pollMs?: number;
  /** Events of one read. Default 100. */
  readonly pageSize?: number;
}

export interface FollowOptions {
  /** The first event to deliver, from 1 on. Default 1. */
  readonly fromSequence?: number;
  /**
   * The run as its record showed it. Who knows it waits for a Redis that is away from the beginning on, as a follower
   * under way does, and takes no other run of the same id for it.
   */
  readonly enqueueId?: string;
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal;
}

/** Where a follower stands. */
interface Place {
  readonly next: number;
  /** Undefined where it knows none yet. */
  readonly enqueueId: string | undefined;
  readonly signal: AbortSignal;
}

interface Page {
  readonly events: readonly RunEvent[];
  readonly enqueueId: string;
  /** The run has ended, and nothing follows this page. */
  readonly ended: boolean;
}

/**
 * Everybody in this process who follows runs: two connections, however many they are.
 *
 * A follower reads pages of its run's stream when its consumer asks for more, and waits at the end of
 * the stream for a notice. Notices only say that there is more: what is delivered is always read from
 * the stream, in order, each event once.
 *
 * F1 A follower that has to wait subscribes first and reads again then, so nothing falls in between.
 * F2 After a lost connection, and every `pollMs`, waiting followers compare their place with the record.
 * F3 Nothing is buffered but the page that is being delivered.
 * F4 A run that is gone, or was replaced by another of the same id, ends its followers by `run_not_found`.
 */
export class Followers {
  readonly #redis: Redis;
  readonly #lane: number;
  readonly #pageSize: number;
  readonly #board: NoticeBoard;

  constructor(options: FollowersOptions) {
    this.#redis = options.redis;
    this.#lane = options.lane ?? DEFAULT_LANE;
    this.#pageSize = options.pageSize ?? 100;
    this.#board = new NoticeBoard({
      redis: options.redis,
      openSubscriber: options.openSubscriber,
      lane: this.#lane,
      pollMs: options.pollMs ?? 10_000,
    });
  }

  /** Followers that wait for more now. */
  get waiting(): number {
    return this.#board.size;
  }

  /**
   * Delivers the events of a run in order, each once, until the terminal one.
   *
   * Survives lost connections and restarts of Redis. To leave while it waits, abort `signal`: a consumer
   * that breaks out of its loop leaves at the next event.
   *
   * @throws {RunError} `run_not_found` where the run is not there, or not any more; `redis_unavailable`
   *   where Redis cannot be reached for the first page and no `enqueueId` is given, where it refuses the credentials, or
   *   where {@link close} was called.
   */
  async *follow(run: RunRef, options: FollowOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const signal = options.signal ?? new AbortController().signal;
    const isAborted = (): boolean => signal.aborted;
    let next = Math.max(1, options.fromSequence ?? 1);
    let identity = options.enqueueId;
    let watch: Watch | undefined;
    try {
      while (!isAborted()) {
        watch?.reset();
        const page = await this.#readPage(run, { next, enqueueId: identity, signal });
        if (page !== undefined) {
          identity = page.enqueueId;
          for (const event of page.events) {
            next = event.sequence + 1;
            yield event;
            if (event.terminal || isAborted()) return;
          }
          if (page.events.length === this.#pageSize) continue;
          if (page.ended) return;
        }
        if (isAborted()) return;
        if (watch === undefined) watch = await this.#startWatch(run, { enqueueId: identity, next, signal });
        else await watch.more(next);
      }
    } finally {
      watch?.leave();
    }
  }

  /** Ends everybody who waits by an error and closes the subscriber. May be called twice. */
  async close(): Promise<void> {
    await this.#board.close();
  }

  /** @returns undefined where the signal is aborted, or Redis went away before the subscriber was open: try again. */
  async #startWatch(run: RunRef, options: Place): Promise<Watch | undefined> {
    const watching = this.#board.watch(run, options);
    try {
      return await untilAborted(options.signal, () => watching);
    } catch (error) {
      this.#board.checkOpen();
      if (options.signal.aborted) {
        watching.then(
          (late) => late.leave(),
          () => undefined,
        );
        return undefined;
      }
      // A refusal of the credentials or of their rights stays one; a lost Redis was waited for already.
      if (error instanceof RunError && error.code === "redis_unavailable" && !isRefused(error.cause)) return undefined;
      throw error;
    }
  }

  /**
   * @returns undefined where the signal is aborted, or Redis is away and the follower knows its run: it waits until Redis
   *   is back.
   */
  async #readPage(run: RunRef, { next, enqueueId: identity, signal }: Place): Promise<Page | undefined> {
    this.#board.checkOpen();
    const keys = runKeys(this.#lane, run.tenantId, run.runId);
    const read = async () =>
      guard(
        Promise.all([
          this.#redis.hmget(keys.record, "enqueueId", "terminal", "seq"),
          this.#redis.xrange(keys.events, `${next}-0`, "+", "COUNT", this.#pageSize),
        ]),
      );
    try {
      const [[enqueueId, terminal, sequence], entries] = await untilAborted(signal, read);
      if (typeof enqueueId !== "string" || enqueueId !== (identity ?? enqueueId)) throw new RunError("run_not_found");
      const events = parseEntries(entries, next);
      return { events, enqueueId, ended: terminal === "1" && Number(sequence) < next + events.length };
    } catch (error) {
      if (signal.aborted) return undefined;
      if (identity !== undefined && error instanceof RunError && error.code === "redis_unavailable") return undefined;
      throw error;
    }
  }
}
