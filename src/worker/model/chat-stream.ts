/**
 * Decodes the event stream of one Chat Completions answer.
 *
 * D1 All text that `feed` has returned, and `rest`, joined, is the completion's text, in well-formed Unicode.
 * D2 `finish` gives a completion only for an answer that named its finish reason.
 * D3 What it holds is bounded, whatever a server sends.
 */
import { StringDecoder } from "node:string_decoder";
import { createParser, type EventSourceParser } from "eventsource-parser";
import { RunError } from "../../shared/errors.ts";
import { protocolError, providerFailure, readProviderError, scrub } from "./chat-errors.ts";
import { ToolCallAssembly } from "./chat-tool-calls.ts";
import { readUsage } from "./chat-usage.ts";
import type { FinishReason, ModelCompletion, ModelRequest, ModelUsage } from "./model.ts";
import { estimateUsage } from "./token-estimate.ts";

/** Most UTF-8 bytes of text in one answer. */
export const MAX_TEXT_BYTES = 10_000_000;
const MAX_STREAM_BYTES = 64_000_000;
const MAX_EVENT_CHARACTERS = 16_000_000;
const END = "[DONE]";
const FINISH_REASONS: ReadonlySet<string> = new Set<FinishReason>(["stop", "tool_calls", "length", "content_filter"]);

export class ChatStreamDecoder {
  readonly #request: ModelRequest;
  readonly #secret: string | undefined;
  readonly #bytesToText = new StringDecoder("utf8");
  readonly #parser: EventSourceParser;
  readonly #calls = new ToolCallAssembly();
  #streamBytes = 0;
  #events = 0;
  #fresh = "";
  #text = "";
  #textBytes = 0;
  #refusal = "";
  #finishReason: string | undefined;
  #usage: unknown;
  #done = false;

