/**
 * A model that answers by script, without a provider: in tests, and as the repository's default route.
 *
 * S1 Given a list of steps with `strict`, the calls take them in order, once each, whoever calls.
 * S2 Otherwise each run has its own cursor: the assistant messages since the run's query. It is read from the
 *    request, so a run that another process takes over goes on where it was.
 * S3 A call that no step answers is a `model_protocol` error, and nothing is repeated.
 * S4 `strict` keeps every request and every unexpected call; without it the model keeps nothing.
 */
import { systemClock, type Clock } from "../../shared/clock.ts";
import { parseQueryCondition } from "../../shared/config/query-condition.ts";
import type { ScriptFileEntry } from "../../shared/config/script-file.ts";
import { RunError, type ErrorCode } from "../../shared/errors.ts";
import type { FinishReason, Model, ModelCompletion, ModelRequest, ModelStreamItem, ModelUsage } from "./model.ts";
import { answerBytes, requestBytes } from "./token-estimate.ts";
import { wait } from "./wait.ts";

/** One answer. Every field may be missing: an empty step answers with empty text. */
export interface ScriptStep {
  /** Streamed word by word. */
  readonly text?: string;
  /** `arguments` as an object is written as JSON; as a string it is passed on as it is, also when it is not JSON. */
  readonly toolCalls?: readonly {
    readonly name: string;
    readonly arguments: string | Readonly<Record<string, unknown>>;
  }[];
  /** Default: `tool_calls` where there are calls, else `stop`. */
  readonly finishReason?: FinishReason;
  /** Replaces single figures of the computed usage. */
  readonly usage?: Partial<ModelUsage>;
  /** Before the first word. Default 0. */
  readonly delayMs?: number;
  /** Between words. Default 0. */
  readonly chunkDelayMs?: number;
  /** After the text, instead of an answer: the error that the call ends with. */
  readonly error?: ErrorCode;
  /** After the text, instead of an answer: silence until the call is aborted. */
  readonly waitForAbort?: true;
}

/** A step, or what makes one of the request. */
export type ScriptStepSource = ScriptStep | ((request: ModelRequest) => ScriptStep);

/** Steps for the runs that `when` matches; an entry without conditions matches every run. */
export interface ModelScriptEntry {
  readonly when?: ScriptFileEntry["when"];
  readonly steps: readonly ScriptStepSource[];
}

export interface ScriptedModelOptions {
  /** Keep requests and unexpected calls for {@link ScriptedModel.assertFinished}. Default false. */
  readonly strict?: boolean;
  readonly clock?: Clock;
}

interface MatchedEntry {
  readonly matches: (request: ModelRequest) => boolean;
  readonly steps: readonly ScriptStepSource[];
}

/** Bytes that count as one token in the figures of a script. */
const BYTES_PER_TOKEN = 4;

/**
 * The scripted adapter of the model port.
 *
 * Usage is computed from the bytes of request and answer, always the same for the same call, and stands for the
 * provider's: it is not marked as estimated.
 */
export class ScriptedModel implements Model {
  readonly #entries: readonly MatchedEntry[];
  readonly #inCallOrder: boolean;
  readonly #strict: boolean;
  readonly #clock: Clock;
  readonly #requests: ModelRequest[] = [];
  readonly #unexpected: string[] = [];
  readonly #played = new Set<ScriptStepSource>();
  #calls = 0;

  /**
   * @param script Entries, the first match wins; or the steps of one entry for every run.
   * @throws {PatternRefusal} For a query pattern that cannot run in linear time.
   */
  constructor(script: readonly ScriptStepSource[] | readonly ModelScriptEntry[], options: ScriptedModelOptions = {}) {
    const asEntries = isEntryList(script);
    const entries: readonly ModelScriptEntry[] = asEntries ? script : [{ steps: script }];
    this.#entries = entries.map(({ when, steps }) => ({ matches: matcherOf(when), steps }));
    this.#strict = options.strict ?? false;
    this.#inCallOrder = this.#strict && !asEntries;
    this.#clock = options.clock ?? systemClock;
  }

  /** The requests so far, oldest first. Empty without `strict`. */
  get requests(): readonly ModelRequest[] {
    return this.#requests;
  }

