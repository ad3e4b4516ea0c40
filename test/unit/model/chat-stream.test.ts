import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { RunError } from "../../../src/shared/errors.ts";
import { ChatStreamDecoder } from "../../../src/worker/model/chat-stream.ts";
import type { ModelCompletion } from "../../../src/worker/model/model.ts";
import { chunk, event, fragment, usageChunk } from "../../support/chat-server.ts";
import { modelRequest } from "../../support/model-calls.ts";

const STOP = chunk({}, "stop");

interface Decoded {
  readonly deltas: readonly string[];
  readonly completion: ModelCompletion;
}

/** Decodes a stream given in pieces; checks on the way that the deltas are the text. */
function decodeBytes(...pieces: readonly Uint8Array[]): Decoded {
  const decoder = new ChatStreamDecoder(modelRequest(), "sk-the-key");
  const deltas = pieces.map((piece) => decoder.feed(piece));
  const { rest, completion } = decoder.finish();
  expect([...deltas, rest].join("")).toBe(completion.text);
  return { deltas: [...deltas, rest].filter((text) => text !== ""), completion };
}

function decodeText(text: string): Decoded {
  return decodeBytes(Buffer.from(text));
}

function decode(...values: readonly unknown[]): Decoded {
  return decodeText([...values, "[DONE]"].map(event).join(""));
}

function failure(...values: readonly unknown[]): readonly unknown[] {
  try {
    decode(...values);
  } catch (error) {
    if (error instanceof RunError) return [error.code, error.details?.["reason"]];
    throw error;
  }
  throw new Error("expected a failure");
}

/** An answer of nothing but these fragments of tool calls, each in an event of its own. */
function calls(...fragments: readonly unknown[]): ModelCompletion["toolCalls"] {
  const { completion } = decode(...fragments.map((part) => chunk({ tool_calls: [part] })), chunk({}, "tool_calls"));
  return completion.toolCalls;
}

describe("the text of a stream", () => {
  test("is one delta for each network read, however many events are in it", () => {
    const first =
      event(chunk({ role: "assistant", content: "" })) +
      event(chunk({ content: "a" })) +
      event(chunk({ content: "b" }));
    const second = event(chunk({ content: "c" })) + event(STOP);
    expect(decodeBytes(Buffer.from(first), Buffer.from(second)).deltas).toEqual(["ab", "c"]);
  });

  test("is the same however the bytes are cut", () => {
    const bytes = Buffer.from(
      [
        ": hi\n\n",
        event(chunk({ content: "naïve 😀 " })),
        event(chunk({ content: "日本語" })),
        event(STOP),
        event(usageChunk()),
      ].join(""),
    );
    const whole = decodeBytes(bytes).completion;
    expect(whole.text).toBe("naïve 😀 日本語");
    expect(decodeBytes(...Array.from(bytes, (byte) => Uint8Array.of(byte))).completion).toEqual(whole);
    fc.assert(
      fc.property(fc.array(fc.nat(bytes.length), { maxLength: 8 }), (cuts) => {
        const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
        const pieces = edges.slice(1).map((end, index) => bytes.subarray(edges[index], end));
        expect(decodeBytes(...pieces).completion).toEqual(whole);
      }),
    );
  });

  test.each([
    ["CRLF", "\r\n"],
    ["CR", "\r"],
  ])("may have its lines ended by %s, with comments, ids and event names between", (_name, lineEnd) => {
    const before = [": ping", "", "id: 7", "event: message", "retry: 10"];
    const data = [`data: ${JSON.stringify(chunk({ content: "a" }))}`, "", `data:${JSON.stringify(STOP)}`, ""];
    const lines = [...before, ...data, ":", "", "data: [DONE]", "", ""];
    expect(decodeText(lines.join(lineEnd)).completion.text).toBe("a");
  });

  test("may spread one event over several data lines", () => {
    const json = JSON.stringify(chunk({ content: "a" }, "stop"), null, 1);
    expect(decodeText(`data: ${json.replaceAll("\n", "\ndata: ")}\n\n`).completion.text).toBe("a");
  });

  test("keeps a surrogate pair that two events share, and replaces a lone half", () => {
    const { deltas, completion } = decodeBytes(
      Buffer.from(event(chunk({ content: "a\ud83d" }))),
      Buffer.from(event(chunk({ content: "\ude00b\udc00" }))),
      Buffer.from(event(chunk({ content: "c\ud83d" })) + event(STOP)),
    );
    expect(deltas).toEqual(["a", "😀b\ufffd", "c", "\ufffd"]);
    expect(completion.text).toBe("a😀b\ufffdc\ufffd");
  });

  test("replaces bytes that are not UTF-8", () => {
    const [before, after] = event(chunk({ content: "a|b" }, "stop")).split("|");
    expect(decodeBytes(Buffer.from(before ?? ""), Uint8Array.of(0xff), Buffer.from(after ?? "")).completion.text).toBe(
      "a\ufffdb",
    );
  });

  test("is that of the first choice only", () => {
    const two = {
      choices: [
        { index: 1, delta: { content: "B" }, finish_reason: "length" },
        { index: 0, delta: { content: "A" }, finish_reason: null },
      ],
    };
    expect(decode(two, STOP).completion).toMatchObject({ text: "A", finishReason: "stop" });
  });

  test("does not hold what the model reasons", () => {
    expect(
      decode(chunk({ reasoning_content: "hm", reasoning: "hm" }), chunk({ content: "A" }, "stop")).completion.text,
    ).toBe("A");
  });

  test("ends at [DONE], whatever follows, and needs no [DONE]", () => {
    expect(decode(chunk({ content: "a" }, "stop"), "[DONE]", chunk({ content: "more" })).completion.text).toBe("a");
    expect(decodeText(event(chunk({ content: "a" }, "stop"))).completion.text).toBe("a");
  });
});

