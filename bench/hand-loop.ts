import type OpenAI from "openai";
import { INPUT_SCHEMA, lookUp, QUESTION, SYSTEM_TEXT, TOOL_DESCRIPTION, TOOL_NAME } from "./work.ts";

type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;

interface Turn {
  readonly text: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
}

/** What the loop tells of, in the words of the run events. Waited for, where it returns a promise. */
export type Emit = (event: { readonly type: string; readonly data: object }) => Promise<unknown> | undefined;

const TOOLS = [
  {
    type: "function" as const,
    function: { name: TOOL_NAME, description: TOOL_DESCRIPTION, parameters: { ...INPUT_SCHEMA } },
  },
];

/**
 * The baseline: the loop that one writes by hand on the `openai` client, streaming. No limits, no checks, no records.
 *
 * @returns The final text and the number of tool calls.
 */
export async function runHandLoop(
  client: OpenAI,
  emit: Emit,
): Promise<{ readonly text: string; readonly toolCalls: number }> {
  const messages: Message[] = [
    { role: "system", content: SYSTEM_TEXT },
    { role: "user", content: QUESTION },
  ];
  let toolCalls = 0;
  for (let turn = 1; ; turn++) {
    await emit({ type: "model.started", data: { turn } });
    const { text, calls } = await streamTurn(client, messages, (piece) =>
      emit({ type: "model.delta", data: { turn, text: piece } }),
    );
    await emit({ type: "model.completed", data: { turn, message: text, toolCalls: calls } });
    if (calls.length === 0) return { text, toolCalls };
    messages.push({
      role: "assistant",
      content: text === "" ? null : text,
      tool_calls: calls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      })),
    });
    for (const call of calls) {
      toolCalls++;
      const args = JSON.parse(call.arguments) as { readonly key: string }; // the fake server's
      await emit({ type: "tool.call", data: { callId: call.id, arguments: args } });
      const output = JSON.stringify(lookUp(args.key));
      await emit({ type: "tool.result", data: { callId: call.id, output } });
      messages.push({ role: "tool", tool_call_id: call.id, content: output });
    }
  }
}

async function streamTurn(
  client: OpenAI,
  messages: readonly Message[],
  onText: (text: string) => Promise<unknown> | undefined,
): Promise<Turn> {
  const stream = await client.chat.completions.create({
    model: "fake",
    messages: [...messages],
    tools: TOOLS,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  const calls: { id: string; name: string; arguments: string }[] = [];
  for await (const chunk of stream) {
    const delta = chunk.choices[0]?.delta;
    if (delta === undefined) continue;
    if (typeof delta.content === "string" && delta.content !== "") {
      text += delta.content;
      await onText(delta.content);
    }
    for (const fragment of delta.tool_calls ?? []) {
      const call = (calls[fragment.index] ??= { id: "", name: "", arguments: "" });
      call.id += fragment.id ?? "";
      call.name += fragment.function?.name ?? "";
      call.arguments += fragment.function?.arguments ?? "";
    }
  }
  return { text, calls };
}
