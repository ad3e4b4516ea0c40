import { RunError } from "../errors.ts";

/** Replies that mean "not now", by the code that Redis puts first in an error. */
const UNAVAILABLE_REPLIES: ReadonlySet<string> = new Set([
  "LOADING",
  "BUSY",
  "MASTERDOWN",
  "READONLY",
  "CLUSTERDOWN",
  "TRYAGAIN",
  "NOREPLICAS",
  "MISCONF",
  "OOM",
  "UNBLOCKED",
]);
/** Replies that mean "not you": the connection's credentials or rights do not do. */
const REFUSED_REPLIES: ReadonlySet<string> = new Set(["NOAUTH", "WRONGPASS", "NOPERM"]);

/**
 * Turns what a Redis command was rejected with into a {@link RunError}, once.
 *
 * @returns `redis_unavailable` for a lost, refused, timed-out or closed connection and for replies that
 *   say that the server cannot serve now; `internal` for any other error reply, which is a bug here.
 */
export function toRedisError(caught: unknown): RunError {
  if (caught instanceof RunError) return caught;
  const reply = replyCode(caught);
  if (reply === undefined) return new RunError("redis_unavailable", { cause: caught });
  if (UNAVAILABLE_REPLIES.has(reply)) {
    return new RunError("redis_unavailable", { message: `Redis cannot serve now (${reply}).`, cause: caught });
  }
  if (REFUSED_REPLIES.has(reply)) {
    return new RunError("redis_unavailable", { message: `Redis refused the credentials (${reply}).`, cause: caught });
  }
  return new RunError("internal", { cause: caught });
}

/** Waits for a command; what it is rejected with is thrown as a {@link RunError}. */
export async function guard<T>(command: Promise<T>): Promise<T> {
  try {
    return await command;
  } catch (error) {
    throw toRedisError(error);
  }
}

/** Redis answered that the credentials or their rights do not do: trying again does not help. */
export function isRefused(caught: unknown): boolean {
  return REFUSED_REPLIES.has(replyCode(caught) ?? "");
}

/** The first word of an error reply, such as `WRONGPASS`; undefined for what is not a reply. */
function replyCode(caught: unknown): string | undefined {
  if (!(caught instanceof Error) || caught.name !== "ReplyError") return undefined;
  return caught.message.split(" ", 1)[0];
}
