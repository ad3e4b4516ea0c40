import type { RunEvent } from "../shared/contracts/event.ts";
import type { RunResult, Usage } from "../shared/contracts/result.ts";
import { toModelOutcome, type Metrics, type TokenCounts } from "../shared/metrics/metrics.ts";
import type { Claim } from "../shared/run-log/run-log.ts";
import type { InterruptKind } from "./executor/execution.ts";

/** Counts what one attempt does, from its events. */
export class RunObserver {
  readonly #metrics: Metrics;
  /** The route's id. */
  readonly #model: string;
  /** Monotonic ms at which the open model call began; undefined: none is open. */
  #callSince: number | undefined;
  #counted: TokenCounts = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };

  constructor(metrics: Metrics, model: string) {
    this.#metrics = metrics;
    this.#model = model;
  }

  /** @param prior What earlier attempts used, and counted themselves as far as they could. */
  began(claim: Claim, prior: Usage | undefined): void {
    const { epoch, handedOver } = claim;
    if (prior !== undefined) this.#counted = toCounts(prior);
    if (epoch === 1) this.#metrics.queueWaited(Math.max(0, claim.serverTime - claim.queuedAt) / 1_000);
    this.#metrics.attempt({ reason: epoch === 1 ? "first" : handedOver ? "handed_over" : "worker_lost" });
  }

  saw(event: RunEvent): void {
    switch (event.type) {
      case "model.started":
        this.#metrics.turn({ model: this.#model });
        this.#callSince = performance.now();
        break;
      case "model.completed":
        this.#countTokens(event.data.usage);
        this.#endCall("ok");
        break;
      case "tool.result":
      case "tool.blocked":
        this.#metrics.toolCall({
          capability: event.data.receipt.capabilityId,
          status: event.data.receipt.status,
        });
        break;
      default:
        break;
    }
  }

  ended(result: RunResult): void {
    this.#endCall(
      result.error === undefined || result.status !== "failed" ? "aborted" : toModelOutcome(result.error.code),
    );
    // What broken-off calls used is only in the result.
    this.#countTokens(differenceOf(result.usage, this.#counted));
    this.#metrics.runEnded({
      status: result.status,
      skill: result.skill?.ref,
      durationSeconds: result.timings.durationMs / 1_000,
    });
  }

  interrupted(kind: InterruptKind): void {
    this.#endCall("aborted");
    if (kind === "fenced") this.#metrics.fencedWrite();
  }

  #countTokens(usage: TokenCounts): void {
    this.#metrics.tokens({ model: this.#model, ...toCounts(usage) });
    this.#counted = sumOf(this.#counted, usage);
  }

  #endCall(outcome: Parameters<Metrics["modelRequest"]>[0]["outcome"]): void {
    if (this.#callSince === undefined) return;
    const seconds = (performance.now() - this.#callSince) / 1_000;
    this.#metrics.modelRequest({ model: this.#model, outcome, seconds });
    this.#callSince = undefined;
  }
}

function toCounts(counts: TokenCounts): TokenCounts {
  const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = counts;
  return { inputTokens, cachedInputTokens, outputTokens, reasoningTokens };
}

function sumOf(one: TokenCounts, other: TokenCounts): TokenCounts {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    reasoningTokens: one.reasoningTokens + other.reasoningTokens,
  };
}

function differenceOf(whole: TokenCounts, part: TokenCounts): TokenCounts {
  return {
    inputTokens: Math.max(0, whole.inputTokens - part.inputTokens),
    cachedInputTokens: Math.max(0, whole.cachedInputTokens - part.cachedInputTokens),
    outputTokens: Math.max(0, whole.outputTokens - part.outputTokens),
    reasoningTokens: Math.max(0, whole.reasoningTokens - part.reasoningTokens),
  };
}
