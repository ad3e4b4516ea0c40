import { describe, expect, test } from "vitest";
import { Executor, type LocalRunRequest } from "../../../src/worker/executor/executor.ts";
import type { Model, ModelStreamItem } from "../../../src/worker/model/model.ts";
import { ScriptedModel } from "../../../src/worker/model/scripted.ts";
import type { CallerTool, ToolContext } from "../../../src/worker/tools/tool.ts";
import { collect, makeCatalog, makeSkill, oneModel, type CollectedRun } from "../../support/runs.ts";

const lookup = (overrides: Partial<CallerTool> = {}): CallerTool => ({
  id: "caller.lookup@1",
  description: "Looks a thing up.",
  inputSchema: {
    type: "object",
    additionalProperties: false,
    required: ["key"],
    properties: { key: { type: "string" } },
  },
  outputSchema: { type: "object", required: ["found"], properties: { found: { type: "string" } } },
  effects: "read",
  handler: ({ key }: { key: string }) => ({ found: `value of ${key}` }),
  ...overrides,
});

const call = (args: string | Record<string, unknown> = { key: "a" }, name = "caller_lookup") => ({
  name,
  arguments: args,
});

/** Runs one request with a strict script; every step must be used. */
async function run(
  model: ScriptedModel,
  request: Partial<LocalRunRequest> = {},
  tools: readonly CallerTool[] = [lookup()],
): Promise<CollectedRun> {
  const executor = new Executor({ catalog: makeCatalog(makeSkill({})), models: oneModel(model), tools });
  const collected = await collect(
    executor.run({ skill: "sample", query: "Well?", allowedCapabilities: ["caller.lookup@1"], ...request }),
  );
  model.assertFinished();
  return collected;
}

const strict = (...steps: ConstructorParameters<typeof ScriptedModel>[0][number][]): ScriptedModel =>
  new ScriptedModel(steps as never, { strict: true });

describe("a run without tools", () => {
  test("goes from started to one final response with the text", async () => {
    const model = strict({ text: "All is well." });
    const { types, result, of } = await run(model, { allowedCapabilities: [] });
    expect(types).toEqual([
      "run.started",
      "skill.activated",
      "model.started",
      "model.delta",
      "model.delta",
      "model.completed",
      "run.final_response",
    ]);
    expect(
      of("model.delta")
        .map((event) => event.data.text)
        .join(""),
    ).toBe("All is well.");
    expect(result).toMatchObject({
      status: "succeeded",
      outputText: "All is well.",
      attempts: 1,
      usage: { turns: 1, modelCalls: 1, toolCalls: 0 },
    });
    expect(result.evidence).toEqual([{ kind: "skill", ref: "sample", digest: result.skill?.digest }]);
    expect(model.requests[0]?.messages).toEqual([
      { role: "system", text: "Answer the question." },
      { role: "user", text: "Well?" },
    ]);
    expect(model.requests[0]?.tools).toEqual([]);
  });
});

