import { describe, expect, test } from "vitest";
import { formatEventLine, toEventLine } from "../../../src/cli/event-lines.ts";
import type { RunEvent } from "../../../src/shared/contracts/event.ts";

function line(type: string, data: Readonly<Record<string, unknown>>): string | undefined {
  const event = {
    schemaVersion: "1",
    runId: "r",
    tenantId: "t",
    sequence: 12,
    type,
    time: "",
    attempt: 1,
    terminal: false,
    data,
  };
  const made = toEventLine(event as unknown as RunEvent); // also of types that this version does not know
  return made && formatEventLine(made);
}

const receipt = { status: "failed", code: "path_refused", durationMs: 12 };

describe("an event in a line", () => {
  test.each([
    [
      "run.started",
      { worker: "w1", skill: "greet", skillDigest: `sha256:${"a".repeat(64)}`, model: "fast:m" },
      "greet@sha256:aaaaaaaa · fast:m · on w1",
    ],
    ["run.resumed", { worker: "w2", fromSequence: 7, reason: "worker_lost" }, "worker_lost · after event 7 · on w2"],
    [
      "model.completed",
      { turn: 2, message: "a\nb", toolCalls: [], finishReason: "stop", usage: { inputTokens: 1_234, outputTokens: 5 } },
      "turn 2 · stop · 1,234 in, 5 out · a b",
    ],
    [
      "tool.call",
      { callId: "t1c0", modelName: "workspace_read", arguments: { path: "x" } },
      't1c0 · workspace_read · {"path":"x"}',
    ],
    ["tool.result", { callId: "t1c0", receipt, output: "no" }, "t1c0 · failed · path_refused · 12 ms · no"],
    ["tool.blocked", { callId: "t1c0", modelName: "nope", rule: "unknown_tool" }, "t1c0 · nope · unknown_tool"],
  ])("%s says what matters", (type, data, detail) => {
    expect(line(type, data)).toBe(`  12  ${type.padEnd(18)}  ${detail}`);
  });

  test("a type that is not known yet is named", () => {
    expect(line("run.teleported", { where: 1 })).toBe("  12  run.teleported");
  });

  test("a preview has none", () => {
    expect(line("model.delta", { turn: 1, text: "x" })).toBeUndefined();
  });

  test("nothing that a model or a tool says controls the terminal, or breaks the line", () => {
    const hostile = "\u001b[2J\u0007\n\r\u009b31m";
    expect(line("tool.call", { callId: hostile, modelName: hostile, arguments: { [hostile]: hostile } })).not.toMatch(
      // eslint-disable-next-line no-control-regex -- control characters are what this is about
      /[\u0000-\u001f\u007f-\u009f]/,
    );
  });
});
