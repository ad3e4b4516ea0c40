import type { JSONSchema } from "json-schema-to-ts";
import { receiptSchema } from "./receipt.ts";
import type { SchemaType } from "./schema-type.ts";

const { $schema: _schema, $id: _id, ...embeddedReceipt } = receiptSchema;
const digest = { type: "string", pattern: "^sha256:[0-9a-f]{64}$" } as const;
const count = { type: "integer", minimum: 0 } as const;

export const TERMINAL_STATES = [
  "succeeded",
  "cancelled",
  "policy_denied",
  "limit_exceeded",
  "timed_out",
  "failed",
] as const;
export type TerminalState = (typeof TERMINAL_STATES)[number];
export type RunState = "queued" | "running" | TerminalState;

export const errorBodySchema = {
  type: "object",
  required: ["code", "message", "retryable"],
  properties: {
    code: { type: "string" },
    message: { type: "string" },
    retryable: { type: "boolean", description: "The same request may succeed later." },
    details: { type: "object" },
  },
} as const satisfies JSONSchema;

/** Tokens are the provider's figures; `cachedInputTokens` ⊂ `inputTokens`, `reasoningTokens` ⊂ `outputTokens`. */
export const usageSchema = {
  title: "Usage",
  type: "object",
  required: [
    "turns",
    "modelCalls",
    "toolCalls",
    "inputTokens",
    "cachedInputTokens",
    "outputTokens",
    "reasoningTokens",
    "totalTokens",
    "estimated",
    "sandboxMs",
  ],
  properties: {
    turns: { ...count, description: "Model turns begun." },
    modelCalls: { ...count, description: "Model requests sent, repeated ones included." },
    toolCalls: { ...count, description: "Tool calls asked for, blocked ones included." },
    inputTokens: count,
    cachedInputTokens: count,
    outputTokens: count,
    reasoningTokens: count,
    totalTokens: { ...count, description: "inputTokens + outputTokens." },
    costUsd: { type: "number", minimum: 0, description: "Absent where the route has no price." },
    estimated: { type: "boolean", description: "At least one call came back without usage and was estimated." },
    sandboxMs: { ...count, description: "Life of the run's sandbox, create to destroy." },
  },
} as const satisfies JSONSchema;

/** Which read resource or tool result stands behind the run. A pure function of receipts and manifest. */
export const evidenceSchema = {
  title: "Evidence",
  type: "object",
  required: ["kind", "digest"],
  properties: {
    kind: { enum: ["skill", "resource", "tool_result"] },
    digest: { ...digest, description: "Of the skill, the resource's content, or the output that the model saw." },
    callId: { type: "string", description: "The call that brought it. Absent for kind skill." },
    path: { type: "string", description: "Kind resource: virtual path under /workspace." },
    ref: { type: "string", description: "Kind skill and staged resources: the skill's ref." },
    capabilityId: { type: "string", description: "Kind tool_result." },
  },
} as const satisfies JSONSchema;

export const runResultSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:skilldock:contracts:run-result:1",
  title: "RunResult",
  description: "The one result of a run. It is also the data of the run's terminal event.",
  type: "object",
  required: [
    "type",
    "schemaVersion",
    "runId",
    "tenantId",
    "status",
    "outputText",
    "receipts",
    "evidence",
    "usage",
    "catalogDigest",
    "attempts",
    "timings",
    "lastSequence",
  ],
  properties: {
    type: { const: "result" },
    schemaVersion: { const: "1" },
    runId: { type: "string" },
    tenantId: { type: "string" },
    status: { enum: TERMINAL_STATES },
    outputText: { type: "string", description: "The final text; empty unless succeeded." },
    output: { description: "The final text as JSON, where the request has a responseSchema and the run succeeded." },
    error: { ...errorBodySchema, description: "Present unless the run succeeded or was cancelled." },
    cancelReason: { type: "string", description: "Cancelled runs: the reason given, if any." },
    cancelledAfterMs: {
      ...count,
      description: "Cancelled runs: from the worker's notice of the request to this event.",
    },
    sandboxUnconfirmed: { type: "boolean", description: "True where the sandbox's removal was not confirmed in 10 s." },
    receipts: { type: "array", items: embeddedReceipt },
    evidence: { type: "array", items: evidenceSchema },
    usage: usageSchema,
    skill: {
      type: "object",
      required: ["ref", "digest"],
      properties: { ref: { type: "string" }, digest },
    },
    catalogDigest: { anyOf: [digest, { type: "null" }], description: "null where no attempt ever started." },
    attempts: { ...count, description: "Attempts that began. 0: the run ended while it waited." },
    timings: {
      type: "object",
      required: ["queuedAt", "endedAt", "queueWaitMs", "durationMs"],
      properties: {
        queuedAt: { type: "string" },
        startedAt: { type: "string", description: "First run.started. Absent where no attempt ever started." },
        endedAt: { type: "string" },
        queueWaitMs: { ...count, description: "queuedAt to startedAt, or to endedAt." },
        durationMs: { ...count, description: "startedAt to endedAt, or 0." },
      },
    },
    lastSequence: { type: "integer", minimum: 1, description: "The sequence of the terminal event." },
  },
} as const satisfies JSONSchema;

export type Usage = SchemaType<typeof usageSchema>;
export type Evidence = SchemaType<typeof evidenceSchema>;
export type RunResult = SchemaType<typeof runResultSchema>;
