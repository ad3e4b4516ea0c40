import type { JSONSchema } from "json-schema-to-ts";
import { receiptSchema } from "./receipt.ts";
import { runResultSchema } from "./result.ts";
import type { SchemaType } from "./schema-type.ts";

const { $schema: _s1, $id: _i1, ...embeddedReceipt } = receiptSchema;
const { $schema: _s2, $id: _i2, ...embeddedResult } = runResultSchema;
const text = { type: "string" } as const;
const digest = { type: "string", pattern: "^sha256:[0-9a-f]{64}$" } as const;
const turn = { type: "integer", minimum: 1 } as const;
const count = { type: "integer", minimum: 0 } as const;

/** Tokens of one model call. `estimated`: the provider sent none. */
export const modelUsageSchema = {
  type: "object",
  required: ["inputTokens", "cachedInputTokens", "outputTokens", "reasoningTokens", "estimated"],
  properties: {
    inputTokens: count,
    cachedInputTokens: count,
    outputTokens: count,
    reasoningTokens: count,
    estimated: { type: "boolean" },
  },
} as const satisfies JSONSchema;

export const toolCallSchema = {
  type: "object",
  required: ["callId", "modelName", "arguments"],
  properties: {
    callId: text,
    modelName: text,
    arguments: {
      type: "string",
      description: "The arguments as the model wrote them: JSON text, or what was meant to be.",
    },
  },
} as const satisfies JSONSchema;

/** The data of each event type. Open: readers ignore fields and types that they do not know. */
export const eventDataSchemas = {
  "run.queued": {
    type: "object",
    required: ["requestDigest"],
    properties: { requestDigest: digest, skill: text, correlationId: text },
  },
  "run.started": {
    type: "object",
    required: ["worker", "catalogDigest"],
    properties: { worker: text, catalogDigest: digest, skill: text, skillDigest: digest, model: text },
  },
  "run.resumed": {
    type: "object",
    required: ["worker", "fromSequence", "reason"],
    properties: {
      worker: text,
      catalogDigest: digest,
      skill: text,
      skillDigest: digest,
      model: text,
      fromSequence: count,
      reason: { type: "string", description: "worker_lost or handed_over." },
    },
  },
  "model.started": {
    type: "object",
    required: ["turn"],
    properties: { turn, inputTokensEstimate: { ...count, description: "What the call sends, by our estimate." } },
  },
  "model.delta": { type: "object", required: ["turn", "text"], properties: { turn, text } },
  "model.completed": {
    type: "object",
    required: ["turn", "message", "toolCalls", "finishReason", "usage"],
    properties: {
      turn,
      message: { type: "string", description: "The assistant's text of this turn." },
      toolCalls: { type: "array", items: toolCallSchema },
      finishReason: { enum: ["stop", "tool_calls", "length", "content_filter"] },
      usage: modelUsageSchema,
    },
  },
  "tool.call": {
    type: "object",
    required: ["callId", "capabilityId", "modelName", "arguments", "argumentsDigest"],
    properties: { callId: text, capabilityId: text, modelName: text, arguments: {}, argumentsDigest: digest },
  },
  "tool.result": {
    type: "object",
    required: ["callId", "receipt", "output"],
    properties: {
      callId: text,
      receipt: embeddedReceipt,
      output: { type: "string", description: "Exactly what the model saw." },
    },
  },
  "tool.blocked": {
    type: "object",
    required: ["callId", "modelName", "rule", "skills", "allowed", "receipt", "output"],
    properties: {
      callId: text,
      modelName: text,
      rule: {
        enum: ["unknown_tool", "not_allowed", "narrowed", "truncated"],
        description: "truncated: the turn was cut in the middle of its calls.",
      },
      skills: { type: "array", items: text, description: "Active skills that narrow." },
      allowed: { type: "array", items: text, description: "Capability ids that were allowed." },
      receipt: embeddedReceipt,
      output: text,
    },
  },
  "skill.announced": { type: "object", required: ["refs"], properties: { refs: { type: "array", items: text } } },
  "skill.activated": {
    type: "object",
    required: ["ref", "digest", "argumentsDigest"],
    properties: { ref: text, digest, argumentsDigest: digest },
  },
  "skill.reattached": { type: "object", required: ["ref"], properties: { ref: text } },
  "skill.dismissed": { type: "object", required: ["ref", "reason"], properties: { ref: text, reason: text } },
  "thread.compacted": {
    type: "object",
    required: ["summary", "keptFromSequence"],
    properties: {
      summary: text,
      keptFromSequence: count,
      messagesBefore: count,
      messagesAfter: count,
      tokensBefore: count,
      tokensAfter: count,
    },
  },
  "run.final_response": embeddedResult,
  "run.cancelled": embeddedResult,
  "run.error": embeddedResult,
} as const satisfies Record<string, JSONSchema>;

type DataSchemas = typeof eventDataSchemas;
export type EventType = keyof DataSchemas;
export type EventData<T extends EventType = EventType> = SchemaType<DataSchemas[T]>;

/** What the executor yields: an event without its envelope. */
export type RunEventDraft = { readonly [T in EventType]: { readonly type: T; readonly data: EventData<T> } }[EventType];

interface Envelope {
  readonly schemaVersion: "1";
  readonly runId: string;
  readonly tenantId: string;
  /** 1, 2, 3 … without a gap; the stream id is `<sequence>-0`. */
  readonly sequence: number;
  /** ISO 8601 UTC with milliseconds. */
  readonly time: string;
  /** 0 for what happened before the first attempt. */
  readonly attempt: number;
  /** True on exactly one event of a run: its last. */
  readonly terminal: boolean;
}

/** One event of a run, as it stands in the stream's field `e`. */
export type RunEvent = {
  readonly [T in EventType]: Envelope & { readonly type: T; readonly data: EventData<T> };
}[EventType];

export const TERMINAL_EVENT_TYPES: ReadonlySet<string> = new Set([
  "run.final_response",
  "run.cancelled",
  "run.error",
] satisfies EventType[]);

/** JSON Schema of one event: the envelope, and the data that belongs to each known type. */
export const runEventSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:skilldock:contracts:run-event:1",
  title: "RunEvent",
  description: "One event of a run. Readers ignore event types and fields that they do not know.",
  type: "object",
  required: ["schemaVersion", "runId", "tenantId", "sequence", "type", "time", "attempt", "terminal", "data"],
  properties: {
    schemaVersion: { const: "1" },
    runId: text,
    tenantId: text,
    sequence: { type: "integer", minimum: 1 },
    type: text,
    time: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$" },
    attempt: { type: "integer", minimum: 0 },
    terminal: { type: "boolean" },
    data: { type: "object" },
  },
  allOf: Object.entries(eventDataSchemas).map(([type, data]) => ({
    if: { properties: { type: { const: type } } },
    then: { properties: { data, terminal: { const: TERMINAL_EVENT_TYPES.has(type) } } },
  })),
};
