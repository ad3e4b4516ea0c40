import assert from "node:assert/strict";
import { RunError } from "../shared/errors.ts";
import type { FinishReason, Model, ModelCompletion, ModelRequest, ModelStreamItem } from "../worker/model/model.ts";

/** What the harness makes the model do at one call. */
export interface ConformanceAnswer {
  readonly text?: string;
  readonly toolCalls?: readonly { readonly name: string; readonly arguments: string }[];
  readonly finishReason?: FinishReason;
  /** After the text: `silence` until the call is aborted; `break`: the connection is lost. Absent: the answer is whole. */
  readonly then?: "silence" | "break";
}

/** A model that plays the answers in order, one a call, and what has to be cleaned up after it. */
export interface ConformanceModel extends AsyncDisposable {
  readonly model: Model;
}

export interface ModelConformanceOptions {
  /** Registers one test, as `test` of vitest and of node:test do. */
  readonly test: (name: string, run: () => Promise<void>) => void;
  readonly makeModel: (answers: readonly ConformanceAnswer[]) => ConformanceModel | Promise<ConformanceModel>;
}

type Case = readonly [name: string, answers: readonly ConformanceAnswer[], run: (model: Model) => Promise<void>];

/** Bound on "settles within a second", with room for a busy machine. */
const SETTLE_MS = 1_000;

/**
 * The rules of the model port (M1 to M4) as tests, the same for every adapter.
 *
 * @example modelConformance({ test, makeModel: () => ({ model, [Symbol.asyncDispose]: () => server.stop() }) });
 */
export function modelConformance(options: ModelConformanceOptions): void {
  for (const [name, answers, run] of [...ANSWERS, ...INTERRUPTIONS]) {
    options.test(name, async () => {
      await using made = await options.makeModel(answers);
      await run(made.model);
    });
  }
}

const LONG_TEXT = Array.from({ length: 200 }, (_, index) => `word ${index} — ünï 😀`).join(" ");

const ANSWERS: readonly Case[] = [
  [
    "the deltas joined are the text of the one completion, which comes last",
    [{ text: LONG_TEXT }],
    async (model) => {
      const items = await readAll(model);
      const completion = theOnlyCompletion(items);
      assert.equal(items.at(-1)?.kind, "completed");
      assert.equal(textOf(items), LONG_TEXT);
      assert.equal(completion.text, LONG_TEXT);
      assert.equal(completion.finishReason, "stop");
    },
  ],
  [
    "an answer without text has no delta",
    [{ text: "" }],
    async (model) => {
      const items = await readAll(model);
      assert.deepEqual(
        items.map((item) => item.kind),
        ["completed"],
      );
    },
  ],
  [
    "tool calls keep their order, names and the letters of their arguments",
    [
      {
        text: "I look.",
        toolCalls: [
          { name: "look", arguments: '{ "b":1, "a" : "ü" }' },
          { name: "look", arguments: "{broken" },
          { name: "other_tool", arguments: "{}" },
        ],
      },
    ],
    async (model) => {
      const completion = theOnlyCompletion(await readAll(model));
      assert.equal(completion.finishReason, "tool_calls");
      assert.deepEqual(completion.toolCalls, [
        { name: "look", arguments: '{ "b":1, "a" : "ü" }' },
        { name: "look", arguments: "{broken" },
        { name: "other_tool", arguments: "{}" },
      ]);
    },
  ],
  [
    "an answer cut at its limit says so, and keeps half a call as it is",
    [{ text: "I l", toolCalls: [{ name: "look", arguments: '{"path": "a' }], finishReason: "length" }],
    async (model) => {
      const completion = theOnlyCompletion(await readAll(model));
      assert.equal(completion.finishReason, "length");
      assert.deepEqual(completion.toolCalls, [{ name: "look", arguments: '{"path": "a' }]);
    },
  ],
  [
    "usage is whole numbers, with the cached part of the input and the reasoning part of the output",
    [{ text: "Yes." }],
    async (model) => {
      const { usage } = theOnlyCompletion(await readAll(model));
      for (const count of [usage.inputTokens, usage.cachedInputTokens, usage.outputTokens, usage.reasoningTokens]) {
        assert.ok(Number.isInteger(count) && count >= 0, `${count} is a count`);
      }
      assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
      assert.ok(usage.cachedInputTokens <= usage.inputTokens && usage.reasoningTokens <= usage.outputTokens);
      assert.equal(typeof usage.estimated, "boolean");
    },
  ],
  [
    "text and arguments are well-formed Unicode",
    [{ text: "a \ud83d b", toolCalls: [{ name: "look", arguments: '{"a":"\udc00"}' }] }],
    async (model) => {
      const items = await readAll(model);
      const completion = theOnlyCompletion(items);
      assert.equal(completion.text, "a \ufffd b");
      assert.equal(textOf(items), completion.text);
      assert.deepEqual(completion.toolCalls, [{ name: "look", arguments: '{"a":"\ufffd"}' }]);
    },
  ],
  [
    "one model serves several calls after each other",
    [{ text: "one" }, { text: "two" }],
    async (model) => {
      assert.equal(theOnlyCompletion(await readAll(model)).text, "one");
      assert.equal(theOnlyCompletion(await readAll(model, { answered: 1 })).text, "two");
    },
  ],
];

