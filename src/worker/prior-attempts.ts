import type { EventData, RunEvent } from "../shared/contracts/event.ts";
import type { Receipt } from "../shared/contracts/receipt.ts";
import type { Usage } from "../shared/contracts/result.ts";
import type { PriorAttempts } from "./executor/execution.ts";
import { estimateTokens } from "./model/token-estimate.ts";
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
 * A model call without `model.completed` is charged by the estimate of its input and the text that was seen of it, and
 * marked as estimated. What earlier sandboxes lived is not in the stream and not counted.
 */
export function foldHistory(
  events: Iterable<RunEvent>,
  options: { readonly registry: ToolRegistry; readonly reason: PriorAttempts["reason"] },
): History {
  const fold = new Fold(options.registry);
  for (const event of events) fold.add(event);
  return fold.end(options.reason);
}

class Fold {
  readonly #registry: ToolRegistry;
  readonly #receipts: Receipt[] = [];
  readonly #tokens = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };
  #turns = 0;
  #toolCalls = 0;
  #estimated = false;
  #outputBytes = 0;
  #lastSequence = 0;
  #started = false;
  #effectsDispatched = false;
  #skillDigest: string | undefined;
  /** What is known of the model call that is open; undefined: none is. */
  #openCall: { readonly inputTokens: number; textBytes: number } | undefined;

  constructor(registry: ToolRegistry) {
    this.#registry = registry;
  }

  add(event: RunEvent): void {
    this.#lastSequence = event.sequence;
    switch (event.type) {
      case "run.started":
        this.#started = true;
        this.#skillDigest = event.data.skillDigest;
        break;
      case "run.resumed":
        this.#closeOpenCall();
        break;
      case "model.started":
        this.#closeOpenCall();
        this.#turns++;
        this.#openCall = { inputTokens: event.data.inputTokensEstimate ?? 0, textBytes: 0 };
        break;
      case "model.delta":
        if (this.#openCall !== undefined) this.#openCall.textBytes += Buffer.byteLength(event.data.text);
        break;
      case "model.completed":
        this.#completeCall(event.data);
        break;
      case "tool.call":
        // Arguments that were refused stand as the model's text: such a call was never dispatched.
        this.#effectsDispatched ||=
          typeof event.data.arguments === "object" && outlastsAttempt(event.data.capabilityId, this.#registry);
        break;
      case "tool.result":
      case "tool.blocked":
        this.#receipts.push(event.data.receipt);
        break;
      default:
        break;
    }
  }

  end(reason: PriorAttempts["reason"]): History {
    this.#closeOpenCall();
    const usage: Usage = {
      turns: this.#turns,
      modelCalls: this.#turns,
      toolCalls: this.#toolCalls,
      ...this.#tokens,
      totalTokens: this.#tokens.inputTokens + this.#tokens.outputTokens,
      estimated: this.#estimated,
      sandboxMs: 0,
    };
    return {
      prior: {
        usage,
        receipts: this.#receipts,
        outputBytes: this.#outputBytes,
        reason,
        lastSequence: this.#lastSequence,
        ...(this.#skillDigest === undefined ? {} : { skillDigest: this.#skillDigest }),
      },
      effectsDispatched: this.#effectsDispatched,
      started: this.#started,
    };
  }

  #completeCall(data: EventData<"model.completed">): void {
    this.#openCall = undefined;
    this.#toolCalls += data.toolCalls.length;
    this.#tokens.inputTokens += data.usage.inputTokens;
    this.#tokens.cachedInputTokens += data.usage.cachedInputTokens;
    this.#tokens.outputTokens += data.usage.outputTokens;
    this.#tokens.reasoningTokens += data.usage.reasoningTokens;
    this.#estimated ||= data.usage.estimated;
    this.#outputBytes += Buffer.byteLength(data.message);
  }

  #closeOpenCall(): void {
    if (this.#openCall === undefined) return;
    this.#tokens.inputTokens += this.#openCall.inputTokens;
    this.#tokens.outputTokens += estimateTokens(this.#openCall.textBytes);
    this.#estimated = true;
    this.#openCall = undefined;
  }
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
