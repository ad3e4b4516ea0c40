import { describe, expect, test } from "vitest";
import type { Clock } from "../../../src/shared/clock.ts";
import type { RunEvent } from "../../../src/shared/contracts/event.ts";
import type { RunResult } from "../../../src/shared/contracts/result.ts";
import { Executor, type ExecutorOptions, type LocalRunRequest } from "../../../src/worker/executor/executor.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { ScriptedModel } from "../../../src/worker/model/scripted.ts";
import { estimateTokens } from "../../../src/shared/token-estimate.ts";
import { requestBytes } from "../../../src/worker/model/token-estimate.ts";
import type { CallerTool } from "../../../src/worker/tools/tool.ts";
import { collect, makeCatalog, makeSkill, oneModel } from "../../support/runs.ts";

const ping = (handler: CallerTool["handler"] = () => "pong"): CallerTool => ({
  id: "caller.ping@1",
  description: "Answers.",
  inputSchema: { type: "object" },
  effects: "external",
  handler,
});
const calls = (count = 1): { toolCalls: { name: string; arguments: Record<string, unknown> }[] } => ({
  toolCalls: Array.from({ length: count }, () => ({ name: "caller_ping", arguments: {} })),
});

/** A clock that stands still until it is stepped. */
class SteppedClock implements Clock {
  #now = 1_750_000_000_000;
  readonly #timers = new Set<{ readonly at: number; readonly callback: () => void }>();