describe("a tool call", () => {
  test("is announced, dispatched once, receipted, and its output told to the model", async () => {
    const contexts: ToolContext[] = [];
    const model = strict({ text: "Looking.", toolCalls: [call()] }, { text: "Found it." });
    const tool = lookup({
      handler: ({ key }: { key: string }, context) => {
        contexts.push(context);
        return { found: key.toUpperCase() };
      },
    });
    const { types, result, of } = await run(model, { correlationId: "c-1", caller: { id: "svc" } }, [tool]);
    expect(types.filter((type) => type.startsWith("tool"))).toEqual(["tool.call", "tool.result"]);
    expect(of("tool.result")[0]?.data.output).toBe('{"found":"A"}');
    expect(model.requests[1]?.messages.slice(2)).toEqual([
      {
        role: "assistant",
        text: "Looking.",
        toolCalls: [{ callId: "t1c0", name: "caller_lookup", arguments: '{"key":"a"}' }],
      },
      { role: "tool", callId: "t1c0", text: '{"found":"A"}' },
    ]);
    expect(result.receipts).toMatchObject([
      {
        callId: "t1c0",
        capabilityId: "caller.lookup@1",
        modelName: "caller_lookup",
        status: "succeeded",
        effects: "read",
        bytesOut: 13,
        attempt: 1,
      },
    ]);
    expect(result.evidence.at(-1)).toMatchObject({
      kind: "tool_result",
      callId: "t1c0",
      digest: result.receipts[0]?.resultDigest,
    });
    const [context] = contexts;
    expect(context).toMatchObject({
      callId: "t1c0",
      idempotencyKey: `${result.runId}/t1c0`,
      correlationId: "c-1",
      caller: { id: "svc" },
      attempt: 1,
    });
    expect(Object.isFrozen(context)).toBe(true);
    expect(Object.isFrozen(context?.workspacePolicy)).toBe(true);
    expect(context?.deadlineMs).toBeGreaterThan(0);
    expect(contexts).toHaveLength(1);
  });

  test.each([
    ["throws", { handler: () => Promise.reject(new Error("secret at /srv/key")) }, "tool_failed"],
    ["is late", { timeoutMs: 20, handler: () => new Promise(() => undefined) }, "tool_timeout"],
    ["returns what its output schema forbids", { handler: () => ({ nothing: true }) }, "invalid_output"],
    ["returns what is not JSON", { handler: () => ({ found: 1n }) }, "invalid_output"],
  ] as const)("whose tool %s gives a failed receipt, and the model is told", async (_what, overrides, code) => {
    const model = strict({ toolCalls: [call()] }, { text: "Sorry." });
    const { result, of } = await run(model, {}, [lookup(overrides)]);
    expect(result).toMatchObject({ status: "succeeded", receipts: [{ status: "failed", code }] });
    expect(JSON.parse(of("tool.result")[0]?.data.output ?? "")).toMatchObject({ error: { code } });
    expect(JSON.stringify(result) + JSON.stringify(of("tool.result"))).not.toContain("/srv/key");
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", text: of("tool.result")[0]?.data.output });
  });

  test.each([
    ["break its schema", { key: 7 }],
    ["are half a document", '{"key": "a'],
    ["are no object", "[1]"],
    ["hide a prototype", '{"key":"a","__proto__":{"x":1}}'],
    ["are nested without end", `{"key":${"[".repeat(100)}${"]".repeat(100)}}`],
  ])("whose arguments %s fails without a dispatch", async (_what, args) => {
    let dispatched = 0;
    const tool = lookup({ handler: () => ++dispatched });
    const { result } = await run(strict({ toolCalls: [call(args)] }, { text: "Sorry." }), {}, [tool]);
    expect(result.receipts).toMatchObject([{ status: "failed", code: "invalid_arguments" }]);
    expect(dispatched).toBe(0);
  });

  test("gets arguments that nobody can change", async () => {
    const tool = lookup({
      inputSchema: { type: "object" },
      handler: (args: { list: string[] }) => args.list.push("more"),
    });
    const { result } = await run(strict({ toolCalls: [call({ list: ["a"] })] }, { text: "Sorry." }), {}, [tool]);
    expect(result.receipts).toMatchObject([{ status: "failed", code: "tool_failed" }]);
  });

  test("that returns more than the model may see is cut on a character, and says so", async () => {
    const tool = lookup({ outputSchema: { type: "string" }, handler: () => "ä".repeat(200_000) });
    const { result, of } = await run(strict({ toolCalls: [call()] }, { text: "Much." }), {}, [tool]);
    expect(result.receipts).toMatchObject([{ status: "succeeded", truncated: true }]);
    const output = of("tool.result")[0]?.data.output ?? "";
    expect(Buffer.byteLength(output)).toBeLessThanOrEqual(262_144);
    expect(output).not.toContain("\ufffd");
    expect(output).toContain("[cut:");
  });
});

describe("a batch", () => {
  test("is judged whole: refused calls are told so, the others run in order", async () => {
    const order: string[] = [];
    const tool = lookup({ handler: ({ key }: { key: string }) => (order.push(key), { found: key }) });
    const model = strict(
      {
        toolCalls: [
          call({ key: "1" }),
          call({}, "caller_other"),
          call({ key: "2" }),
          call({ key: "x" }, "Caller_lookup"),
        ],
      },
      { text: "Done." },
    );
    const { result, of, types } = await run(model, {}, [tool, lookup({ id: "caller.other@1" })]);
    expect(order).toEqual(["1", "2"]);
    expect(types.filter((type) => type.startsWith("tool"))).toEqual([
      "tool.call",
      "tool.result",
      "tool.blocked",
      "tool.call",
      "tool.result",
      "tool.blocked",
    ]);
    expect(of("tool.blocked").map((event) => event.data.rule)).toEqual(["not_allowed", "unknown_tool"]);
    expect(result.receipts.map((receipt) => receipt.status)).toEqual(["succeeded", "blocked", "succeeded", "blocked"]);
    expect(result.usage.toolCalls).toBe(4);
    expect(model.requests[1]?.messages.filter((message) => message.role === "tool")).toHaveLength(4);
  });

  test.each([
    "caller_lookup ",
    "/caller_lookup",
    "CALLER_LOOKUP",
    "саller_lookup",
    "__proto__",
    "constructor",
    "toString",
    "",
  ])("does not take %j for an allowed tool", async (name) => {
    const { result } = await run(strict({ toolCalls: [call({ key: "a" }, name)] }, { text: "No." }));
    expect(result.receipts).toMatchObject([{ status: "blocked", code: "tool_not_allowed" }]);
  });

  test("that would pass maxToolCalls dispatches nothing and ends the run", async () => {
    let dispatched = 0;
    const tool = lookup({ handler: () => ({ found: String(++dispatched) }) });
    const model = strict({ toolCalls: [call(), call()] }, { toolCalls: [call(), call()] });
    const { result } = await run(model, { limits: { maxToolCalls: 3 } }, [tool]);
    expect(result).toMatchObject({ status: "limit_exceeded", error: { code: "max_tool_calls" } });
    expect(dispatched).toBe(2);
  });

  test("that was cut off at the output limit is not dispatched, not even its whole calls", async () => {
    let dispatched = 0;
    const tool = lookup({ handler: () => ({ found: String(++dispatched) }) });
    const model = strict({ toolCalls: [call(), call('{"key": "b')], finishReason: "length" }, { text: "Shorter." });
    const { result, of } = await run(model, {}, [tool]);
    expect(dispatched).toBe(0);
    expect(of("tool.blocked").map((event) => event.data.rule)).toEqual(["truncated", "truncated"]);
    expect(result.status).toBe("succeeded");
  });
});