describe("an answer is refused", () => {
  test.each([
    ["without a finish reason", [chunk({ content: "half" })], ["model_protocol", "no_finish_reason"]],
    ["without any event", [], ["model_protocol", "no_finish_reason"]],
    ["with a finish reason that nobody knows", [chunk({}, "weird")], ["model_protocol", "unknown_finish_reason"]],
    ["that says tool_calls and has none", [chunk({}, "tool_calls")], ["model_protocol", "tool_calls_missing"]],
    ["that is not JSON", ["{half"], ["model_protocol", "event_not_json"]],
    ["that is no object", [7], ["model_protocol", "event_shape"]],
    ["whose text is no text", [chunk({ content: [{ type: "text", text: "a" }] })], ["model_protocol", "content_shape"]],
    [
      "with a call in the form of long ago",
      [chunk({ function_call: { name: "look" } })],
      ["model_protocol", "function_call"],
    ],
    [
      "with a call of no name",
      [chunk({ tool_calls: [fragment({ index: 0, id: "a" })] }, "tool_calls")],
      ["model_protocol", "tool_call_without_name"],
    ],
    ["with a call that is no object", [chunk({ tool_calls: ["look"] })], ["model_protocol", "tool_call_shape"]],
    ["that was filtered", [chunk({ content: "ba" }), chunk({}, "content_filter")], ["model_refused", "content_filter"]],
    [
      "that is a refusal",
      [chunk({ refusal: "I can" }), chunk({ refusal: "not." }), STOP],
      ["model_refused", "refusal"],
    ],
    [
      "with an error in the stream",
      [chunk({ content: "a" }), { error: { message: "overloaded", code: 503 } }],
      ["model_unavailable", "server_error"],
    ],
    [
      "with a content error in the stream",
      [{ error: { message: "no", code: "content_filter" } }],
      ["model_refused", "content_policy"],
    ],
  ])("%s", (_name, values, expected) => {
    expect(failure(...values)).toEqual(expected);
  });

  test("when its text is larger than 10 MB", () => {
    const megabyte = chunk({ content: "x".repeat(1_000_000) });
    expect(failure(...Array.from({ length: 11 }, () => megabyte))).toEqual(["model_protocol", "text_too_large"]);
  });

  test("when one event never ends", () => {
    const decoder = new ChatStreamDecoder(modelRequest(), undefined);
    decoder.feed(Buffer.from('data: {"x":"'));
    const piece = Buffer.alloc(1_000_000, "x");
    expect(() => Array.from({ length: 20 }, () => decoder.feed(piece))).toThrow(RunError);
  });

  test("when its comments never end", () => {
    const decoder = new ChatStreamDecoder(modelRequest(), undefined);
    const piece = Buffer.from(`${":".padEnd(999, "x")}\n`.repeat(1000));
    expect(() => Array.from({ length: 70 }, () => decoder.feed(piece))).toThrow(RunError);
  });
});