  /** @param secret The key, to be kept out of what the provider says. */
  constructor(request: ModelRequest, secret: string | undefined) {
    this.#request = request;
    this.#secret = secret;
    this.#parser = createParser({
      maxBufferSize: MAX_EVENT_CHARACTERS,
      onEvent: (event) => this.#onEvent(event.data),
      onError: (error) => {
        if (error.type === "max-buffer-size-exceeded") throw protocolError("event_too_large");
      },
    });
  }

  /** The server said that the stream is over. */
  get done(): boolean {
    return this.#done;
  }

  /** Any part of the answer has come: sending the request again would pay for it twice. */
  get begun(): boolean {
    return this.#events > 0;
  }

  /** The answer named its finish reason: nothing of it is missing. */
  get whole(): boolean {
    return this.#finishReason !== undefined;
  }

  /**
   * Takes the bytes of one network read.
   *
   * @returns The text in all events that they complete; empty where there is none.
   * @throws {RunError} `model_protocol`, `model_refused`, or what an error inside the stream means.
   */
  feed(bytes: Uint8Array): string {
    this.#streamBytes += bytes.length;
    if (this.#streamBytes > MAX_STREAM_BYTES) throw protocolError("stream_too_large", { maxBytes: MAX_STREAM_BYTES });
    this.#parser.feed(this.#bytesToText.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)));
    return this.#takeText();
  }

  /**
   * Ends the answer.
   *
   * @returns The completion, and the text that no `feed` has returned.
   * @throws {RunError} `model_protocol` for an answer that is not whole, `model_refused` for a refusal.
   */
  finish(): { readonly rest: string; readonly completion: ModelCompletion } {
    const finishReason = this.#finishReason;
    if (finishReason === undefined) throw protocolError("no_finish_reason");
    if (!isFinishReason(finishReason))
      throw protocolError("unknown_finish_reason", { finishReason: scrub(finishReason, this.#secret) });
    if (this.#refusal !== "") throw this.#refused("refusal", { providerMessage: scrub(this.#refusal, this.#secret) });
    if (finishReason === "content_filter") throw this.#refused("content_filter");
    const rest = this.#fresh.toWellFormed();
    this.#fresh = "";
    this.#text += rest;
    const cut = finishReason === "length";
    const toolCalls = this.#calls.finish({ cut });
    if (finishReason === "tool_calls" && toolCalls.length === 0) throw protocolError("tool_calls_missing");
    const completion: ModelCompletion = {
      text: this.#text,
      toolCalls,
      // Some servers say "stop" although there are calls.
      finishReason: toolCalls.length > 0 && !cut ? "tool_calls" : finishReason,
      usage: this.usageSoFar(),
    };
    return { rest, completion };
  }

  /** The provider's figures where it sent believable ones; otherwise an estimate of what has come. */
  usageSoFar(): ModelUsage {
    const answered = this.#text !== "" || this.#calls.size > 0;
    const given = this.#usage === undefined ? undefined : readUsage(this.#usage, { answered });
    return (
      given ??
      estimateUsage(this.#request, { text: this.#text + this.#fresh, toolCalls: this.#calls.finish({ cut: true }) })
    );
  }

  #refused(reason: string, details: Readonly<Record<string, unknown>> = {}): RunError {
    return new RunError("model_refused", { details: { reason, ...details, usage: this.usageSoFar() } });
  }

  #takeText(): string {
    if (this.#fresh === "") return "";
    // The second half of a surrogate pair may come with the next event.
    const half = isHighSurrogate(this.#fresh.charCodeAt(this.#fresh.length - 1));
    const text = (half ? this.#fresh.slice(0, -1) : this.#fresh).toWellFormed();
    this.#fresh = half ? this.#fresh.slice(-1) : "";
    this.#text += text;
    return text;
  }

  #onEvent(data: string): void {
    if (this.#done) return;
    if (data.startsWith(END)) {
      this.#done = true;
      return;
    }
    const chunk = parseChunk(data);
    if (chunk["error"] !== undefined && chunk["error"] !== null) {
      throw providerFailure(readProviderError(chunk["error"]), this.#secret).error;
    }
    this.#events++;
    if (chunk["usage"] !== undefined && chunk["usage"] !== null) this.#usage = chunk["usage"];
    const choices = chunk["choices"];
    if (!Array.isArray(choices)) return;
    for (const choice of choices as readonly unknown[]) {
      if (isRecord(choice) && (choice["index"] ?? 0) === 0) this.#onChoice(choice);
    }
  }

  #onChoice(choice: Readonly<Record<string, unknown>>): void {
    const delta = choice["delta"];
    if (isRecord(delta)) {
      this.#onText(delta["content"]);
      if (typeof delta["refusal"] === "string")
        this.#refusal = (this.#refusal + delta["refusal"]).slice(0, MAX_EVENT_CHARACTERS);
      if (Array.isArray(delta["tool_calls"])) for (const fragment of delta["tool_calls"]) this.#calls.add(fragment);
      if (isRecord(delta["function_call"])) throw protocolError("function_call");
    }
    const reason = choice["finish_reason"];
    if (typeof reason === "string" && reason !== "") this.#finishReason ??= reason;
  }

  #onText(content: unknown): void {
    if (content === undefined || content === null || content === "") return;
    if (typeof content !== "string") throw protocolError("content_shape");
    this.#fresh += content;
    this.#textBytes += Buffer.byteLength(content);
    if (this.#textBytes > MAX_TEXT_BYTES) throw protocolError("text_too_large", { maxBytes: MAX_TEXT_BYTES });
  }
}

function parseChunk(data: string): Readonly<Record<string, unknown>> {
  let chunk: unknown;
  try {
    chunk = JSON.parse(data);
  } catch {
    throw protocolError("event_not_json");
  }
  if (!isRecord(chunk)) throw protocolError("event_shape");
  return chunk;
}

function isFinishReason(reason: string): reason is FinishReason {
  return FINISH_REASONS.has(reason);
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
