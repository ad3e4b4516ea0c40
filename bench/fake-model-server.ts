/**
 * A Chat Completions server that answers at once, in a process of its own: what it costs is in no figure.
 *
 * The number of tool results in the request says which turn it is. Each event is a write, and so a chunk, of its own.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { servePeer } from "./peer.ts";
import { ANSWER_PIECES, KEYS, TOOL_NAME } from "./work.ts";

export interface ModelServerReady {
  readonly baseUrl: string;
}

const TOOL_RESULT = '"role":"tool"';

function event(choices: readonly unknown[], more: object = {}): Buffer {
  const chunk = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "fake", choices, ...more };
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
}

function choice(delta: object, reason: string | null = null): Buffer {
  return event([{ index: 0, delta, finish_reason: reason }]);
}

const END: readonly Buffer[] = [
  event([], { usage: { prompt_tokens: 120, completion_tokens: 60, total_tokens: 180 } }),
  Buffer.from("data: [DONE]\n\n"),
];

function toolCallEvents(key: string, turn: number): readonly Buffer[] {
  const piece = (fragment: object): Buffer => choice({ tool_calls: [{ index: 0, ...fragment }] });
  return [
    choice({ role: "assistant", content: null }),
    piece({ id: `call_${turn}`, type: "function", function: { name: TOOL_NAME, arguments: "" } }),
    piece({ function: { arguments: '{"key":' } }),
    piece({ function: { arguments: `${JSON.stringify(key)}}` } }),
    choice({}, "tool_calls"),
    ...END,
  ];
}

const answerEvents: readonly Buffer[] = [
  choice({ role: "assistant", content: "" }),
  ...ANSWER_PIECES.map((content) => choice({ content })),
  choice({}, "stop"),
  ...END,
];
const turns: readonly (readonly Buffer[])[] = [...KEYS.map(toolCallEvents), answerEvents];

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const turn = Buffer.concat(parts).toString("latin1").split(TOOL_RESULT).length - 1;
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const bytes of turns[turn] ?? answerEvents) response.write(bytes);
    response.end();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const ready: ModelServerReady = { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` };
  servePeer(ready, () => Promise.resolve());
});
