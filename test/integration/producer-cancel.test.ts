import { describe, expect, test } from "vitest";
import type { RunEvent, RunEventDraft } from "../../src/shared/contracts/event.ts";
import type { RunRequestInput } from "../../src/shared/contracts/request.ts";
import { validateResult } from "../../src/shared/contracts/validate.ts";
import { collect, sequencesOf, setUpProducer } from "../support/producer.ts";
import { claimRun, deltaEvent, terminalEvent } from "../support/run-log.ts";

const REQUEST = { tenantId: "acme", skill: "refund", query: "Where is my money?" } as const satisfies RunRequestInput;
const DIGEST = `sha256:${"a".repeat(64)}`;
const STARTED_AT = "2030-01-01T00:00:00.000Z";

/** Events 2 to 5 of a first attempt that has called a tool. */
function attemptEvents(run: { readonly tenantId: string; readonly runId: string }): readonly RunEvent[] {
  const usage = { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0, estimated: false };
  const call = { callId: "t1c0", modelName: "caller_lookup" };
  const receipt = {
    ...call,
    capabilityId: "caller.lookup@1",
    status: "succeeded",
    effects: "read",
    argumentsDigest: DIGEST,
    resultDigest: DIGEST,
    startedAt: STARTED_AT,
    durationMs: 1,
    bytesIn: 2,
    bytesOut: 2,
    truncated: false,
    attempt: 1,
  } as const;
  const drafts: readonly RunEventDraft[] = [
    { type: "run.started", data: { worker: "w", catalogDigest: DIGEST, skill: "refund", skillDigest: DIGEST } },
    { type: "model.started", data: { turn: 1 } },
    {
      type: "model.completed",
      data: { turn: 1, message: "", toolCalls: [{ ...call, arguments: "{}" }], finishReason: "tool_calls", usage },
    },
    { type: "tool.result", data: { callId: "t1c0", receipt, output: "{}" } },
  ];
  return drafts.map((draft, index) => ({
    schemaVersion: "1",
    ...run,
    sequence: 2 + index,
    time: STARTED_AT,
    attempt: 1,
    terminal: false,
    ...draft,
  }));
}