describe("an active skill", () => {
  test("narrows the tools to its list, in the offer and in admission", async () => {
    const skill = makeSkill({ allowedTools: [{ name: "caller_lookup" }] });
    const model = strict({ toolCalls: [call({}, "caller_other"), call()] }, { text: "Done." });
    const executor = new Executor({
      catalog: makeCatalog(skill),
      models: oneModel(model),
      tools: [lookup(), lookup({ id: "caller.other@1" })],
    });
    const { of } = await collect(
      executor.run({ skill: "sample", query: "", allowedCapabilities: ["caller.lookup@1", "caller.other@1"] }),
    );
    expect(model.requests[0]?.tools.map((tool) => tool.name)).toEqual(["caller_lookup"]);
    expect(of("tool.blocked")[0]?.data).toMatchObject({
      rule: "narrowed",
      skills: ["sample"],
      allowed: ["caller.lookup@1"],
    });
    model.assertFinished();
  });
});

describe("what a model does wrong", () => {
  const ended = async (model: Model): Promise<CollectedRun["result"]> => {
    const executor = new Executor({ catalog: makeCatalog(makeSkill({})), models: oneModel(model) });
    return (await collect(executor.run({ skill: "sample", query: "x" }))).result;
  };
  const items = (...list: ModelStreamItem[]): Model => ({
    async *stream() {
      yield* list;
    },
  });

  test("a stream that ends without completion is a protocol error", async () => {
    expect(await ended(items({ kind: "delta", text: "half" }))).toMatchObject({
      status: "failed",
      error: { code: "model_protocol" },
    });
  });

  test("what was sent before a call broke off is charged by estimate", async () => {
    const result = await ended(strict({ text: "some words that were paid for", error: "model_unavailable" }));
    expect(result).toMatchObject({
      status: "failed",
      error: { code: "model_unavailable", retryable: true },
      usage: { estimated: true },
    });
    expect(result.usage.outputTokens).toBeGreaterThan(0);
  });

  test("an answer cut at its output limit is not passed off as whole", async () => {
    expect(await ended(strict({ text: "Once upon", finishReason: "length" }))).toMatchObject({
      status: "limit_exceeded",
      outputText: "",
      error: { code: "max_output" },
    });
  });

  test("a filtered answer is a refusal", async () => {
    expect(await ended(strict({ text: "", finishReason: "content_filter" }))).toMatchObject({
      error: { code: "model_refused" },
    });
  });

  test("an adapter's own exception ends the run without its message", async () => {
    const result = await ended({
      // eslint-disable-next-line require-yield -- it throws at once
      async *stream() {
        throw new TypeError("boom at /srv/secret");
      },
    });
    expect(result).toMatchObject({ status: "failed", error: { code: "internal" } });
    expect(JSON.stringify(result)).not.toContain("secret");
  });
});

describe("a response schema", () => {
  const schema = { type: "object", required: ["total"], properties: { total: { type: "number" } } };
  test("makes the final JSON the output", async () => {
    const { result } = await run(strict({ text: '{"total": 3}' }), { responseSchema: schema });
    expect(result).toMatchObject({ status: "succeeded", output: { total: 3 }, outputText: '{"total": 3}' });
  });
  test.each(["not json", '{"total": "3"}', "[]"])("refuses %j", async (text) => {
    const { result } = await run(strict({ text }), { responseSchema: schema });
    expect(result).toMatchObject({ status: "failed", error: { code: "response_schema" } });
    expect(result.output).toBeUndefined();
  });
});
