import { RunError } from "../../shared/errors.ts";
import { estimateTokens } from "../../shared/token-estimate.ts";
import type { ModelCompletion, ModelRequest, ModelUsage } from "./model.ts";

/** UTF-8 bytes of everything in a request that a provider counts as input: messages and tools. */
export function requestBytes(request: Pick<ModelRequest, "messages" | "tools">): number {
  let bytes = 0;
  for (const message of request.messages) {
    bytes += Buffer.byteLength(message.text);
    if (message.role === "assistant") bytes += callBytes(message.toolCalls);
  }
  for (const tool of request.tools) {
    bytes += Buffer.byteLength(tool.name) + Buffer.byteLength(tool.description);
    bytes += Buffer.byteLength(JSON.stringify(tool.inputSchema));
  }
  return bytes;
}

/** UTF-8 bytes of everything in an answer that a provider counts as output: text and calls. */
export function answerBytes(answer: Pick<ModelCompletion, "text" | "toolCalls">): number {
  return Buffer.byteLength(answer.text) + callBytes(answer.toolCalls);
}

/** Usage where the provider gave none that can be believed; marked as estimated. */
export function estimateUsage(
  request: Pick<ModelRequest, "messages" | "tools">,
  answer: Pick<ModelCompletion, "text" | "toolCalls">,
): ModelUsage {
  return {
    inputTokens: estimateTokens(requestBytes(request)),
    cachedInputTokens: 0,
    outputTokens: estimateTokens(answerBytes(answer)),
    reasoningTokens: 0,
    estimated: true,
  };
}

/** The usage that an adapter found out about a call which then broke off; undefined where it says none. */
export function usageOfFailure(error: unknown): ModelUsage | undefined {
  const usage = error instanceof RunError ? error.details?.["usage"] : undefined;
  return typeof usage === "object" && usage !== null ? (usage as ModelUsage) : undefined; // only adapters set it
}

function callBytes(calls: ModelCompletion["toolCalls"]): number {
  let bytes = 0;
  for (const call of calls) bytes += Buffer.byteLength(call.name) + Buffer.byteLength(call.arguments);
  return bytes;
}
