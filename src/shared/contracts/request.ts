import type { JSONSchema } from "json-schema-to-ts";
import { workspacePolicySchema } from "./policy.ts";
import type { SchemaType } from "./schema-type.ts";

export const TENANT_ID_PATTERN = "^[a-z0-9][a-z0-9_-]{0,62}$";
export const RUN_ID_PATTERN = "^[A-Za-z0-9_-]{8,64}$";
const SKILL_REF = "[a-z0-9][a-z0-9-]{0,63}";

/** `query` and `arguments` are bounded in UTF-8 bytes, which JSON Schema cannot say: the validator adds it. */
export const MAX_TEXT_BYTES = 262_144;

const { $schema: _schema, $id: _id, ...embeddedPolicy } = workspacePolicySchema;

export const limitsSchema = {
  title: "RunLimits",
  description: "Bounds that hold for the run as a whole, across attempts.",
  type: "object",
  additionalProperties: false,
  properties: {
    maxTurns: { type: "integer", minimum: 1, maximum: 1_000, default: 16, description: "Model turns." },
    maxToolCalls: {
      type: "integer",
      minimum: 0,
      maximum: 10_000,
      default: 64,
      description: "Tool calls that the model asks for, blocked ones included.",
    },
    wallClockMs: {
      type: "integer",
      minimum: 1,
      maximum: 86_400_000,
      default: 300_000,
      description: "Milliseconds from the first run.started to the end.",
    },
    maxOutputBytes: {
      type: "integer",
      minimum: 1,
      maximum: 10_000_000,
      default: 200_000,
      description: "Assistant text of the whole run, UTF-8 bytes.",
    },
    maxTotalTokens: {
      type: "integer",
      minimum: 1,
      description: "Input and output tokens of all model calls. Absent: none.",
    },
    maxCostUsd: { type: "number", exclusiveMinimum: 0, description: "Model cost in USD. Absent: none." },
    maxAttempts: {
      type: "integer",
      minimum: 1,
      maximum: 100,
      default: 3,
      description: "Attempts spent on lost workers.",
    },
    maxQueueWaitMs: {
      type: "integer",
      minimum: 1,
      maximum: 2_592_000_000,
      default: 86_400_000,
      description: "Milliseconds from due time to the first attempt.",
    },
  },
} as const satisfies JSONSchema;

/** One run, as a producer asks for it. Closed: an unknown field is refused. */
export const runRequestSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:skilldock:contracts:run-request:1",
  title: "RunRequest",
  description: "One run: one skill (or a choice of skills), one query, bounded.",
  type: "object",
  additionalProperties: false,
  required: ["tenantId"],
  properties: {
    tenantId: { type: "string", pattern: TENANT_ID_PATTERN, description: "Whose run it is." },
    runId: { type: "string", pattern: RUN_ID_PATTERN, description: "Default: a UUIDv7 made by the producer." },
    idempotencyKey: {
      type: "string",
      minLength: 1,
      maxLength: 255,
      description: "Per tenant. The same key and payload answer with the run that exists.",
    },
    correlationId: { type: "string", minLength: 1, maxLength: 255, description: "Recorded, in every log line." },
    caller: {
      type: "object",
      additionalProperties: false,
      required: ["id"],
      properties: {
        id: { type: "string", minLength: 1, maxLength: 255 },
        type: { type: "string", minLength: 1, maxLength: 63 },
      },
      description: "Who asked, as the producer knows it.",
    },
    skill: {
      type: "string",
      pattern: `^${SKILL_REF}(@sha256:[0-9a-f]{64})?$`,
      description: "Skill ref (its directory's name), optionally pinned to a digest. Active before turn 1.",
    },
    discover: {
      anyOf: [
        { enum: ["none", "all"] },
        { type: "array", maxItems: 500, uniqueItems: true, items: { type: "string", pattern: `^${SKILL_REF}$` } },
      ],
      description: "Which skills the model may find and activate. Default: none with `skill`, all without.",
    },
    arguments: { type: "string", maxLength: MAX_TEXT_BYTES, description: "Text for the skill's $ARGUMENTS." },
    query: {
      type: "string",
      maxLength: MAX_TEXT_BYTES,
      default: "",
      description: "The user's text, at most 262,144 UTF-8 bytes.",
    },
    threadId: { type: "string", pattern: RUN_ID_PATTERN, description: "Conversation. Not together with startAfter." },
    model: {
      type: "string",
      pattern: "^[A-Za-z0-9_.-]{1,63}(:[^\\s\\u0000]{1,191})?$",
      description: "A route id, or <route>:<model>. Default: the default route.",
    },
    allowedCapabilities: {
      type: "array",
      maxItems: 64,
      uniqueItems: true,
      default: [],
      items: { type: "string", pattern: "^[a-z][a-z0-9_]*(\\.[a-z0-9_]+)*@[1-9][0-9]{0,5}$" },
      description: "Stable capability ids such as workspace.read@1.",
    },
    limits: { ...limitsSchema, default: {} },
    onWorkerLoss: {
      enum: ["fail", "restart"],
      default: "fail",
      description: "What happens where a run cannot be resumed faithfully.",
    },
    workspacePolicy: { ...embeddedPolicy, default: {} },
    responseSchema: {
      type: "object",
      description: "JSON Schema for the final text, which must be JSON then. At most 32 KiB and 16 levels.",
    },
    priority: { type: "integer", minimum: 0, maximum: 9, default: 0, description: "9 first, inside the tenant only." },
    startAfter: {
      type: "string",
      pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,3})?Z$",
      description: "ISO 8601 UTC. The run is not due before.",
    },
    metadata: {
      type: "object",
      maxProperties: 16,
      propertyNames: { minLength: 1, maxLength: 64 },
      additionalProperties: { type: "string", maxLength: 1_024 },
      description: "The producer's own labels. Recorded.",
    },
  },
} as const satisfies JSONSchema;

type RequestSchema = typeof runRequestSchema;
type Limits = SchemaType<typeof limitsSchema>;

/** What a caller hands in: fields with a default may be left out. */
export type RunRequestInput = SchemaType<RequestSchema, { keepDefaultedPropertiesOptional: true }>;

/** A validated request: defaults filled in, run id chosen. Frozen. */
export type RunRequest = SchemaType<RequestSchema> & { readonly runId: string };

/** The limits of a validated request. */
export type RunLimits = Readonly<Limits>;
