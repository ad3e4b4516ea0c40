import { expectTypeOf, test } from "vitest";
import type { EventType, RunEvent } from "../../../src/shared/contracts/event.ts";
import type { Receipt } from "../../../src/shared/contracts/receipt.ts";
import type { RunRequest, RunRequestInput } from "../../../src/shared/contracts/request.ts";
import type { RunResult } from "../../../src/shared/contracts/result.ts";
import { RunError, type ReceiptCode, type RunErrorCode } from "../../../src/shared/errors.ts";

const smallest: RunRequestInput = { tenantId: "acme", skill: "refund" };

test("a request needs its tenant and knows its fields", () => {
  expectTypeOf(smallest).toExtend<RunRequestInput>();
  // @ts-expect-error the tenant is missing
  expectTypeOf<RunRequestInput>({ skill: "refund" });
  // @ts-expect-error an unknown field
  expectTypeOf<RunRequestInput>({ tenantId: "acme", skil: "refund" });
  // @ts-expect-error there is no network
  expectTypeOf<RunRequestInput>({ tenantId: "acme", workspacePolicy: { network: "enabled" } });
  // @ts-expect-error a number in quotes
  expectTypeOf<RunRequestInput>({ tenantId: "acme", limits: { maxTurns: "3" } });
});

test("a validated request has its defaults and cannot be written", () => {
  expectTypeOf<RunRequest["limits"]["maxTurns"]>().toEqualTypeOf<number>();
  expectTypeOf<RunRequest["workspacePolicy"]["network"]>().toEqualTypeOf<"disabled">();
  const write = (request: RunRequest): void => {
    // @ts-expect-error readonly
    request.query = "other";
    // @ts-expect-error readonly, deep inside
    request.limits.maxTurns = 99;
  };
  expectTypeOf(write).toBeFunction();
});

test("an event's data follows its type", () => {
  const read = (event: RunEvent): unknown => {
    if (event.type === "model.delta") return event.data.text.length;
    if (event.type === "run.final_response") return event.data.usage.totalTokens;
    // @ts-expect-error no other event has a text of its own
    return event.data.text;
  };
  expectTypeOf(read).toBeFunction();
  expectTypeOf<"run.queued">().toExtend<EventType>();
  expectTypeOf<"run.paused">().not.toExtend<EventType>();
});

test("results and receipts are closed in what they say", () => {
  expectTypeOf<RunResult["status"]>().toEqualTypeOf<
    "succeeded" | "cancelled" | "policy_denied" | "limit_exceeded" | "timed_out" | "failed"
  >();
  expectTypeOf<Receipt["status"]>().toEqualTypeOf<"succeeded" | "failed" | "blocked" | "indeterminate">();
});

test("an error has a code of the table, each in its place", () => {
  // @ts-expect-error no such code
  expectTypeOf(() => new RunError("oops")).toBeFunction();
  expectTypeOf<"file_not_found">().toExtend<ReceiptCode>();
  expectTypeOf<"file_not_found">().not.toExtend<RunErrorCode>();
  expectTypeOf<"queue_full">().not.toExtend<RunErrorCode>();
});
