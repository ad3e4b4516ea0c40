import { describe, test } from "vitest";
import {
  modelConformance,
  type ConformanceAnswer,
  type ConformanceModel,
} from "../../../src/testing/model-conformance.ts";
import { createChatModel } from "../../../src/worker/model/chat.ts";
import { ScriptedModel } from "../../../src/worker/model/scripted.ts";
import { ChatServer, chunk, fragment, usageChunk, type ChatScript } from "../../support/chat-server.ts";

describe("the scripted model keeps the rules of the port:", () => {
  modelConformance({
    test,
    makeModel: (answers) => ({
      model: new ScriptedModel(
        answers.map(({ then, ...step }) => ({
          ...step,
          ...(then === "silence" ? { waitForAbort: true as const } : {}),
          ...(then === "break" ? { error: "model_unavailable" as const } : {}),
        })),
      ),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    }),
  });
});

describe("the chat model keeps the rules of the port:", () => {
  modelConformance({ test, makeModel: startChat });
});

describe("the chat model over another fetch keeps the rules of the port:", () => {
  modelConformance({ test, makeModel: (answers) => startChat(answers, globalThis.fetch) });
});

async function startChat(
  answers: readonly ConformanceAnswer[],
  fetch?: typeof globalThis.fetch,
): Promise<ConformanceModel> {
  const server = await ChatServer.start(...answers.map(toScript));
  const model = createChatModel({ baseUrl: server.baseUrl, ...(fetch === undefined ? {} : { fetch }) });
  return { model, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function toScript(answer: ConformanceAnswer): ChatScript {
  return async (exchange) => {
    for (const piece of answer.text?.match(/[\s\S]{1,40}/gu) ?? []) await exchange.events(chunk({ content: piece }));
    if (answer.then === "silence") return void exchange.write(": still here\n\n");
    if (answer.then === "break") return exchange.reset();
    const calls = answer.toolCalls ?? [];
    for (const [index, call] of calls.entries()) {
      await exchange.events(
        chunk({ tool_calls: [fragment({ index, id: `call_${index}`, name: call.name, arguments: "" })] }),
        ...Array.from(call.arguments, (letter) => chunk({ tool_calls: [fragment({ index, arguments: letter })] })),
      );
    }
    await exchange.events(
      chunk({}, answer.finishReason ?? (calls.length > 0 ? "tool_calls" : "stop")),
      usageChunk(),
      "[DONE]",
    );
    exchange.end();
  };
}
