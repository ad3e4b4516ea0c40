import { canonicalJson, sha256Digest } from "../../shared/contracts/digest.ts";
import type { RunEventDraft } from "../../shared/contracts/event.ts";
import type { RunRequest } from "../../shared/contracts/request.ts";
import { RunError, toRunError } from "../../shared/errors.ts";
import type { Skill } from "../catalog/catalog.ts";
import type { ModelCompletion, ModelMessage, ModelRequest, ModelToolCall } from "../model/model.ts";
import { estimateUsage, requestBytes, usageOfFailure } from "../model/token-estimate.ts";
import { admitBatch } from "../tools/admission.ts";
import { concludeRun, type Ending } from "./conclude.ts";
import { openingMessages } from "./conversation.ts";
import { runCall, type CallDesk } from "./dispatch.ts";
import { RunInterrupt, type Execution, type ExecutionDependencies, type UnsealedResult } from "./execution.ts";
import { judgeFinalText } from "./final-text.ts";
import { Meter } from "./meter.ts";
import { runModelTurn } from "./model-turn.ts";
import { offeredTools, prepare, type Plan } from "./prepare.ts";
import { RunSandbox } from "./run-sandbox.ts";
import { Journal } from "./journal.ts";
import { linkAbort } from "./linked-abort.ts";

/**
 * The executor: one attempt of a run, as a bounded loop of model turns and tool calls.
 *
 *     started → (model turn → whole batch judged → calls dispatched in order)* → ended
 *
 * E1 It yields every event of the attempt but the terminal one, and returns the result.
 * E2 No model is called before the `model.started` of that turn was taken by the host, and no tool is dispatched
 *    before its `tool.call` was. A host that stops asking stops the run.
 * E3 Every `tool.call` is followed by its `tool.result`, unless the attempt is interrupted without a result.
 * E4 Turns, tool calls, output bytes, tokens, cost and wall clock are bounded, over all attempts.
 * E5 However it is left, the model call is aborted, the sandbox is ended and no timer is left.
 *
 * @throws {RunInterrupt} Other than `cancelled`: this attempt has no result.
 */
export async function* execute(
  execution: Execution,
  dependencies: ExecutionDependencies,
  signal: AbortSignal,
): AsyncGenerator<RunEventDraft, UnsealedResult, void> {
  const { request } = execution;
  const { clock } = dependencies;
  const endsAt = execution.startedAt + request.limits.wallClockMs;
  const stop = linkAbort(signal);
  const cancelTimer = clock.after(endsAt - clock.now(), () => stop.abort(new RunError("wall_clock")));
  const journal = new Journal(execution.prior);
  let noticedAt = clock.monotonic();
  const onAbort = (): void => void (noticedAt = clock.monotonic());
  signal.addEventListener("abort", onAbort, { once: true });
  let attempt: Attempt | undefined;
  try {
    const settled = settle(execution, dependencies);
    const plan = settled instanceof RunError ? undefined : settled;
    let ending: Ending;
    try {
      yield openingEvent(execution, dependencies, plan);
      if (settled instanceof RunError) throw settled;
      if (settled.skill !== undefined) yield activation(settled.skill, request);
      attempt = new Attempt({ execution, dependencies, plan: settled, journal, endsAt, signal: stop.signal });
      ending = { status: "succeeded", ...(yield* attempt.turns()) };
    } catch (caught) {
      ending = toEnding(caught, signal);
    }
    const { confirmed } = (await attempt?.close()) ?? { confirmed: true };
    const cancelledAfterMs = Math.round(clock.monotonic() - noticedAt);
    return concludeRun({
      execution,
      dependencies,
      plan,
      journal,
      meter: attempt?.meter,
      sandboxMs: attempt?.sandboxMs ?? 0,
      ending,
      confirmed,
      cancelledAfterMs,
    });
  } finally {
    signal.removeEventListener("abort", onAbort);
    cancelTimer();
    stop.release();
    await attempt?.close();
  }
}

/** What the attempt will run with, or why it may not run. */
function settle(execution: Execution, dependencies: ExecutionDependencies): Plan | RunError {
  if (execution.refusal !== undefined) return execution.refusal;
  try {
    return prepare(execution.request, dependencies);
  } catch (error) {
    return toRunError(error);
  }
}

/** The attempt's first event. What it will run with is named as far as it is settled. */
function openingEvent(
  execution: Execution,
  dependencies: ExecutionDependencies,
  plan: Plan | undefined,
): RunEventDraft {
  const { request, prior } = execution;
  const { catalog, worker } = dependencies;
  if (prior !== undefined) {
    return { type: "run.resumed", data: { worker, fromSequence: prior.lastSequence, reason: prior.reason } };
  }
  return {
    type: "run.started",
    data: {
      worker,
      catalogDigest: catalog.digest,
      ...(request.skill === undefined ? {} : { skill: request.skill.split("@")[0] }),
      ...(plan?.skill === undefined ? {} : { skillDigest: plan.skill.digest }),
      ...(plan === undefined ? {} : { model: `${plan.route.id}:${plan.model}` }),
    },
  };
}

/** The request's own skill is active before turn 1, by the service's own word. */
function activation(skill: Skill, request: RunRequest): RunEventDraft {
  const argumentsDigest = sha256Digest(request.arguments ?? "");
  return { type: "skill.activated", data: { ref: skill.ref, digest: skill.digest, argumentsDigest } };
}

/** @throws {RunInterrupt} For interrupts that end only the attempt. */
function toEnding(caught: unknown, signal: AbortSignal): Ending {
  if (signal.aborted) {
    const reason: unknown = signal.reason;
    if (!(reason instanceof RunInterrupt)) return { status: "cancelled", reason: undefined };
    if (reason.kind !== "cancelled") throw reason;
    return { status: "cancelled", reason: reason.reason };
  }
  return { status: "stopped", error: caught };
}

interface AttemptOptions {
  readonly execution: Execution;
  readonly dependencies: ExecutionDependencies;
  readonly plan: Plan;
  readonly journal: Journal;
  /** Epoch ms. */
  readonly endsAt: number;
  /** Aborts when the run is interrupted or its wall clock ends. */
  readonly signal: AbortSignal;
}

/** The loop itself, with what it owns. */
class Attempt {
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
    const request = this.#modelRequest();
    this.meter.beginTurn(requestBytes(request));
    yield { type: "model.started", data: { turn: request.run.turn } };
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

  #modelRequest(): ModelRequest {
    const { execution, plan } = this.#options;
    const { request } = execution;
    const maxOutputTokens = Math.min(plan.route.maxOutputTokens ?? Infinity, this.meter.tokensLeft);
    return {
      model: plan.model,
      messages: [...this.#messages],
      tools: offeredTools(plan.window),
      ...(maxOutputTokens === Infinity ? {} : { maxOutputTokens }),
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
    const { plan, journal } = this.#options;
    this.meter.addToolCalls(calls.length);
    const verdicts = admitBatch(calls, plan.window, options);
    const desk = this.#desk();
    for (const verdict of verdicts) {
      const output = yield* runCall(verdict, desk, journal);
      this.#messages.push({ role: "tool", callId: verdict.call.callId, text: output });
    }
  }

  #desk(): CallDesk {
    const { execution, dependencies, plan, endsAt, signal } = this.#options;
    return {
      execution,
      clock: dependencies.clock,
      window: plan.window,
      endsAt,
      signal,
      sandbox: this.#sandbox,
      policyDigest: sha256Digest(canonicalJson(execution.request.workspacePolicy)),
    };
  }
}
