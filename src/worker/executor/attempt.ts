import { canonicalJson, sha256Digest } from "../../shared/contracts/digest.ts";
import type { RunEventDraft } from "../../shared/contracts/event.ts";
import type { Receipt } from "../../shared/contracts/receipt.ts";
import { RunError } from "../../shared/errors.ts";
import type { ModelCompletion, ModelMessage, ModelRequest, ModelToolCall } from "../model/model.ts";
import { estimateTokens } from "../../shared/token-estimate.ts";
import { estimateUsage, requestBytes, usageOfFailure } from "../model/token-estimate.ts";
import { admitBatch } from "../tools/admission.ts";
import { openingMessages } from "./conversation.ts";
import { runCall, type CallDesk } from "./dispatch.ts";
import type { Execution, ExecutionDependencies } from "./execution.ts";
import { judgeFinalText } from "./final-text.ts";
import { Meter } from "./meter.ts";
import { runModelTurn } from "./model-turn.ts";
import { offeredTools, type Plan } from "./prepare.ts";
import { RunSandbox } from "./run-sandbox.ts";

/** What one attempt works with. */
export interface AttemptOptions {
  readonly execution: Execution;
  readonly dependencies: ExecutionDependencies;
  readonly plan: Plan;
  /** Receipts of the run; this attempt adds its own. */
  readonly receipts: Receipt[];
  /** Epoch ms. */
  readonly endsAt: number;
  /** Aborts when the run is interrupted or its wall clock ends. */
  readonly signal: AbortSignal;
}

/**
 * The loop of one attempt: model turns and batches of tool calls, until the model answers without calls. It owns the
 * run's sandbox; whoever makes an attempt closes it.
 */
export class Attempt {
  readonly meter: Meter;
  readonly #options: AttemptOptions;
  readonly #sandbox: RunSandbox | undefined;
  readonly #messages: ModelMessage[];

  constructor(options: AttemptOptions) {
    const { execution, dependencies, plan } = options;
    this.#options = options;
    this.#messages = [...openingMessages(execution.request, plan)];
    this.meter = new Meter({
      limits: execution.request.limits,
      price: plan.route.pricePerMillion,
      prior: execution.prior,
    });
    this.#sandbox =
      dependencies.sandbox &&
      new RunSandbox({
        backend: dependencies.sandbox,
        request: execution.request,
        attempt: execution.attempt,
        owner: dependencies.worker,
        installation: dependencies.installation,
        endsAt: options.endsAt,
        skill: plan.skill,
        clock: dependencies.clock,
      });
  }

  get sandboxMs(): number {
    return this.#sandbox?.lifeMs ?? 0;
  }

  async close(): Promise<{ readonly confirmed: boolean }> {
    return (await this.#sandbox?.close()) ?? { confirmed: true };
  }

  /** Turns until the model answers without tool calls. @returns The final text. */
  async *turns(): AsyncGenerator<RunEventDraft, { readonly outputText: string; readonly output?: unknown }, void> {
    for (;;) {
      const completion = yield* this.#modelTurn();
      const calls = completion.toolCalls.map((call, index): ModelToolCall => ({
        callId: `t${this.meter.turn}c${index}`,
        ...call,
      }));
      yield {
        type: "model.completed",
        data: {
          turn: this.meter.turn,
          message: completion.text,
          toolCalls: calls.map((call) => ({ callId: call.callId, modelName: call.name, arguments: call.arguments })),
          finishReason: completion.finishReason,
          usage: completion.usage,
        },
      };
      this.meter.addOutput(completion.text);
      if (completion.finishReason === "content_filter") throw new RunError("model_refused");
      if (calls.length === 0) return judgeFinalText(completion, this.#options.execution.request.responseSchema);
      this.#messages.push({ role: "assistant", text: completion.text, toolCalls: calls });
      yield* this.#batch(calls, { truncated: completion.finishReason === "length" });
    }
  }

  async *#modelTurn(): AsyncGenerator<RunEventDraft, ModelCompletion, void> {
    const { dependencies, plan, signal } = this.#options;
    signal.throwIfAborted();
    const unbounded = this.#modelRequest();
    const inputTokens = estimateTokens(requestBytes(unbounded));
    const maxOutputTokens = Math.min(plan.route.maxOutputTokens ?? Infinity, this.meter.outputTokensLeft(inputTokens));
    const request = maxOutputTokens === Infinity ? unbounded : { ...unbounded, maxOutputTokens };
    this.meter.beginTurn();
    yield { type: "model.started", data: { turn: request.run.turn, inputTokensEstimate: inputTokens } };
    signal.throwIfAborted();
    let text = "";
    try {
      const completion = yield* runModelTurn({
        model: plan.route.adapter,
        request,
        clock: dependencies.clock,
        signal,
        maxTextBytes: this.meter.outputBytesLeft,
        onText: (more) => (text += more),
      });
      this.meter.charge(completion.usage);
      return completion;
    } catch (error) {
      // What broke off was sent, and perhaps paid: it is charged as far as it is known.
      this.meter.charge(usageOfFailure(error) ?? estimateUsage(request, { text, toolCalls: [] }));
      throw error;
    }
  }

  /** The next turn's request, without a bound on its answer. */
  #modelRequest(): ModelRequest {
    const { execution, plan } = this.#options;
    const { request } = execution;
    return {
      model: plan.model,
      messages: [...this.#messages],
      tools: offeredTools(plan.window),
      ...(request.responseSchema === undefined ? {} : { responseSchema: request.responseSchema }),
      run: {
        runId: request.runId,
        turn: this.meter.turn + 1,
        query: request.query,
        ...(plan.skill === undefined ? {} : { skill: plan.skill.ref }),
      },
    };
  }

  async *#batch(
    calls: readonly ModelToolCall[],
    options: { readonly truncated: boolean },
  ): AsyncGenerator<RunEventDraft, void, void> {
    const { plan, receipts } = this.#options;
    this.meter.addToolCalls(calls.length);
    const verdicts = admitBatch(calls, plan.window, options);
    const desk = this.#desk();
    for (const verdict of verdicts) {
      const output = yield* runCall(verdict, desk, receipts);
      this.#messages.push({ role: "tool", callId: verdict.call.callId, text: output });
    }
  }

  #desk(): CallDesk {
    const { execution, dependencies, plan, endsAt, signal } = this.#options;
    return {
      execution,
      clock: dependencies.clock,
      onFault: dependencies.onFault ?? (() => undefined),
      window: plan.window,
      endsAt,
      signal,
      sandbox: this.#sandbox,
      policyDigest: sha256Digest(canonicalJson(execution.request.workspacePolicy)),
    };
  }
}
