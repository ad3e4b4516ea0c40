import type { RunEvent } from "../shared/contracts/event.ts";
import { PastAttemptsFold, type PastAttempts } from "../shared/run-log/past-attempts.ts";
import type { ToolRegistry } from "./tools/registry.ts";

/** What a run's stream says of the attempts before this one. */
export interface History {
  readonly past: PastAttempts;
  /** A call with effects that outlast its attempt was dispatched: starting over could do it twice. */
  readonly effectsDispatched: boolean;
}

/** Folds a run's stream: what was used, which receipts exist, whether starting over is safe. */
export function foldHistory(events: Iterable<RunEvent>, registry: ToolRegistry): History {
  const fold = new PastAttemptsFold();
  let effectsDispatched = false;
  for (const event of events) {
    fold.add(event);
    // Arguments that were refused stand as the model's text: such a call was never dispatched.
    effectsDispatched ||=
      event.type === "tool.call" &&
      typeof event.data.arguments === "object" &&
      outlastsAttempt(event.data.capabilityId, registry);
  }
  return { past: fold.end(), effectsDispatched };
}

/**
 * Files written in a workspace are gone with it, and reads changed nothing. A command may have been meant to happen
 * once, and so may a caller tool that writes or reaches outside; what is not known here counts as such.
 */
function outlastsAttempt(capabilityId: string, registry: ToolRegistry): boolean {
  if (capabilityId === "workspace.write@1") return false;
  const effects = registry.get(capabilityId)?.effects;
  return effects !== "none" && effects !== "read";
}
