import { describe, expect, test } from "vitest";
import { LiveView } from "../../../src/cli/live-view.ts";
import type { EventType, RunEvent } from "../../../src/shared/contracts/event.ts";
import type { RunResult } from "../../../src/shared/contracts/result.ts";
import { testTerminal } from "../../support/screen.ts";

const usage = { inputTokens: 100, cachedInputTokens: 0, outputTokens: 23, reasoningTokens: 0, estimated: false };

function event(type: EventType, data: Readonly<Record<string, unknown>>): RunEvent {
  const envelope = {
    schemaVersion: "1",
    runId: "run-00000001",
    tenantId: "acme",
    sequence: 1,
    time: "2026-03-01T00:00:00.000Z",
  };
  return { ...envelope, attempt: 1, terminal: false, type, data } as unknown as RunEvent; // each call below fits the two
}

const delta = (turn: number, text: string): RunEvent => event("model.delta", { turn, text });

function completed(turn: number, message: string, calls: readonly string[] = []): RunEvent {
  const toolCalls = calls.map((modelName, index) => ({ callId: `t${turn}c${index}`, modelName, arguments: "{}" }));
  return event("model.completed", {
    turn,
    message,
    toolCalls,
    finishReason: calls.length > 0 ? "tool_calls" : "stop",
    usage,
  });
}

function result(fields: Partial<RunResult>): RunResult {
  const timings = { queuedAt: "", endedAt: "", queueWaitMs: 0, durationMs: 1_500 };
  const used = {
    turns: 2,
    modelCalls: 2,
    toolCalls: 1,
    inputTokens: 200,
    cachedInputTokens: 0,
    outputTokens: 46,
    reasoningTokens: 0,
  };
  return {
    type: "result",
    runId: "run-00000001",
    status: "succeeded",
    outputText: "",
    receipts: [],
    usage: { ...used, totalTokens: 246, estimated: false, sandboxMs: 0 },
    timings,
    ...fields,
  } as unknown as RunResult; // what a view looks at
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

describe("on a terminal", () => {
  test("text stands there as it streams, and exactly once in the end", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(event("model.started", { turn: 1 }));
    view.event(delta(1, "Hello "));
    expect(screen()).toBe("Hello ");
    view.event(delta(1, "world."));
    view.event(completed(1, "Hello world."));
    view.result(result({ outputText: "Hello world." }));
    expect(screen()).toBe("Hello world.\nsucceeded in 1.5 s · 2 turns · 1 tool call · 246 tokens\n");
  });

  test("what the preview lacks is added", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(delta(1, "Hello"));
    view.event(completed(1, "Hello world."));
    view.result(result({ outputText: "Hello world." }));
    expect(screen()).toMatch(/^Hello world\.\nsucceeded/);
  });

  test("a text without any preview is printed", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(completed(1, "Hello world."));
    view.result(result({ outputText: "Hello world." }));
    expect(occurrences(screen(), "Hello world.")).toBe(1);
  });

  test("a preview that the completed text differs from is said to be void, and the text comes whole", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(delta(1, "Hallo We"));
    view.event(completed(1, "Hello world."));
    view.result(result({ outputText: "Hello world." }));
    const [preview, notice, text] = screen().split("\n");
    expect([preview, text]).toEqual(["Hallo We", "Hello world."]);
    expect(notice).toContain("does not count");
  });

  test("the preview of an attempt that was lost is void", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(delta(1, "Hello wo"));
    view.event(event("run.resumed", { worker: "w2", fromSequence: 4, reason: "worker_lost" }));
    view.event(delta(2, "Hello world."));
    view.event(completed(2, "Hello world."));
    view.result(result({ outputText: "Hello world." }));
    expect(screen()).toMatch(/^Hello wo\nskilldock: .* does not count\nHello world\.\nsucceeded/);
  });

  test("the status line shows turn, tool calls and tokens, and makes room for text", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(event("model.started", { turn: 1 }));
    view.event(delta(1, "I look."));
    view.event(completed(1, "I look.", ["workspace_list", "workspace_read"]));
    view.event(
      event("tool.call", {
        callId: "t1c0",
        capabilityId: "workspace.list@1",
        modelName: "workspace_list",
        arguments: {},
        argumentsDigest: "",
      }),
    );
    expect(screen()).toBe("I look.\n0 s · turn 1 · 2 tool calls · 123 tokens · workspace_list");
    view.event(event("model.started", { turn: 2 }));
    view.event(delta(2, "Done."));
    expect(screen()).toBe("I look.\nDone.");
    view.close();
  });

  test("control characters of the model do nothing", () => {
    const { terminal, stdout, stderr } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(delta(1, "a\u001b[2J\u009b31mb"));
    view.event(completed(1, "a\u001b[2J\u009b31mb\u0007"));
    view.event(
      event("tool.call", {
        callId: "t1c0",
        capabilityId: "",
        modelName: "x\u001b]0;pwned\u0007",
        arguments: {},
        argumentsDigest: "",
      }),
    );
    view.result(result({ status: "failed", error: { code: "internal", message: "no\u001b[2J", retryable: false } }));
    expect(stdout()).toBe("a\uFFFD[2J\uFFFD31mb\uFFFD\n");
    expect(stderr()).not.toContain("\u001b]0");
    expect(stderr()).not.toContain("\u001b[2J");
  });

  test("a run that ends in the middle of its text leaves no half line", () => {
    const { terminal, screen } = testTerminal({ stdout: "tty", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(delta(1, "Hello wo"));
    view.result(result({ status: "cancelled", cancelReason: "enough" }));
    expect(screen()).toBe("Hello wo\nskilldock: run run-00000001 ended cancelled: enough\n");
  });
});

describe("with stdout in a file", () => {
  test("it gets the final text alone, byte for byte, and the terminal the progress", () => {
    const { terminal, stdout, stderr } = testTerminal({ stdout: "pipe", stderr: "tty" });
    const view = new LiveView(terminal);
    view.event(event("model.started", { turn: 1 }));
    view.event(delta(1, "I look."));
    view.event(completed(1, "I look.", ["workspace_list"]));
    view.event(completed(2, "Done.\u0007"));
    view.result(result({ outputText: "Done.\u0007" }));
    expect(stdout()).toBe("Done.\u0007\n");
    expect(stderr()).toContain("turn 1");
  });
});
