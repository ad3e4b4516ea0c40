import type { JSONSchema } from "json-schema-to-ts";
import type { SchemaType } from "./schema-type.ts";

const digest = { type: "string", pattern: "^sha256:[0-9a-f]{64}$" } as const;

/** What happened to one tool call. One receipt for every call that was dispatched or refused. */
export const receiptSchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:skilldock:contracts:receipt:1",
  title: "Receipt",
  type: "object",
  required: [
    "callId",
    "capabilityId",
    "modelName",
    "status",
    "effects",
    "argumentsDigest",
    "resultDigest",
    "startedAt",
    "durationMs",
    "bytesIn",
    "bytesOut",
    "truncated",
    "attempt",
  ],
  properties: {
    callId: {
      type: "string",
      pattern: "^t[0-9]+c[0-9]+$",
      description: "t<turn>c<index>, ours, never the provider's.",
    },
    capabilityId: { type: "string", description: "Stable id; empty where the model's name means no capability." },
    modelName: { type: "string", description: "The name that the model used, at most 128 characters." },
    status: { enum: ["succeeded", "failed", "blocked", "indeterminate"] },
    code: { type: "string", description: "Present unless succeeded." },
    effects: { enum: ["none", "read", "write", "external"], description: "The tool's declared effects class." },
    argumentsDigest: {
      ...digest,
      description: "SHA-256 of the canonical JSON of the arguments, or of their text where they are not JSON.",
    },
    resultDigest: { ...digest, description: "SHA-256 of the output text that the model saw." },
    startedAt: { type: "string" },
    durationMs: { type: "integer", minimum: 0 },
    bytesIn: { type: "integer", minimum: 0, description: "UTF-8 bytes of the arguments." },
    bytesOut: { type: "integer", minimum: 0, description: "UTF-8 bytes of the output." },
    truncated: { type: "boolean", description: "The model saw less than the tool produced." },
    attempt: { type: "integer", minimum: 1 },
    resource: {
      type: "object",
      required: ["path", "digest"],
      properties: {
        path: { type: "string", description: "Virtual path under /workspace." },
        digest: { ...digest, description: "SHA-256 of the bytes that were read." },
      },
      description: "Succeeded reads whose whole text reached the model: what was read.",
    },
    policyDigest: { ...digest, description: "Workspace calls only: SHA-256 of the canonical workspace policy." },
  },
} as const satisfies JSONSchema;

export type Receipt = SchemaType<typeof receiptSchema>;
export type ReceiptStatus = Receipt["status"];
export type Effects = Receipt["effects"];