describe("tool calls", () => {
  test("are put together from their fragments, several at once", () => {
    expect(
      calls(
        fragment({ index: 0, id: "a", name: "look", arguments: "" }),
        fragment({ index: 1, id: "b", name: "sum", arguments: '{"x"' }),
        fragment({ index: 0, arguments: '{"path":' }),
        fragment({ index: 1, arguments: ":1}" }),
        fragment({ index: 0, arguments: '"a"}' }),
      ),
    ).toEqual([
      { name: "look", arguments: '{"path":"a"}' },
      { name: "sum", arguments: '{"x":1}' },
    ]);
  });

  test("are told apart by id where a server gives every fragment index 0", () => {
    expect(
      calls(
        fragment({ index: 0, id: "a", name: "look", arguments: '{"n":' }),
        fragment({ index: 0, id: "b", name: "look", arguments: '{"n":2}' }),
        fragment({ index: 0, id: "a", arguments: "1}" }),
      ),
    ).toEqual([
      { name: "look", arguments: '{"n":1}' },
      { name: "look", arguments: '{"n":2}' },
    ]);
  });

  test("are told apart by index where a server gives two the same id", () => {
    expect(
      calls(
        fragment({ index: 0, id: "a", name: "look", arguments: "{}" }),
        fragment({ index: 1, id: "a", name: "sum", arguments: "{}" }),
      ),
    ).toHaveLength(2);
  });

  test("go on where a server makes up an id for each fragment", () => {
    expect(
      calls(
        fragment({ index: 0, id: "r1", name: "look", arguments: "" }),
        fragment({ index: 0, id: "r2", arguments: '{"n"' }),
        fragment({ index: 0, id: "r3", arguments: ":1}" }),
      ),
    ).toEqual([{ name: "look", arguments: '{"n":1}' }]);
  });

  test("need neither id nor index", () => {
    expect(
      calls(
        fragment({ name: "look", arguments: '{"n":' }),
        fragment({ arguments: "1}" }),
        fragment({ name: "look", arguments: '{"n":2}' }),
        fragment({ name: "sum" }),
      ),
    ).toEqual([
      { name: "look", arguments: '{"n":1}' },
      { name: "look", arguments: '{"n":2}' },
      { name: "sum", arguments: "{}" },
    ]);
  });

  test("are found by their id where a server sends no index", () => {
    expect(
      calls(
        fragment({ id: "a", name: "look", arguments: '{"n":' }),
        fragment({ id: "b", name: "sum", arguments: "{}" }),
        fragment({ id: "a", arguments: "1}" }),
      ),
    ).toEqual([
      { name: "look", arguments: '{"n":1}' },
      { name: "sum", arguments: "{}" },
    ]);
  });

  test("may have their name repeated in each fragment", () => {
    expect(
      calls(
        fragment({ index: 0, name: "look", arguments: '{"a":{}' }),
        fragment({ index: 0, name: "look", arguments: "}" }),
      ),
    ).toEqual([{ name: "look", arguments: '{"a":{}}' }]);
  });

  test("may have an object for their arguments, or nothing", () => {
    expect(
      calls(
        fragment({ index: 0, id: "a", name: "look", arguments: { n: 1 } }),
        fragment({ index: 1, id: "b", name: "sum" }),
      ),
    ).toEqual([
      { name: "look", arguments: '{"n":1}' },
      { name: "sum", arguments: "{}" },
    ]);
  });

  test("count as the reason of the end, also where a server says stop", () => {
    const part = fragment({ index: 0, id: "a", name: "look", arguments: "{}" });
    expect(decode(chunk({ tool_calls: [part] }), STOP).completion.finishReason).toBe("tool_calls");
  });

  test("stay half where the answer was cut, and one without a name is left out", () => {
    const { completion } = decode(
      chunk({ tool_calls: [fragment({ index: 0, id: "a", name: "look", arguments: '{"pa' })] }),
      chunk({ tool_calls: [fragment({ index: 1, id: "b" })] }),
      chunk({}, "length"),
    );
    expect(completion).toMatchObject({ finishReason: "length", toolCalls: [{ name: "look", arguments: '{"pa' }] });
  });

  test("are at most 128, also where a server invents 10,000 ids", () => {
    const call = (index: number): unknown => fragment({ index: 0, id: `id-${index}`, name: "look", arguments: "{}" });
    expect(calls(...Array.from({ length: 128 }, (_, index) => call(index)))).toHaveLength(128);
    expect(failure(...Array.from({ length: 10_000 }, (_, index) => chunk({ tool_calls: [call(index)] })))).toEqual([
      "model_protocol",
      "too_many_tool_calls",
    ]);
  });

  test("have at most 256 KiB of arguments", () => {
    const part = (text: string): unknown => fragment({ index: 0, id: "a", name: "look", arguments: text });
    expect(calls(part("x".repeat(262_144)))[0]?.arguments).toHaveLength(262_144);
    expect(failure(chunk({ tool_calls: [part("ä".repeat(131_073))] }))).toEqual([
      "model_protocol",
      "tool_call_arguments_too_large",
    ]);
  });

  test("cost little work where a server repeats the name before each of many braces", () => {
    const part = fragment({ index: 0, name: "look", arguments: "xxxxxxxxx}" });
    const parts = [
      fragment({ index: 0, name: "look", arguments: '{"a":"' }),
      ...Array.from({ length: 20_000 }, () => part),
    ];
    using parse = vi.spyOn(JSON, "parse");
    expect(calls(...parts)).toEqual([{ name: "look", arguments: expect.stringContaining("x}x") }]);
    expect(parse.mock.calls.length).toBeLessThan(parts.length + 300);
  });
});