const INTERRUPTIONS: readonly Case[] = [
  [
    "a call that is aborted before it starts throws the signal's reason",
    [{ text: "never" }],
    async (model) => {
      const reason = new Error("not wanted");
      const items: ModelStreamItem[] = [];
      await assert.rejects(collect(model.stream(request(), { signal: AbortSignal.abort(reason) }), items), reason);
      assert.deepEqual(items, []);
    },
  ],
  [
    "an abort in silence throws the signal's reason within a second",
    [{ then: "silence" }],
    async (model) => {
      const aborting = new AbortController();
      const reason = new Error("enough");
      const items: ModelStreamItem[] = [];
      const reading = collect(model.stream(request(), { signal: aborting.signal }), items);
      setImmediate(() => aborting.abort(reason));
      await assert.rejects(withinASecond(reading), reason);
      assert.deepEqual(items, []);
    },
  ],
  [
    "an abort in mid-stream throws the signal's reason within a second, and there is no completion",
    [{ text: "some words first", then: "silence" }],
    async (model) => {
      const aborting = new AbortController();
      const reason = new Error("enough");
      const items: ModelStreamItem[] = [];
      const reading = collect(model.stream(request(), { signal: aborting.signal }), items, () => {
        setImmediate(() => aborting.abort(reason));
      });
      await assert.rejects(withinASecond(reading), reason);
      assert.ok(items.length > 0);
      assert.ok(items.every((item) => item.kind === "delta"));
    },
  ],
  [
    "a stream that breaks off is model_unavailable, and there is no completion",
    [{ text: "half of it", then: "break" }],
    async (model) => {
      const items: ModelStreamItem[] = [];
      await assert.rejects(
        collect(model.stream(request(), { signal: new AbortController().signal }), items),
        (error) => {
          assert.ok(error instanceof RunError);
          assert.equal(error.code, "model_unavailable");
          return true;
        },
      );
      assert.ok(items.every((item) => item.kind === "delta"));
    },
  ],
  [
    "a reader may leave after the first item",
    [{ text: "more than one word", then: "silence" }],
    async (model) => {
      const iterator = model.stream(request(), { signal: new AbortController().signal })[Symbol.asyncIterator]();
      const first = await iterator.next();
      assert.equal(first.done, false);
      await withinASecond(Promise.resolve(iterator.return?.()));
      assert.equal((await iterator.next()).done, true);
    },
  ],
];

/** @param options.answered Calls of the run that have been answered before. */
function request(options: { readonly answered: number } = { answered: 0 }): ModelRequest {
  return {
    model: "conformance",
    messages: [
      { role: "system", text: "You help." },
      { role: "user", text: "Do it." },
      ...Array.from({ length: options.answered }, () => ({ role: "assistant" as const, text: "Yes.", toolCalls: [] })),
    ],
    tools: [{ name: "look", description: "Looks.", inputSchema: { type: "object" } }],
    run: { runId: "conformance", turn: options.answered + 1, query: "Do it." },
  };
}

async function readAll(model: Model, options?: { readonly answered: number }): Promise<readonly ModelStreamItem[]> {
  const items: ModelStreamItem[] = [];
  await collect(model.stream(request(options), { signal: new AbortController().signal }), items);
  return items;
}

async function collect(
  stream: AsyncIterable<ModelStreamItem>,
  into: ModelStreamItem[],
  onItem?: () => void,
): Promise<void> {
  for await (const item of stream) {
    into.push(item);
    onItem?.();
  }
}

function textOf(items: readonly ModelStreamItem[]): string {
  return items.map((item) => (item.kind === "delta" ? item.text : "")).join("");
}

function theOnlyCompletion(items: readonly ModelStreamItem[]): ModelCompletion {
  const completions = items.flatMap((item) => (item.kind === "completed" ? [item.completion] : []));
  assert.equal(completions.length, 1);
  const [completion] = completions;
  assert.ok(completion);
  return completion;
}

async function withinASecond<T>(promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`not settled after ${SETTLE_MS} ms`)), SETTLE_MS);
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
