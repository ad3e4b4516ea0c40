import type { JSONSchema } from "json-schema-to-ts";
import type { SchemaType } from "./schema-type.ts";

/** What a run may do to its workspace. Closed: an unknown field is refused. Defaults as given per field. */
export const workspacePolicySchema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  $id: "urn:skilldock:contracts:workspace-policy:1",
  title: "WorkspacePolicy",
  description: "Limits of a run's workspace. They hold for staged skill files and for what the run writes.",
  type: "object",
  additionalProperties: false,
  properties: {
    maxFiles: {
      type: "integer",
      minimum: 1,
      maximum: 10_000,
      default: 100,
      description: "Regular files in the workspace at any time after a call. Directories do not count.",
    },
    maxTotalBytes: {
      type: "integer",
      minimum: 1,
      maximum: 100_000_000,
      default: 10_000_000,
      description: "Sum of the sizes of all regular files, in bytes.",
    },
    maxFileBytes: {
      type: "integer",
      minimum: 1,
      maximum: 100_000_000,
      default: 1_000_000,
      description: "Size of one regular file, in bytes.",
    },
    commandTimeoutMs: {
      type: "integer",
      minimum: 100,
      maximum: 600_000,
      default: 20_000,
      description: "Wall clock of one command, in milliseconds. The command and all its children are killed then.",
    },
    maxCommandOutputBytes: {
      type: "integer",
      minimum: 0,
      maximum: 10_000_000,
      default: 100_000,
      description: "stdout and stderr of one command together, in bytes. At the first byte more the command is killed.",
    },
    environment: {
      type: "object",
      default: {},
      maxProperties: 64,
      propertyNames: { pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$" },
      additionalProperties: { type: "string", maxLength: 32_768, pattern: "^[^\\u0000]*$" },
      description: "The whole environment of commands: names and values. Nothing is inherited.",
    },
    network: { const: "disabled", default: "disabled", description: "There is no other value." },
  },
} as const satisfies JSONSchema;

/** A policy with every default filled in. */
export type WorkspacePolicy = SchemaType<typeof workspacePolicySchema>;