  now(): number {
    return this.#now;
  }
  monotonic(): number {
    return this.#now;
  }
  after(ms: number, callback: () => void): () => void {
    const timer = { at: this.#now + ms, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }
  get pending(): number {
    return this.#timers.size;
  }
  step(ms: number): void {
    this.#now += ms;
    for (const timer of this.#timers) {
      if (timer.at > this.#now) continue;
      this.#timers.delete(timer);
      timer.callback();
    }
  }
}

function make(options: Partial<ExecutorOptions> & { readonly model: ScriptedModel }): Executor {
  const { model, ...rest } = options;
  return new Executor({ catalog: makeCatalog(makeSkill({})), models: oneModel(model), tools: [ping()], ...rest });
}
const request = (more: Partial<LocalRunRequest> = {}): LocalRunRequest => ({
  skill: "sample",
  query: "Go.",
  allowedCapabilities: ["caller.ping@1"],
  ...more,
});

describe("limits", () => {
  test("a run stops at maxTurns, and its work so far is in the result", async () => {
    const model = new ScriptedModel(Array.from({ length: 9 }, () => calls()));
    const { result } = await collect(make({ model }).run(request({ limits: { maxTurns: 3 } })));
    expect(result).toMatchObject({
      status: "limit_exceeded",
      error: { code: "max_turns" },
      usage: { turns: 3, toolCalls: 3 },
    });
    expect(result.receipts).toHaveLength(3);
  });

  test("text beyond maxOutputBytes ends the run while it still streams", async () => {
    const model = new ScriptedModel([{ text: "word ".repeat(100), waitForAbort: true }]);
    const { result } = await collect(make({ model }).run(request({ limits: { maxOutputBytes: 50 } })));
    expect(result).toMatchObject({
      status: "limit_exceeded",
      error: { code: "max_output" },
      usage: { estimated: true },
    });
  });

  test("output of all turns counts together", async () => {
    const model = new ScriptedModel([{ text: "12345678", ...calls() }, { text: "12345678" }]);
    const { result } = await collect(make({ model }).run(request({ limits: { maxOutputBytes: 12 } })));
    expect(result).toMatchObject({ status: "limit_exceeded", error: { code: "max_output" } });
  });

  /** Uses all that it is allowed, and always asks for another turn. */
  const greedy: Model = {
    async *stream(sent) {
      const usage = {
        inputTokens: estimateTokens(requestBytes(sent)),
        cachedInputTokens: 0,
        outputTokens: sent.maxOutputTokens ?? 40,
        reasoningTokens: 0,
        estimated: false,
      };
      const toolCalls = [{ name: "caller_ping", arguments: "{}" }];
      yield { kind: "completed", completion: { text: "", toolCalls, finishReason: "tool_calls", usage } };
    },
  };

  test("a model that uses all it is allowed never passes the token limit", async () => {
    const executor = make({ model: new ScriptedModel([]), models: oneModel(greedy, { maxOutputTokens: 40 }) });
    const { result } = await collect(executor.run(request({ limits: { maxTotalTokens: 200 } })));
    expect(result).toMatchObject({ status: "limit_exceeded", error: { code: "token_limit" } });
    expect(result.usage.turns).toBeGreaterThan(1);
    expect(result.usage.totalTokens).toBeLessThanOrEqual(200);
  });

  test("nor the cost limit, in whole micro-dollars", async () => {
    const price = { input: 2, cachedInput: 1, output: 8 };
    const executor = make({ model: new ScriptedModel([]), models: oneModel(greedy, { price, maxOutputTokens: 40 }) });
    const { result } = await collect(executor.run(request({ limits: { maxCostUsd: 0.001 } })));
    expect(result).toMatchObject({ status: "limit_exceeded", error: { code: "cost_limit" } });
    expect(result.usage.turns).toBeGreaterThan(1);
    expect(result.usage.costUsd).toBeLessThanOrEqual(0.001);
  });

  test("a cost limit needs a price", async () => {
    const { result } = await collect(
      make({ model: new ScriptedModel([]) }).run(request({ limits: { maxCostUsd: 1 } })),
    );
    expect(result).toMatchObject({ status: "policy_denied", error: { code: "model_not_allowed" } });
  });

  test("the wall clock ends a silent model call", async () => {
    const clock = new SteppedClock();
    const model = new ScriptedModel([{ waitForAbort: true }], { clock });
    const items = make({ model, clock }).run(request({ limits: { wallClockMs: 5_000 } }));
    const { result } = await collect(onEvent(items, "model.started", () => setImmediate(() => clock.step(5_001))));
    expect(result).toMatchObject({
      status: "timed_out",
      error: { code: "wall_clock", retryable: true },
      timings: { durationMs: 5_001 },
    });
    expect(clock.pending).toBe(0);
  });

  test("the wall clock ends a tool that ignores its signal, whose result is then unknown", async () => {
    const clock = new SteppedClock();
    const tool = ping(() => {
      setImmediate(() => clock.step(5_001));
      return new Promise(() => undefined);
    });
    const model = new ScriptedModel([calls()], { clock });
    const { result } = await collect(
      make({ model, clock, tools: [tool] }).run(request({ limits: { wallClockMs: 5_000 } })),
    );
    expect(result).toMatchObject({ status: "timed_out", receipts: [{ status: "indeterminate", effects: "external" }] });
  });

  test("deltas come at most twenty times a second, and nothing of the text is lost", async () => {
    const clock = new SteppedClock();
    const model = new ScriptedModel([{ text: "w ".repeat(500), chunkDelayMs: 5 }], { clock });
    const ticking = setInterval(() => clock.step(5), 0);
    const { of } = await collect(make({ model, clock }).run(request()));
    clearInterval(ticking);
    const deltas = of("model.delta");
    expect(deltas.map((event) => event.data.text).join("")).toBe("w ".repeat(500));
    expect(deltas.length).toBeGreaterThan(10);
    expect(deltas.length).toBeLessThanOrEqual(60);
  });
});

describe("cancelling", () => {
  test("before the first turn", async () => {
    const { result } = await collect(
      make({ model: new ScriptedModel([]) }).run(request(), { signal: AbortSignal.abort("too late") }),
    );
    expect(result).toMatchObject({ status: "cancelled", cancelReason: "too late", usage: { modelCalls: 0 } });
    expect(result.error).toBeUndefined();
  });

  test("in a model call ends the call and still delivers the result", async () => {
    const abort = new AbortController();
    const model = new ScriptedModel([{ text: "So", waitForAbort: true }]);
    const items = make({ model }).run(request(), { signal: abort.signal });
    const { result, types } = await collect(onEvent(items, "model.delta", () => abort.abort()));
    expect(result.status).toBe("cancelled");
    expect(types.at(-1)).toBe("run.cancelled");
  });

  test("in a tool leaves a receipt that says the outcome is unknown, and nothing more is dispatched", async () => {
    const abort = new AbortController();
    let dispatched = 0;
    const tool = ping((_args, { signal }) => {
      dispatched++;
      abort.abort();
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
    });
    const items = make({ model: new ScriptedModel([calls(3)]), tools: [tool] }).run(request(), {
      signal: abort.signal,
    });
    const { result, of } = await collect(items);
    expect(result).toMatchObject({ status: "cancelled", receipts: [{ callId: "t1c0", status: "indeterminate" }] });
    expect(of("tool.result")).toHaveLength(1);
    expect(dispatched).toBe(1);
  });

  test("for a reason of any length keeps the event small and well-formed", async () => {
    const reason = `\ud800${"x".repeat(1_000_000)}`;
    const { result } = await collect(
      make({ model: new ScriptedModel([]) }).run(request(), { signal: AbortSignal.abort(reason) }),
    );
    expect(result.cancelReason).toHaveLength(1_000);
    expect(result.cancelReason?.isWellFormed()).toBe(true);
  });

  test("after the end changes nothing", async () => {
    const abort = new AbortController();
    const items = make({ model: new ScriptedModel([{ text: "Done." }]) }).run(request(), { signal: abort.signal });
    const { result } = await collect(onEvent(items, "run.final_response", () => abort.abort()));
    expect(result.status).toBe("succeeded");
  });
});

describe("leaving early", () => {
  test("aborts the model call and leaves no timer", async () => {
    const clock = new SteppedClock();
    const model = new ScriptedModel([{ text: "So", waitForAbort: true }], { clock });
    for await (const item of make({ model, clock }).run(request())) if (item.type === "model.delta") break;
    expect(clock.pending).toBe(0);
  });

  test("tells the tool that runs, by its signal, that nobody waits any more", async () => {
    const told = Promise.withResolvers<void>();
    const tool = ping((_args, { signal }) => {
      signal.addEventListener("abort", () => told.resolve());
      return "pong";
    });
    for await (const item of make({ model: new ScriptedModel([calls()]), tools: [tool] }).run(request())) {
      if (item.type === "tool.result") break;
    }
    await told.promise;
  });
});

describe("a sandbox factory", () => {
  const list = { toolCalls: [{ name: "workspace_list", arguments: {} }] };
  const asks = request({ allowedCapabilities: ["workspace.list@1"] });

  test("that never settles does not hold up the wall clock", async () => {
    const executor = make({ model: new ScriptedModel([list]), sandbox: () => new Promise(() => undefined) });
    const { result } = await collect(executor.run({ ...asks, limits: { wallClockMs: 50 } }));
    expect(result).toMatchObject({ status: "timed_out", error: { code: "wall_clock" } });
  });

  test("that throws leaves the sandbox unavailable, and nothing done", async () => {
    const executor = make({ model: new ScriptedModel([list]), sandbox: () => Promise.reject(new Error("no engine")) });
    const { result } = await collect(executor.run(asks));
    expect(result).toMatchObject({
      status: "failed",
      error: { code: "sandbox_unavailable" },
      receipts: [{ status: "failed" }],
    });
  });
});

describe("listeners", () => {
  test("may reject: nobody hears of it", async () => {
    const executor = make({
      model: new ScriptedModel([{ text: "Done." }]),
      onEvent: () => Promise.reject(new Error("listener")),
    });
    expect((await collect(executor.run(request()))).result.status).toBe("succeeded");
  });

  test("see every event, and their failures never touch the run", async () => {
    const seen: string[] = [];
    const audited: string[] = [];
    const executor = make({
      model: new ScriptedModel([{ toolCalls: [{ name: "nobody", arguments: {} }] }, { text: "Done." }]),
      onEvent: (event) => {
        seen.push(event.type);
        throw new Error("listener");
      },
      audit: async (event) => {
        audited.push(event.type);
        throw new Error("audit");
      },
    });
    const { result, types } = await collect(executor.run(request()));
    expect(result.status).toBe("succeeded");
    expect(seen).toEqual(types);
    expect(audited).toEqual(["skill.activated", "tool.blocked"]);
  });
});

async function* onEvent(
  items: AsyncIterable<RunEvent | RunResult>,
  type: RunEvent["type"],
  then: () => void,
): AsyncGenerator<RunEvent | RunResult, void, void> {
  for await (const item of items) {
    if (item.type === type) then();
    yield item;
  }
}
