import type { EventData, RunEvent } from "../contracts/event.ts";
import type { Receipt } from "../contracts/receipt.ts";
import type { Evidence, RunResult, Usage } from "../contracts/result.ts";
import { estimateTokens } from "../token-estimate.ts";

/** What a run's stream says of the attempts so far. */
export interface PastAttempts {
  /** Without costs and sandbox time: the stream does not tell them. */
  readonly usage: Usage;
  readonly receipts: readonly Receipt[];
  /** UTF-8 bytes of assistant text. */
  readonly outputBytes: number;
  /** Epoch ms of `run.started`; undefined where no attempt got so far, and then there is no digest either. */
  readonly startedAt: number | undefined;
  /** Of the catalog that the last attempt ran with. */
  readonly catalogDigest: string | undefined;
  /** The skill that the last attempt ran with. */
  readonly skill: RunResult["skill"];
  /** The last event that was seen; 0 for none. */
  readonly lastSequence: number;
}

/**
 * Folds a run's stream, event by event.
 *
 * A model call without `model.completed` is charged by the estimate that it began with and the text that was seen of it.
 */
export class PastAttemptsFold {
  readonly #receipts: Receipt[] = [];
  readonly #tokens = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0 };
  #turns = 0;
  #toolCalls = 0;
  #estimated = false;
  #outputBytes = 0;
  #startedAt: number | undefined;
  #catalogDigest: string | undefined;
  #skill: RunResult["skill"];
  #lastSequence = 0;
  /** The model call that is open: what it sent, and the bytes of text seen of it. */
  #open: { readonly inputTokens: number; textBytes: number } | undefined;

  get lastSequence(): number {
    return this.#lastSequence;
  }

  add(event: RunEvent): void {
    this.#lastSequence = event.sequence;
    switch (event.type) {
      case "run.started":
        this.#startedAt ??= Date.parse(event.time);
        this.#begin(event.data);
        break;
      case "run.resumed":
        this.#begin(event.data);
        break;
      case "model.started":
        this.#closeOpenCall();
        this.#turns++;
        this.#open = { inputTokens: event.data.inputTokensEstimate ?? 0, textBytes: 0 };
        break;
      case "model.delta":
        if (this.#open !== undefined) this.#open.textBytes += Buffer.byteLength(event.data.text);
        break;
      case "model.completed":
        this.#completeCall(event.data);
        break;
      case "tool.result":
      case "tool.blocked":
        this.#receipts.push(event.data.receipt);
        break;
      default:
        break;
    }
  }

  /** What has been seen so far; a call that is still open then counts as broken off. */
  end(): PastAttempts {
    this.#closeOpenCall();
    return {
      usage: {
        turns: this.#turns,
        modelCalls: this.#turns,
        toolCalls: this.#toolCalls,
        ...this.#tokens,
        totalTokens: this.#tokens.inputTokens + this.#tokens.outputTokens,
        estimated: this.#estimated,
        sandboxMs: 0,
      },
      receipts: [...this.#receipts],
      outputBytes: this.#outputBytes,
      startedAt: this.#startedAt,
      catalogDigest: this.#catalogDigest,
      skill: this.#skill,
      lastSequence: this.#lastSequence,
    };
  }

  #begin(data: Partial<EventData<"run.started">>): void {
    this.#closeOpenCall();
    this.#catalogDigest = data.catalogDigest ?? this.#catalogDigest;
    if (data.skill !== undefined && data.skillDigest !== undefined) {
      this.#skill = { ref: data.skill, digest: data.skillDigest };
    }
  }

  #completeCall(data: EventData<"model.completed">): void {
    this.#open = undefined;
    this.#toolCalls += data.toolCalls.length;
    this.#tokens.inputTokens += data.usage.inputTokens;
    this.#tokens.cachedInputTokens += data.usage.cachedInputTokens;
    this.#tokens.outputTokens += data.usage.outputTokens;
    this.#tokens.reasoningTokens += data.usage.reasoningTokens;
    this.#estimated ||= data.usage.estimated;
    this.#outputBytes += Buffer.byteLength(data.message);
  }

  #closeOpenCall(): void {
    if (this.#open === undefined) return;
    this.#tokens.inputTokens += this.#open.inputTokens;
    this.#tokens.outputTokens += estimateTokens(this.#open.textBytes);
    this.#estimated = true;
    this.#open = undefined;
  }
}

/**
 * What stands behind a run: its skill, each resource that was read, each result that the model was given.
 *
 * A pure function of the receipts and the skill.
 */
export function evidenceOf(receipts: readonly Receipt[], skill: RunResult["skill"]): readonly Evidence[] {
  const evidence: Evidence[] = [];
  if (skill !== undefined) evidence.push({ kind: "skill", ref: skill.ref, digest: skill.digest });
  for (const { callId, capabilityId, resource, resultDigest, status } of receipts) {
    if (status !== "succeeded") continue;
    if (resource === undefined) {
      evidence.push({ kind: "tool_result", callId, capabilityId, digest: resultDigest });
    } else {
      const staged = skill !== undefined && resource.path.startsWith(`/workspace/skills/${skill.ref}/`);
      evidence.push({ kind: "resource", callId, ...resource, ...(staged ? { ref: skill.ref } : {}) });
    }
  }
  return evidence;
}
