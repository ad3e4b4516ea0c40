/**
 * The port to a model. An adapter turns one request into a stream of text and one completion.
 *
 * Rules that every adapter keeps (the conformance suite checks them):
 * M1 The stream ends with exactly one `completed`, or throws. It never ends silently.
 * M2 After `signal` aborts, the stream settles within a second and throws the signal's reason.
 * M3 A stream that was cut, stalled or broke its protocol throws a `RunError`
 *    (`model_unavailable`, `model_refused`, `model_protocol`); nothing half-made is passed on as whole.
 * M4 Usage is the provider's; where there is none, it is estimated and marked so.
 */

export interface ModelTool {
  /** Model-visible name, `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface ModelToolCall {
  /** Ours (`t<turn>c<index>`). The provider's own ids never leave the adapter. */
  readonly callId: string;
  readonly name: string;
  /** As the model wrote them: JSON text, or what was meant to be. */
  readonly arguments: string;
}

export type ModelMessage =
  | { readonly role: "system" | "user"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly toolCalls: readonly ModelToolCall[] }
  | { readonly role: "tool"; readonly callId: string; readonly text: string };

export interface ModelRequest {
  /** The provider's name of the model. */
  readonly model: string;
  readonly messages: readonly ModelMessage[];
  readonly tools: readonly ModelTool[];
  /** Upper bound for this answer, in tokens. */
  readonly maxOutputTokens?: number;
  /** The final text must be JSON of this schema. Advice for the provider: the executor checks again. */
  readonly responseSchema?: Readonly<Record<string, unknown>>;
  /** What the run is about, for adapters that answer by script. Never sent to a provider. */
  readonly run: { readonly runId: string; readonly turn: number; readonly query: string; readonly skill?: string };
}

export interface ModelUsage {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  /** True: the provider sent none, these are our figures. */
  readonly estimated: boolean;
}

/** `length`: the answer was cut at a token limit; calls in it may be half. */
export type FinishReason = "stop" | "tool_calls" | "length" | "content_filter";

export interface ModelCompletion {
  readonly text: string;
  /** Without `callId`: the executor numbers them. In the order the model gave them. */
  readonly toolCalls: readonly { readonly name: string; readonly arguments: string }[];
  readonly finishReason: FinishReason;
  readonly usage: ModelUsage;
}

export type ModelStreamItem =
  | { readonly kind: "delta"; readonly text: string }
  | { readonly kind: "completed"; readonly completion: ModelCompletion };

export interface Model {
  /**
   * Sends one request. Retries inside the adapter happen only before the first item.
   *
   * @throws {RunError} `model_unavailable`, `model_refused`, `model_protocol`; or `signal.reason` after an abort.
   */
  stream(request: ModelRequest, options: { readonly signal: AbortSignal }): AsyncIterable<ModelStreamItem>;
}

/** USD for a million tokens of each kind. */
export interface ModelPrice {
  readonly input: number;
  readonly cachedInput: number;
  readonly output: number;
}

/** A configured way to a model. */
export interface ModelRoute {
  readonly id: string;
  /** The model's name where a request names only the route. */
  readonly model: string;
  readonly adapter: Model;
  readonly maxOutputTokens?: number;
  readonly contextTokens?: number;
  readonly pricePerMillion?: ModelPrice;
}

/** The routes of a process. Built once; adapters load their client at first use. */
export interface ModelRouter {
  /** Every configured route. */
  readonly routes: readonly ModelRoute[];
  /**
   * @param name A route id, `<route>:<model>`, or undefined for the default route.
   * @throws {RunError} `unknown_model`.
   */
  resolve(name: string | undefined): { readonly route: ModelRoute; readonly model: string };
}
