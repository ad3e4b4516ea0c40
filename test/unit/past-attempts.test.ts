import { expect, test } from "vitest";
import type { RunEvent, RunEventDraft } from "../../src/shared/contracts/event.ts";
import type { Receipt } from "../../src/shared/contracts/receipt.ts";
import { evidenceOf, PastAttemptsFold, type PastAttempts } from "../../src/shared/run-log/past-attempts.ts";

const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;
const usage = { inputTokens: 10, cachedInputTokens: 4, outputTokens: 5, reasoningTokens: 2, estimated: false };

function receipt(change: Partial<Receipt>): Receipt {
  return {
    callId: "t1c0",
    capabilityId: "caller.lookup@1",
    modelName: "caller_lookup",
    status: "succeeded",
    effects: "read",
    argumentsDigest: digest("1"),
    resultDigest: digest("2"),
    startedAt: "2030-01-01T00:00:00.000Z",
    durationMs: 1,
    bytesIn: 2,
    bytesOut: 2,
    truncated: false,
    attempt: 1,
    ...change,
  };
}

function fold(drafts: readonly RunEventDraft[]): PastAttempts {
  const folded = new PastAttemptsFold();
  for (const [index, draft] of drafts.entries()) {
    const event: RunEvent = {
      schemaVersion: "1",
      tenantId: "acme",
      runId: "run-0000001",
      sequence: index + 1,
      time: new Date(1_000 * index).toISOString(),
      attempt: 1,
      terminal: false,
      ...draft,
    };
    folded.add(event);
  }
  return folded.end();
}

const QUEUED: RunEventDraft = { type: "run.queued", data: { requestDigest: digest("0") } };
const STARTED: RunEventDraft = {
  type: "run.started",
  data: { worker: "a", catalogDigest: digest("a"), skill: "refund", skillDigest: digest("b") },
};

test("a run without an attempt has used nothing, and has no digests", () => {
  expect(fold([QUEUED])).toMatchObject({
    usage: { turns: 0, totalTokens: 0, estimated: false },
    receipts: [],
    startedAt: undefined,
    catalogDigest: undefined,
    skill: undefined,
    lastSequence: 1,
  });
});

test("usage, text and receipts of all attempts are summed; the first start and the last catalog count", () => {
  const result = receipt({});
  const blocked = receipt({ callId: "t2c0", status: "blocked", code: "tool_not_allowed", attempt: 2 });
  const call = { callId: "t1c0", modelName: "caller_lookup", arguments: "{}" };
  const past = fold([
    QUEUED,
    STARTED,
    { type: "model.started", data: { turn: 1, inputTokensEstimate: 99 } },
    { type: "model.delta", data: { turn: 1, text: "ähm" } },
    {
      type: "model.completed",
      data: { turn: 1, message: "ähm", toolCalls: [call], finishReason: "tool_calls", usage },
    },
    { type: "tool.result", data: { callId: "t1c0", receipt: result, output: "{}" } },
    {
      type: "run.resumed",
      data: { worker: "b", fromSequence: 6, reason: "worker_lost", catalogDigest: digest("c") },
    },
    { type: "model.started", data: { turn: 2 } },
    {
      type: "model.completed",
      data: { turn: 2, message: "", toolCalls: [{ ...call, callId: "t2c0" }], finishReason: "tool_calls", usage },
    },
    {
      type: "tool.blocked",
      data: {
        callId: "t2c0",
        modelName: "caller_lookup",
        rule: "not_allowed",
        skills: [],
        allowed: [],
        receipt: blocked,
        output: "no",
      },
    },
  ]);
  expect(past).toEqual({
    usage: {
      turns: 2,
      modelCalls: 2,
      toolCalls: 2,
      inputTokens: 20,
      cachedInputTokens: 8,
      outputTokens: 10,
      reasoningTokens: 4,
      totalTokens: 30,
      estimated: false,
      sandboxMs: 0,
    },
    receipts: [result, blocked],
    outputBytes: 4,
    startedAt: 1_000,
    catalogDigest: digest("c"),
    skill: { ref: "refund", digest: digest("b") },
    lastSequence: 10,
  });
});

test("model calls that broke off are charged by what they sent and what was seen of them, and say so", () => {
  const past = fold([
    QUEUED,
    STARTED,
    { type: "model.started", data: { turn: 1, inputTokensEstimate: 100 } },
    { type: "model.delta", data: { turn: 1, text: "x".repeat(7) } },
    { type: "run.resumed", data: { worker: "b", fromSequence: 4, reason: "worker_lost" } },
    { type: "model.started", data: { turn: 2, inputTokensEstimate: 50 } },
  ]);
  expect(past.usage).toMatchObject({ turns: 2, inputTokens: 150, outputTokens: 2, totalTokens: 152, estimated: true });
});

test("evidence is the skill, what was read and what tools answered; failures are none", () => {
  const file = { path: "/workspace/skills/refund/policy.md", digest: digest("3") };
  const other = { path: "/workspace/skills/refund-2/policy.md", digest: digest("4") };
  const receipts = [
    receipt({}),
    receipt({ callId: "t1c1", status: "failed", code: "tool_failed" }),
    receipt({ callId: "t1c2", resource: file }),
    receipt({ callId: "t1c3", resource: other }),
  ];
  expect(evidenceOf(receipts, { ref: "refund", digest: digest("b") })).toEqual([
    { kind: "skill", ref: "refund", digest: digest("b") },
    { kind: "tool_result", callId: "t1c0", capabilityId: "caller.lookup@1", digest: digest("2") },
    { kind: "resource", callId: "t1c2", ...file, ref: "refund" },
    { kind: "resource", callId: "t1c3", ...other },
  ]);
  expect(evidenceOf([], undefined)).toEqual([]);
});
