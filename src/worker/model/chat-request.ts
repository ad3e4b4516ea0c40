import type OpenAI from "openai";
import type { ModelMessage, ModelRequest } from "./model.ts";
import { strictSchema } from "./strict-schema.ts";

export type ChatBody = OpenAI.Chat.Completions.ChatCompletionCreateParamsStreaming;
export type MaxTokensField = "max_completion_tokens" | "max_tokens";

/** The body of a Chat Completions request. `run` is not part of it. */
export function toChatBody(request: ModelRequest, options: { readonly maxTokensField: MaxTokensField }): ChatBody {
  const schema = request.responseSchema === undefined ? undefined : strictSchema(request.responseSchema);
  return {
    model: request.model,
    messages: request.messages.map(toChatMessage),
    stream: true,
    stream_options: { include_usage: true },
    ...(request.tools.length === 0
      ? {}
      : {
          tools: request.tools.map(({ name, description, inputSchema }) => ({
            type: "function" as const,
            function: { name, description, parameters: { ...inputSchema } },
          })),
        }),
    ...(request.maxOutputTokens === undefined
      ? {}
      : { [options.maxTokensField]: Math.max(1, Math.floor(request.maxOutputTokens)) }),
    ...(schema === undefined
      ? {}
      : {
          response_format: {
            type: "json_schema" as const,
            json_schema: { name: "answer", strict: true, schema: { ...schema } },
          },
        }),
  };
}

function toChatMessage(message: ModelMessage): OpenAI.Chat.Completions.ChatCompletionMessageParam {
  if (message.role === "tool") return { role: "tool", tool_call_id: message.callId, content: message.text };
  if (message.role !== "assistant") return { role: message.role, content: message.text };
  if (message.toolCalls.length === 0) return { role: "assistant", content: message.text };
  return {
    role: "assistant",
    content: message.text === "" ? null : message.text,
    tool_calls: message.toolCalls.map((call) => ({
      id: call.callId,
      type: "function" as const,
      function: { name: call.name, arguments: toSendableArguments(call.arguments) },
    })),
  };
}

/** Servers that read the arguments of earlier calls refuse the whole request where one is not a JSON object. */
function toSendableArguments(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return text;
  } catch {
    // not JSON: sent as what it was
  }
  return JSON.stringify({ invalid: text });
}
