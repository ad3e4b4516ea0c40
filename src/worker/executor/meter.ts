import type { RunLimits } from "../../shared/contracts/request.ts";
import type { Usage } from "../../shared/contracts/result.ts";
import { RunError } from "../../shared/errors.ts";
import { costMicroUsd } from "../model/cost.ts";
import type { ModelPrice, ModelUsage } from "../model/model.ts";

/** Counts what a run uses, across its attempts, and says when a limit is reached. */
export class Meter {
  readonly #limits: RunLimits;
  readonly #price: ModelPrice | undefined;
  #turns = 0;
  #modelCalls = 0;
  #toolCalls = 0;
  #inputTokens = 0;
  #cachedInputTokens = 0;
  #outputTokens = 0;
  #reasoningTokens = 0;
  #costMicroUsd = 0;
  #estimated = false;
  #outputBytes = 0;
  readonly #priorSandboxMs: number;

  constructor(options: {
    readonly limits: RunLimits;
    readonly price: ModelPrice | undefined;
    readonly prior: { readonly usage: Usage; readonly outputBytes: number } | undefined;
  }) {
    this.#limits = options.limits;
    this.#price = options.price;
    this.#priorSandboxMs = options.prior?.usage.sandboxMs ?? 0;
    if (options.prior === undefined) return;
    const { usage, outputBytes } = options.prior;
    this.#turns = usage.turns;
    this.#modelCalls = usage.modelCalls;
    this.#toolCalls = usage.toolCalls;
    this.#inputTokens = usage.inputTokens;
    this.#cachedInputTokens = usage.cachedInputTokens;
    this.#outputTokens = usage.outputTokens;
    this.#reasoningTokens = usage.reasoningTokens;
    this.#costMicroUsd = options.price === undefined ? 0 : costMicroUsd(usage, options.price);
    this.#estimated = usage.estimated;
    this.#outputBytes = outputBytes;
  }

  /** The turn that runs, or ran last. */
  get turn(): number {
    return this.#turns;
  }

  /** UTF-8 bytes of assistant text that the run may still produce. */
  get outputBytesLeft(): number {
    return this.#limits.maxOutputBytes - this.#outputBytes;
  }

  /**
   * Output tokens that one more call may have; Infinity where nothing bounds them. Below 1: it may not be made.
   *
   * @param inputTokens What the call sends, estimated.
   * @throws {RunError} `token_limit`, `cost_limit`.
   */
  outputTokensLeft(inputTokens: number): number {
    const { maxTotalTokens, maxCostUsd } = this.#limits;
    const byTokens = (maxTotalTokens ?? Infinity) - this.#inputTokens - this.#outputTokens - inputTokens;
    if (byTokens < 1) throw limit("token_limit", { maxTotalTokens });
    if (maxCostUsd === undefined || this.#price === undefined) return byTokens;
    // A price per million tokens in USD is one in micro-USD per token.
    const microUsd = maxCostUsd * 1_000_000 - this.#costMicroUsd - inputTokens * this.#price.input;
    const byCost = this.#price.output === 0 ? Infinity : Math.floor(microUsd / this.#price.output);
    if (microUsd < 0 || byCost < 1) throw limit("cost_limit", { maxCostUsd });
    return Math.min(byTokens, byCost);
  }

  /**
   * Begins a turn with one model call.
   *
   * @throws {RunError} `max_turns`.
   */
  beginTurn(): void {
    if (this.#turns >= this.#limits.maxTurns) throw limit("max_turns", { maxTurns: this.#limits.maxTurns });
    this.#turns++;
    this.#modelCalls++;
  }

  /** Charges one model call. */
  charge(usage: ModelUsage): void {
    this.#inputTokens += usage.inputTokens;
    this.#cachedInputTokens += usage.cachedInputTokens;
    this.#outputTokens += usage.outputTokens;
    this.#reasoningTokens += usage.reasoningTokens;
    this.#estimated ||= usage.estimated;
    if (this.#price !== undefined) this.#costMicroUsd += costMicroUsd(usage, this.#price);
  }

  /** @throws {RunError} `max_output` where assistant text passes the run's limit. */
  addOutput(text: string): void {
    this.#outputBytes += Buffer.byteLength(text);
    if (this.#outputBytes > this.#limits.maxOutputBytes)
      throw limit("max_output", { maxOutputBytes: this.#limits.maxOutputBytes });
  }

  /** @throws {RunError} `max_tool_calls` where the batch would pass the limit; then none of it counts. */
  addToolCalls(calls: number): void {
    if (this.#toolCalls + calls > this.#limits.maxToolCalls)
      throw limit("max_tool_calls", { maxToolCalls: this.#limits.maxToolCalls });
    this.#toolCalls += calls;
  }

  usage(sandboxMs: number): Usage {
    return {
      turns: this.#turns,
      modelCalls: this.#modelCalls,
      toolCalls: this.#toolCalls,
      inputTokens: this.#inputTokens,
      cachedInputTokens: this.#cachedInputTokens,
      outputTokens: this.#outputTokens,
      reasoningTokens: this.#reasoningTokens,
      totalTokens: this.#inputTokens + this.#outputTokens,
      ...(this.#price === undefined ? {} : { costUsd: this.#costMicroUsd / 1_000_000 }),
      estimated: this.#estimated,
      sandboxMs: this.#priorSandboxMs + sandboxMs,
    };
  }
}

function limit(
  code: "max_turns" | "token_limit" | "cost_limit" | "max_output" | "max_tool_calls",
  details: Record<string, unknown>,
): RunError {
  return new RunError(code, { details });
}
