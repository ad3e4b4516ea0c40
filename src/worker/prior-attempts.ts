import type { RunEvent } from "../shared/contracts/event.ts";
import type { Receipt } from "../shared/contracts/receipt.ts";
import type { Usage } from "../shared/contracts/result.ts";
import type { PriorAttempts } from "./executor/execution.ts";
import { estimateTokens } from "./executor/meter.ts";
import type { ToolRegistry } from "./tools/registry.ts";

/** What a run's stream says of the attempts before this one. */
export interface History {
  readonly prior: PriorAttempts;
  /** A call with effects that outlast its attempt was dispatched: starting over could do it twice. */
  readonly effectsDispatched: boolean;
  /** An attempt had begun: `run.started` stands in the stream. */
  readonly started: boolean;
}

/**
 * Folds a run's stream: what was used, which receipts exist, whether starting over is safe.
 *
 * A model call without `model.completed` is charged by the text that was seen of it, and marked as estimated.
 */
export function foldHistory(
  events: Iterable<RunEvent>,
  options: { readonly registry: ToolRegistry; readonly reason: PriorAttempts["reason"] },
): History {
  const receipts: Receipt[] = [];
  const usage = { turns: 0, modelCalls: 0, toolCalls: 0, inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };
  let estimated = false;
  let outputBytes = 0;
  let lastSequence = 0;
  let started = false;
  let effectsDispatched = false;
  /** Bytes of the open model call's text; undefined: none is open. */
  let openText: number | undefined;
  const closeOpenCall = (): void => {
    if (openText === undefined) return;
    usage.outputTokens += estimateTokens(openText);
    estimated = true;
    openText = undefined;
  };
  for (const event of events) {
    lastSequence = event.sequence;
    switch (event.type) {
      case "run.started":
        started = true;
        break;
      case "run.resumed":
        closeOpenCall();
        break;
      case "model.started":
        closeOpenCall();
        usage.turns++;
        usage.modelCalls++;
        openText = 0;
        break;
      case "model.delta":
        openText = (openText ?? 0) + Buffer.byteLength(event.data.text);
        break;
      case "model.completed":
        openText = undefined;
        usage.toolCalls += event.data.toolCalls.length;
        usage.inputTokens += event.data.usage.inputTokens;
        usage.cachedInputTokens += event.data.usage.cachedInputTokens;
        usage.outputTokens += event.data.usage.outputTokens;
        usage.reasoningTokens += event.data.usage.reasoningTokens;
        estimated ||= event.data.usage.estimated;
        outputBytes += Buffer.byteLength(event.data.message);
        break;
      case "tool.call":
        effectsDispatched ||= outlastsAttempt(event.data.capabilityId, options.registry);
        break;
      case "tool.result":
      case "tool.blocked":
        receipts.push(event.data.receipt);
        break;
      default:
        break;
    }
  }
  closeOpenCall();
  const total: Usage = { ...usage, totalTokens: usage.inputTokens + usage.outputTokens, estimated, sandboxMs: 0 };
  return {
    prior: { usage: total, receipts, outputBytes, reason: options.reason, lastSequence },
    effectsDispatched,
    started,
  };
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
