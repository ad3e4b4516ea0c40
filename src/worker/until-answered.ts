import { setTimeout as pause } from "node:timers/promises";
import { RunError } from "../shared/errors.ts";

const RETRY_PAUSE_MS = 200;

/**
 * Sends a command again until Redis answers. For commands only that are answered the same when they are sent twice.
 *
 * @param signal Ends the waiting; a command that is under way is still waited for.
 * @throws `signal.reason`; whatever `send` throws other than `redis_unavailable`.
 */
export async function untilAnswered<T>(signal: AbortSignal, send: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof RunError) || error.code !== "redis_unavailable") throw error;
      await pause(RETRY_PAUSE_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