describe("cancel", () => {
  test("ends a run that has not started with one terminal event and a whole result, and takes its job away", async () => {
    await using at = await setUpProducer();
    const { runId, streamKey } = await at.producer.enqueue(REQUEST);
    const run = { tenantId: "acme", runId };
    expect(await at.producer.cancel({ ...run, reason: "user left" })).toEqual({
      outcome: "cancelled",
      state: "cancelled",
    });
    expect(await at.queue.getJobCounts("waiting", "active", "failed")).toEqual({ waiting: 0, active: 0, failed: 0 });
    const items = await collect(at.producer.follow(run));
    expect(sequencesOf(items)).toEqual([1, 2, "result"]);
    const result = items.at(-1);
    expect(validateResult(result)).toEqual([]);
    expect(result).toMatchObject({
      status: "cancelled",
      cancelReason: "user left",
      attempts: 0,
      catalogDigest: null,
      lastSequence: 2,
    });
    expect(await at.client.pttl(streamKey)).toBeGreaterThan(0);
    expect(await at.producer.cancel(run)).toEqual({ outcome: "already_ended", state: "cancelled" });
    expect(await at.client.xlen(streamKey)).toBe(2);
  });

  test("leaves word for the worker of a run that has started", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const run = { tenantId: "acme", runId };
    const { owner } = await claimRun(at.log, { ...run, grant: 1 });
    expect(await at.producer.cancel({ ...run, reason: "enough" })).toEqual({ outcome: "requested", state: "running" });
    expect(await at.log.append(owner, [deltaEvent(run, 2)])).toMatchObject({
      kind: "written",
      cancel: { reason: "enough" },
    });
    await at.log.finish(owner, [terminalEvent(run, 3, "cancelled")], "cancelled");
    expect(await at.producer.cancel(run)).toEqual({ outcome: "already_ended", state: "cancelled" });
  });

  test("ends a run that was given back, with no worker there, with all that its attempts have done", async () => {
    await using at = await setUpProducer();
    const { runId, streamKey } = await at.producer.enqueue(REQUEST);
    const run = { tenantId: "acme", runId };
    const { owner } = await claimRun(at.log, { ...run, grant: 1 });
    await at.log.append(owner, attemptEvents(run));
    await at.log.handBack(owner);
    expect(await at.producer.cancel({ ...run, reason: "user left" })).toEqual({
      outcome: "cancelled",
      state: "cancelled",
    });
    expect(await at.queue.getWaitingCount()).toBe(0);
    const items = await collect(at.producer.follow(run));
    expect(sequencesOf(items)).toEqual([1, 2, 3, 4, 5, 6, "result"]);
    const result = items.at(-1);
    expect(validateResult(result)).toEqual([]);
    expect(result).toMatchObject({
      status: "cancelled",
      cancelReason: "user left",
      attempts: 1,
      catalogDigest: DIGEST,
      skill: { ref: "refund", digest: DIGEST },
      receipts: [{ callId: "t1c0", status: "succeeded" }],
      evidence: [
        { kind: "skill", ref: "refund", digest: DIGEST },
        { kind: "tool_result", callId: "t1c0", capabilityId: "caller.lookup@1", digest: DIGEST },
      ],
      usage: { turns: 1, toolCalls: 1, inputTokens: 10, outputTokens: 5, totalTokens: 15, estimated: false },
      timings: { startedAt: STARTED_AT },
      lastSequence: 6,
    });
    expect(await at.client.pttl(streamKey)).toBeGreaterThan(0);
    expect(await at.producer.cancel(run)).toEqual({ outcome: "already_ended", state: "cancelled" });
  });

  test("ends a run that was given back before it began, as one that never started", async () => {
    await using at = await setUpProducer();
    const { runId } = await at.producer.enqueue(REQUEST);
    const run = { tenantId: "acme", runId };
    const { owner } = await claimRun(at.log, { ...run, grant: 1 });
    await at.log.handBack(owner);
    expect(await at.producer.cancel(run)).toMatchObject({ outcome: "cancelled" });
    const result = await at.producer.result(run);
    expect(validateResult(result)).toEqual([]);
    expect(result).toMatchObject({ attempts: 1, catalogDigest: null, receipts: [], lastSequence: 2 });
    expect(result?.timings.startedAt).toBeUndefined();
  });

  test("and a hand-back at the same moment end the run, or leave word for the next attempt", async () => {
    await using at = await setUpProducer();
    const runs = await Promise.all(Array.from({ length: 40 }, () => at.producer.enqueue(REQUEST)));
    const owners = await Promise.all(runs.map(({ runId }) => claimRun(at.log, { tenantId: "acme", runId, grant: 1 })));
    const outcomes = await Promise.all(
      owners.map(async ({ owner }) => {
        const run = { tenantId: "acme", runId: owner.runId };
        const [, , { outcome }] = await Promise.all([
          at.log.append(owner, attemptEvents(run)),
          at.log.handBack(owner),
          at.producer.cancel(run),
        ]);
        const next = await at.log.claim({ ...run, grant: 1 }, { claimId: owner.runId, worker: "next" });
        return outcome === "cancelled" ? next.kind : next.kind === "claimed" && next.claim.cancel !== undefined;
      }),
    );
    for (const outcome of outcomes) expect(["ended", true]).toContain(outcome);
  });

  test("of many at once writes one terminal event", async () => {
    await using at = await setUpProducer();
    const { runId, streamKey } = await at.producer.enqueue(REQUEST);
    const replies = await Promise.all(
      Array.from({ length: 30 }, () => at.producer.cancel({ tenantId: "acme", runId })),
    );
    expect(replies.filter(({ outcome }) => outcome === "cancelled")).toHaveLength(1);
    expect(await at.client.xlen(streamKey)).toBe(2);
  });

  test("and a start at the same moment end as one or the other", async () => {
    await using at = await setUpProducer();
    const runs = await Promise.all(Array.from({ length: 60 }, () => at.producer.enqueue(REQUEST)));
    const outcomes = await Promise.all(
      runs.map(async ({ runId }, index) => {
        const run = { tenantId: "acme", runId };
        const claiming = at.log.claim({ ...run, grant: 1 }, { claimId: `c${index}`, worker: "w" });
        const [reply, claim] = await Promise.all([at.producer.cancel(run), claiming]);
        if (claim.kind === "claimed")
          await at.log.finish({ ...run, epoch: 1 }, [terminalEvent(run, 2, "cancelled", 1)], "cancelled");
        return `${reply.outcome} ${claim.kind}`;
      }),
    );
    for (const outcome of outcomes) expect(["cancelled ended", "requested claimed"]).toContain(outcome);
  });
});