describe("the usage of a stream", () => {
  test("is the provider's, from whichever event had it last", () => {
    const early = { ...chunk({ content: "a" }), usage: { prompt_tokens: 9, completion_tokens: 1 } };
    expect(decode(early, STOP, usageChunk()).completion.usage).toMatchObject({
      inputTokens: 20,
      outputTokens: 5,
      estimated: false,
    });
  });

  test.each([
    ["none", []],
    ["null", [{ ...STOP, usage: null }]],
    ["-1", [usageChunk({ prompt_tokens: -1, completion_tokens: -1 })]],
    ["10 to the 15th", [usageChunk({ prompt_tokens: 1e15, completion_tokens: 3 })]],
  ])("is estimated and marked where the provider says %s", (_name, events) => {
    const { usage } = decode(chunk({ content: "1234567" }), STOP, ...events).completion;
    expect(usage).toEqual({
      inputTokens: 4,
      cachedInputTokens: 0,
      outputTokens: 2,
      reasoningTokens: 0,
      estimated: true,
    });
  });

  test("of a refusal is in the error", () => {
    try {
      decode(chunk({ refusal: "My key sk-the-key says no." }), STOP, usageChunk());
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({
        code: "model_refused",
        details: { providerMessage: "My key [removed] says no.", usage: { inputTokens: 20 } },
      });
    }
  });
});
