import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readUsage } from "../../../src/worker/model/chat-usage.ts";
import { costMicroUsd } from "../../../src/worker/model/cost.ts";
import { strictSchema } from "../../../src/worker/model/strict-schema.ts";
import { estimateTokens } from "../../../src/shared/token-estimate.ts";
import { estimateUsage } from "../../../src/worker/model/token-estimate.ts";
import { modelRequest } from "../../support/model-calls.ts";

describe("the cost of a call", () => {
  const price = { input: 2, cachedInput: 0.5, output: 8 };

  test("is whole micro-USD, with cached tokens priced apart", () => {
    expect(costMicroUsd({ inputTokens: 1000, cachedInputTokens: 400, outputTokens: 200 }, price)).toBe(3000);
  });

  test("is rounded up once, without the errors of binary fractions", () => {
    expect(costMicroUsd({ inputTokens: 3, cachedInputTokens: 0, outputTokens: 0 }, { ...price, input: 0.1 })).toBe(1);
    expect(costMicroUsd({ inputTokens: 1000, cachedInputTokens: 0, outputTokens: 0 }, { ...price, input: 0.15 })).toBe(
      150,
    );
    expect(costMicroUsd({ inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 }, price)).toBe(0);
  });

  test("never counts more cached tokens than there are", () => {
    expect(costMicroUsd({ inputTokens: 10, cachedInputTokens: 99, outputTokens: 0 }, price)).toBe(5);
  });

  test("of two calls is at most one micro-USD more than that of both as one", () => {
    const tokens = fc.nat(50_000_000);
    fc.assert(
      fc.property(tokens, tokens, fc.integer({ min: 0, max: 100_000_000 }), (first, second, millionths) => {
        const rate = { input: millionths / 1_000_000, cachedInput: 0, output: 0 };
        const of = (inputTokens: number): number =>
          costMicroUsd({ inputTokens, cachedInputTokens: 0, outputTokens: 0 }, rate);
        const apart = of(first) + of(second);
        const together = of(first + second);
        expect(apart - together === 0 || apart - together === 1).toBe(true);
      }),
    );
  });
});

describe("the usage that a provider sends", () => {
  test("is taken with cached and reasoning tokens as parts", () => {
    const value = {
      prompt_tokens: 100,
      completion_tokens: 50,
      total_tokens: 150,
      prompt_tokens_details: { cached_tokens: 64 },
      completion_tokens_details: { reasoning_tokens: 20 },
    };
    expect(readUsage(value, { answered: true })).toEqual({
      inputTokens: 100,
      cachedInputTokens: 64,
      outputTokens: 50,
      reasoningTokens: 20,
      estimated: false,
    });
  });

  test("has reasoning added to the output where the total shows that it is counted apart", () => {
    const value = {
      prompt_tokens: 100,
      completion_tokens: 50,
      total_tokens: 350,
      completion_tokens_details: { reasoning_tokens: 200 },
    };
    expect(readUsage(value, { answered: true })).toMatchObject({ outputTokens: 250, reasoningTokens: 200 });
  });

  test.each([
    ["missing", undefined],
    ["not an object", "many"],
    ["negative", { prompt_tokens: 5, completion_tokens: -1 }],
    ["a fraction", { prompt_tokens: 5.5, completion_tokens: 1 }],
    ["absurd", { prompt_tokens: 1e15, completion_tokens: 1 }],
    ["text", { prompt_tokens: "5", completion_tokens: "1" }],
    ["a request of nothing", { prompt_tokens: 0, completion_tokens: 1 }],
    ["an answer of nothing", { prompt_tokens: 5, completion_tokens: 0 }],
  ])("is not believed when it is %s", (_name, value) => {
    expect(readUsage(value, { answered: true })).toBeUndefined();
  });

  test("loses only the details that cannot be", () => {
    const value = {
      prompt_tokens: 5,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 6 },
      completion_tokens_details: { reasoning_tokens: -3 },
    };
    expect(readUsage(value, { answered: true })).toMatchObject({
      inputTokens: 5,
      cachedInputTokens: 0,
      reasoningTokens: 0,
    });
  });
});

describe("an estimate", () => {
  test("counts a token for 3.5 bytes of UTF-8, rounded up, over messages, calls and tools", () => {
    expect([estimateTokens(0), estimateTokens(7), estimateTokens(8)]).toEqual([0, 2, 3]);
    const request = modelRequest({
      messages: [
        { role: "user", text: "äö" },
        { role: "assistant", text: "abc", toolCalls: [{ callId: "t1c0", name: "look", arguments: "{}" }] },
        { role: "tool", callId: "t1c0", text: "x" },
      ],
      tools: [{ name: "look", description: "12", inputSchema: {} }],
    });
    const usage = estimateUsage(request, { text: "1234567", toolCalls: [{ name: "look", arguments: "{}!" }] });
    expect(usage).toEqual({
      inputTokens: 7,
      cachedInputTokens: 0,
      outputTokens: 4,
      reasoningTokens: 0,
      estimated: true,
    });
  });
});

describe("a response schema", () => {
  const closed = (properties: Record<string, unknown>): Record<string, unknown> => ({
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  });

  test("goes to the provider where every object is closed and complete", () => {
    const schema = closed({
      sum: { type: "number" },
      parts: { type: "array", items: closed({ name: { type: ["string", "null"] } }) },
    });
    expect(strictSchema({ $schema: "https://json-schema.org/draft/2020-12/schema", ...schema })).toEqual(schema);
  });

  test.each([
    ["an open object", { type: "object", properties: {}, required: [] }],
    ["a property that may be missing", { ...closed({ a: { type: "string" } }), required: [] }],
    ["an open object inside", closed({ a: { type: "object", properties: {} } })],
    ["a keyword that providers do not enforce", closed({ a: { type: "string", minLength: 3 } })],
    ["allOf", { ...closed({}), allOf: [] }],
    ["a list at the top", { type: "array", items: { type: "string" } }],
    ["a choice at the top", { ...closed({}), anyOf: [closed({})] }],
    ["properties without a type", closed({ a: { properties: {} } })],
    ["a schema that is no object", closed({ a: true })],
  ])("with %s stays ours to check", (_name, schema) => {
    expect(strictSchema(schema)).toBeUndefined();
  });
});
