import { describe, expect, test } from "vitest";
import { ScriptedModel } from "../../../src/worker/model/scripted.ts";
import { HandClock } from "../../support/hand-clock.ts";
import { answeredTimes, callModel, failedCall, modelRequest } from "../../support/model-calls.ts";

describe("a strict script of steps", () => {
  test("is played once, in the order of the calls, and then finished", async () => {
    const model = new ScriptedModel([{ text: "one" }, { text: "two" }], { strict: true });
    expect((await callModel(model)).completion.text).toBe("one");
    expect(() => model.assertFinished()).toThrow("1 step(s) of the script were not used");
    expect((await callModel(model)).completion.text).toBe("two");
    model.assertFinished();
  });

  test("fails a call beyond its end, and remembers it", async () => {
    const model = new ScriptedModel([{ text: "one" }], { strict: true });
    await callModel(model);
    const error = await failedCall(model, modelRequest({ run: { skill: "greet" } }));
    expect(error.code).toBe("model_protocol");
    expect(error.message).toBe("The script has 1 step(s), and run run-0001 (skill greet) made call 2.");
    expect(() => model.assertFinished()).toThrow(error.message);
  });

  test("an empty script fails every call", async () => {
    const model = new ScriptedModel([], { strict: true });
    model.assertFinished();
    expect((await failedCall(model)).code).toBe("model_protocol");
    expect(() => model.assertFinished()).toThrow("made call 1");
  });

  test("keeps the requests, and a step may be made of one", async () => {
    const model = new ScriptedModel([(request) => ({ text: `You said ${request.messages[0]?.text}` })], {
      strict: true,
    });
    const request = modelRequest({ messages: [{ role: "user", text: "hello" }] });
    expect((await callModel(model, request)).completion.text).toBe("You said hello");
    expect(model.requests).toEqual([request]);
  });

  test("a step may end with an error after its text", async () => {
    const model = new ScriptedModel([{ text: "half", error: "model_refused" }], { strict: true });
    expect((await failedCall(model)).code).toBe("model_refused");
  });
});

describe("a script without strict", () => {
  const script = [
    { when: { skill: "greet", query: "hello" }, steps: [{ text: "greeting" }] },
    { when: { skill: "greet" }, steps: [{ text: "first" }, { text: "second" }] },
    { when: { query: "/^sum \\d+$/i" }, steps: [{ text: "a sum" }] },
    { steps: [{ text: "anything" }] },
  ];

  test.each([
    [{ skill: "greet", query: "Say HELLO to me" }, "greeting"],
    [{ skill: "greet", query: "other" }, "first"],
    [{ skill: "other", query: "SUM 12" }, "a sum"],
    [{ query: "sum 12" }, "a sum"],
    [{ skill: "other", query: "sum 12, please" }, "anything"],
  ])("%o is answered by the first entry that matches: %s", async (run, text) => {
    expect((await callModel(new ScriptedModel(script), modelRequest({ run }))).completion.text).toBe(text);
  });

  test("has a cursor for each run, which another process reads from the messages", async () => {
    const later = modelRequest({ messages: answeredTimes(1), run: { skill: "greet", query: "x", turn: 7 } });
    expect((await callModel(new ScriptedModel(script), later)).completion.text).toBe("second");
  });

  test("does not count what was said before the query of this run", async () => {
    const messages = [...answeredTimes(3), { role: "user" as const, text: "and now?" }];
    const request = modelRequest({ messages, run: { skill: "greet", query: "and now?" } });
    expect((await callModel(new ScriptedModel(script), request)).completion.text).toBe("first");
  });

  test("repeats nothing beyond the last step, and keeps no request", async () => {
    const model = new ScriptedModel(script);
    const error = await failedCall(
      model,
      modelRequest({ messages: answeredTimes(2), run: { skill: "greet", query: "x" } }),
    );
    expect([error.code, error.details]).toEqual(["model_protocol", { reason: "script_ended" }]);
    expect(model.requests).toEqual([]);
  });

  test("says when no entry matches", async () => {
    const error = await failedCall(new ScriptedModel(script.slice(0, 1)));
    expect([error.code, error.message]).toEqual(["model_protocol", "The script has no entry for run run-0001."]);
  });
});

describe("an answer of a script", () => {
  test("comes word by word", async () => {
    const { deltas } = await callModel(new ScriptedModel([{ text: "  Two\n\nwords here. " }]));
    expect(deltas).toEqual(["  Two\n", "\nwords ", "here. "]);
  });

  test("writes arguments given as an object as JSON, and text as it is", async () => {
    const step = {
      toolCalls: [
        { name: "look", arguments: { path: "a" } },
        { name: "look", arguments: "{oops" },
      ],
    };
    const { completion } = await callModel(new ScriptedModel([step]));
    expect(completion.toolCalls.map((call) => call.arguments)).toEqual(['{"path":"a"}', "{oops"]);
    expect(completion.finishReason).toBe("tool_calls");
  });

  test("has the same usage each time, a token for four bytes, as if a provider had counted", async () => {
    const { completion } = await callModel(new ScriptedModel([{ text: "12345678" }]));
    expect(completion.usage).toEqual({
      inputTokens: 3,
      cachedInputTokens: 0,
      outputTokens: 2,
      reasoningTokens: 0,
      estimated: false,
    });
  });

  test("takes single figures of the usage from the step", async () => {
    const step = { text: "1234", usage: { inputTokens: 1000, estimated: true } };
    const { completion } = await callModel(new ScriptedModel([step]));
    expect(completion.usage).toMatchObject({ inputTokens: 1000, outputTokens: 1, estimated: true });
  });

  test("waits by the clock it was given, and an abort ends the wait without leaving a timer", async () => {
    const clock = new HandClock();
    const model = new ScriptedModel([{ text: "one two", delayMs: 5000, chunkDelayMs: 70 }], { clock });
    const aborting = new AbortController();
    const iterator = model.stream(modelRequest(), { signal: aborting.signal });
    const first = iterator.next();
    expect(clock.pending).toEqual([5000]);
    clock.advance(5000);
    expect((await first).value).toEqual({ kind: "delta", text: "one " });
    const second = iterator.next();
    expect(clock.pending).toEqual([70]);
    const reason = new Error("enough");
    aborting.abort(reason);
    await expect(second).rejects.toBe(reason);
    expect(clock.pending).toEqual([]);
  });
});
