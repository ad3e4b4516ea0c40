import type Docker from "dockerode";
import type { Clock } from "../../shared/clock.ts";
import { delay } from "./engine-exec.ts";
import { engineStatus, withDeadline } from "./engine.ts";

/** How long a removal may take until it counts as unconfirmed. */
const REMOVAL_MS = 10_000;
const SLOWEST_POLL_MS = 200;

/**
 * Removes a container by force, and asks until the engine no longer knows it. Never throws.
 *
 * A removal that is under way already (status 409) and one that is done (404) are both what was wanted.
 *
 * @returns Whether it is known to be gone.
 */
export async function removeContainer(container: Docker.Container, clock: Clock): Promise<boolean> {
  const until = clock.monotonic() + REMOVAL_MS;
  const timeoutMs = (): number => Math.max(1, until - clock.monotonic());
  for (let waitMs = 10; clock.monotonic() < until; waitMs = Math.min(SLOWEST_POLL_MS, waitMs * 2)) {
    try {
      await withDeadline((abortSignal) => container.remove({ force: true, v: true, abortSignal }), {
        timeoutMs: timeoutMs(),
      });
    } catch (error) {
      if (engineStatus(error) === 404) return true;
    }
    try {
      await withDeadline((abortSignal) => container.inspect({ abortSignal }), { timeoutMs: timeoutMs() });
    } catch (error) {
      if (engineStatus(error) === 404) return true;
    }
    await delay(waitMs);
  }
  return false;
}
