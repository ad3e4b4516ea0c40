import type OpenAI from "openai";
import { systemClock, type Clock } from "../../shared/clock.ts";
import { ChatDeadlines, type ChatTimeouts } from "./chat-deadlines.ts";
import { connectionLost, failureOf, hasStatus, withUsage, type ChatFailure } from "./chat-errors.ts";
import { toChatBody, type ChatBody, type MaxTokensField } from "./chat-request.ts";
import { ChatStreamDecoder } from "./chat-stream.ts";
import { createHttpFetch, type BodyReader } from "./http-fetch.ts";
import type { Model, ModelRequest, ModelStreamItem } from "./model.ts";
import { wait } from "./wait.ts";

/** Milliseconds that a connection may take to end after the answer has, to be used again. */
const DRAIN_MS = 1_000;
/** The client's own timeout never fires: the deadlines are ours. */
const MAX_CLIENT_TIMEOUT_MS = 2_147_483_647;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;

export interface ChatModelOptions {
  /** Up to and without `/chat/completions`. */
  readonly baseUrl: string;
  /** Asked once, at the first call; what it throws ends that call, and the next one asks again. Absent: no `Authorization` is sent. */
  readonly apiKey?: () => string;
  /** Default: `max_completion_tokens` for OpenAI's and Azure's hosts, `max_tokens` for all others. */
  readonly maxTokensField?: MaxTokensField;
  /** Until the response's headers. Default 30,000. */
  readonly connectTimeoutMs?: number;
  /** Longest silence within a response, comments count as life. Default 60,000. */
  readonly idleTimeoutMs?: number;
  /** One call with its retries. Default 600,000. */
  readonly totalTimeoutMs?: number;
  /** Times a request is sent again, before any of its answer has come. Default 2. */
  readonly maxRetries?: number;
  /** The longest `Retry-After` that is waited out within a call; a longer one ends it. Default 60,000. */
  readonly maxRetryAfterMs?: number;
  readonly clock?: Clock;
  /** For jitter: 0 ≤ x < 1. */
  readonly random?: () => number;
  /** Sends the client's requests. Default: kept-alive connections of node:http. */
  readonly fetch?: typeof fetch;
}

/**
 * A model behind an OpenAI-compatible Chat Completions server.
 *
 * `model_unavailable` has `details.reason`: `connect_timeout`, `idle_timeout`, `total_timeout`, `connection_lost`,
 * `rate_limited`, `server_error` or `http_<status>`; `permanent: true` where sending it again is no use. After the answer
 * has begun, `details.usage` says what has probably been used.
 */
export function createChatModel(options: ChatModelOptions): Model {
  return new ChatModel(options);
}

interface Connection {
  readonly client: OpenAI;
  readonly secret: string | undefined;
}

class ChatModel implements Model {
  readonly #options: ChatModelOptions;
  readonly #timeouts: ChatTimeouts;
  readonly #clock: Clock;
  readonly #maxTokensField: MaxTokensField;
  #connection: Promise<Connection> | undefined;