  async *stream(
    request: ModelRequest,
    options: { readonly signal: AbortSignal },
  ): AsyncGenerator<ModelStreamItem, void, void> {
    const { signal } = options;
    signal.throwIfAborted();
    const step = this.#take(request);
    if (step.delayMs !== undefined && step.delayMs > 0) await wait(this.#clock, step.delayMs, signal);
    const text = step.text ?? "";
    let between = false;
    for (const word of words(text)) {
      if (between && step.chunkDelayMs !== undefined && step.chunkDelayMs > 0)
        await wait(this.#clock, step.chunkDelayMs, signal);
      signal.throwIfAborted();
      between = true;
      yield { kind: "delta", text: word };
    }
    signal.throwIfAborted();
    if (step.waitForAbort === true) await wait(this.#clock, Infinity, signal);
    if (step.error !== undefined) throw new RunError(step.error, { details: { reason: "scripted" } });
    yield { kind: "completed", completion: completionOf(step, text, request) };
  }

  /**
   * For the end of a test; needs `strict`.
   *
   * @throws {RunError} `model_protocol`, naming every unexpected call and the number of steps that no call asked for.
   */
  assertFinished(): void {
    const problems = [...this.#unexpected];
    const unused = this.#entries.flatMap((entry) => entry.steps).filter((step) => !this.#played.has(step)).length;
    if (unused > 0) problems.push(`${unused} step(s) of the script were not used.`);
    if (problems.length > 0)
      throw new RunError("model_protocol", { message: problems.join(" "), details: { reason: "script", problems } });
  }

  #take(request: ModelRequest): ScriptStep {
    const call = this.#inCallOrder ? this.#calls : cursorOf(request);
    this.#calls++;
    if (this.#strict) this.#requests.push(request);
    const entry = this.#entries.find((candidate) => candidate.matches(request));
    const source = entry?.steps[call];
    if (source === undefined) throw this.#unexpectedCall(request, { call, entry });
    if (this.#strict) this.#played.add(source);
    return typeof source === "function" ? source(request) : source;
  }

  #unexpectedCall(
    request: ModelRequest,
    found: { readonly call: number; readonly entry: MatchedEntry | undefined },
  ): RunError {
    const { runId, skill } = request.run;
    const run = `run ${runId}${skill === undefined ? "" : ` (skill ${skill})`}`;
    const message =
      found.entry === undefined
        ? `The script has no entry for ${run}.`
        : `The script has ${found.entry.steps.length} step(s), and ${run} made call ${found.call + 1}.`;
    if (this.#strict) this.#unexpected.push(message);
    return new RunError("model_protocol", {
      message,
      details: { reason: found.entry === undefined ? "no_script" : "script_ended" },
    });
  }
}

function isEntryList(
  script: readonly ScriptStepSource[] | readonly ModelScriptEntry[],
): script is readonly ModelScriptEntry[] {
  const first = script[0];
  return first !== undefined && typeof first === "object" && "steps" in first;
}

/** Assistant messages since the last user message: what an earlier run said in the same conversation does not count. */
function cursorOf(request: ModelRequest): number {
  let cursor = 0;
  for (let index = request.messages.length - 1; index >= 0; index--) {
    const role = request.messages[index]?.role;
    if (role === "user") break;
    if (role === "assistant") cursor++;
  }
  return cursor;
}

function matcherOf(when: ModelScriptEntry["when"]): (request: ModelRequest) => boolean {
  const satisfies = when?.query === undefined ? undefined : parseQueryCondition(when.query);
  return ({ run }) => {
    if (when?.skill !== undefined && when.skill !== run.skill) return false;
    return satisfies === undefined || satisfies(run.query);
  };
}

/** The text in pieces of a word and the white space after it; together they are the text. */
function words(text: string): readonly string[] {
  return text.toWellFormed().match(/\s*\S+\s?|\s+/gu) ?? [];
}

function completionOf(step: ScriptStep, text: string, request: ModelRequest): ModelCompletion {
  const toolCalls = (step.toolCalls ?? []).map((call) => ({
    name: call.name,
    arguments: (typeof call.arguments === "string" ? call.arguments : JSON.stringify(call.arguments)).toWellFormed(),
  }));
  const answer = { text: text.toWellFormed(), toolCalls };
  const usage: ModelUsage = {
    inputTokens: Math.ceil(requestBytes(request) / BYTES_PER_TOKEN),
    cachedInputTokens: 0,
    outputTokens: Math.ceil(answerBytes(answer) / BYTES_PER_TOKEN),
    reasoningTokens: 0,
    estimated: false,
    ...step.usage,
  };
  return { ...answer, finishReason: step.finishReason ?? (toolCalls.length > 0 ? "tool_calls" : "stop"), usage };
}