  constructor(options: ChatModelOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#maxTokensField = options.maxTokensField ?? maxTokensFieldOf(options.baseUrl);
    this.#timeouts = {
      connectTimeoutMs: options.connectTimeoutMs ?? 30_000,
      idleTimeoutMs: options.idleTimeoutMs ?? 60_000,
      totalTimeoutMs: options.totalTimeoutMs ?? 600_000,
    };
  }

  async *stream(
    request: ModelRequest,
    { signal }: { readonly signal: AbortSignal },
  ): AsyncGenerator<ModelStreamItem, void, void> {
    signal.throwIfAborted();
    const { client, secret } = await this.#connect();
    const body = toChatBody(request, { maxTokensField: this.#maxTokensField });
    const deadlines = new ChatDeadlines(this.#timeouts, this.#clock, signal);
    let reader: BodyReader | undefined;
    try {
      for (let attempt = 1; ; attempt++) {
        const decoder = new ChatStreamDecoder(request, secret);
        try {
          reader = await open(client, body, deadlines);
          while (!decoder.done) {
            deadlines.beginRead();
            const bytes = await readNext(reader, decoder);
            deadlines.rest();
            deadlines.throwIfOver();
            if (bytes === undefined) break;
            const text = decoder.feed(bytes);
            if (text !== "") yield { kind: "delta", text };
          }
          const { rest, completion } = decoder.finish();
          deadlines.close();
          letGo(reader, this.#clock);
          reader = undefined;
          if (rest !== "") yield { kind: "delta", text: rest };
          yield { kind: "completed", completion };
          return;
        } catch (error) {
          reader?.cancel().catch(() => undefined);
          reader = undefined;
          deadlines.throwIfAborted();
          const failure = deadlines.expiry ?? failureOf(error, { secret, now: this.#clock.now() });
          if (decoder.begun) throw withUsage(failure.error, decoder.usageSoFar());
          await this.#beforeRetry(failure, attempt, deadlines);
        }
      }
    } finally {
      deadlines.close();
      reader?.cancel().catch(() => undefined);
    }
  }

  /** Waits until the request may be sent again. @throws What ends the call. */
  async #beforeRetry(failure: ChatFailure, attempt: number, deadlines: ChatDeadlines): Promise<void> {
    const { maxRetries = 2, maxRetryAfterMs = 60_000 } = this.#options;
    if (!failure.retry || attempt > maxRetries) throw failure.error;
    const delayMs = failure.retryAfterMs ?? this.#backoffMs(attempt);
    if (delayMs > maxRetryAfterMs || delayMs >= deadlines.leftMs) throw failure.error;
    await wait(this.#clock, delayMs, deadlines.signal);
  }

  /** Doubles with each attempt; 75 to 100 % of it, at random. */
  #backoffMs(attempt: number): number {
    const random = this.#options.random ?? Math.random;
    return Math.min(FIRST_BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS) * (1 - 0.25 * random());
  }

  #connect(): Promise<Connection> {
    this.#connection ??= this.#load().catch((error: unknown) => {
      this.#connection = undefined;
      throw error;
    });
    return this.#connection;
  }

  async #load(): Promise<Connection> {
    const secret = this.#options.apiKey?.();
    const { OpenAI: Client } = await import("openai");
    // Everything that the client would otherwise take from the process's environment is given.
    const client = new Client({
      apiKey: secret ?? "none",
      baseURL: this.#options.baseUrl,
      organization: null,
      project: null,
      adminAPIKey: null,
      webhookSecret: null,
      logLevel: "off",
      maxRetries: 0,
      timeout: MAX_CLIENT_TIMEOUT_MS,
      fetch: this.#options.fetch ?? createHttpFetch(),
      ...(secret === undefined ? { defaultHeaders: { authorization: null } } : {}),
    });
    return { client, secret };
  }
}

/** Sends the request and waits for the headers of a good response. */
async function open(client: OpenAI, body: ChatBody, deadlines: ChatDeadlines): Promise<BodyReader> {
  deadlines.beginConnect();
  try {
    const response = await client.chat.completions.create(body, { signal: deadlines.signal }).asResponse();
    if (response.body === null) throw connectionLost(undefined);
    return response.body.getReader();
  } catch (error) {
    throw hasStatus(error) ? error : connectionLost(error);
  } finally {
    deadlines.rest();
  }
}

/** @returns Undefined at the end; a connection that breaks after the whole answer has come is an end too. */
async function readNext(reader: BodyReader, decoder: ChatStreamDecoder): Promise<Uint8Array | undefined> {
  try {
    const { value } = await reader.read();
    return value;
  } catch (error) {
    if (decoder.whole) return undefined;
    throw connectionLost(error);
  }
}

/** Lets the connection come to its end, so that the next call can use it again; or closes it. */
function letGo(reader: BodyReader, clock: Clock): void {
  const cancelTimer = clock.after(DRAIN_MS, () => void reader.cancel().catch(() => undefined));
  void drain(reader)
    .catch(() => undefined)
    .finally(cancelTimer);
}

async function drain(reader: BodyReader): Promise<void> {
  while (!(await reader.read()).done);
}

function maxTokensFieldOf(baseUrl: string): MaxTokensField {
  const host = URL.parse(baseUrl)?.hostname ?? "";
  return host === "api.openai.com" || host.endsWith(".openai.azure.com") ? "max_completion_tokens" : "max_tokens";
}
