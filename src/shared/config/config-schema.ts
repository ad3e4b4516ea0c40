import { TENANT_ID_PATTERN } from "../contracts/request.ts";
import type { SchemaType } from "../contracts/schema-type.ts";
import { LOG_LEVELS } from "../logging/log-level.ts";
import { MODELS_SCHEMA } from "./model-routes.ts";

/**
 * The one schema of `skilldock.yaml`, of the environment and of flags.
 *
 * `x-env` names the environment variable of a field. Integer fields named `…Ms`, and those with
 * `x-unit: "duration"`, also take `30s`; those with `x-unit: "size"` take `10MB`.
 */
export const CONFIG_SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  title: "SkilldockConfiguration",
  type: "object",
  additionalProperties: false,
  properties: {
    redis: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: {
        url: {
          type: "string",
          maxLength: 2_000,
          pattern: "^rediss?://[^\\s]+$",
          default: "redis://127.0.0.1:6379",
          "x-env": "REDIS_URL",
          description: "redis:// or rediss://, with user, password and database where needed.",
        },
      },
    },
    models: { ...MODELS_SCHEMA, description: "Routes to models, and which is the default." },
    skills: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: {
        directories: {
          type: "array",
          maxItems: 100,
          items: { type: "string", minLength: 1 },
          default: [],
          "x-env": "SKILLDOCK_SKILLS",
          description: "Directories of skills: paths, relative to this file, or file:// URLs.",
        },
      },
    },
    worker: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: {
        concurrency: {
          type: "integer",
          minimum: 1,
          maximum: 1_000,
          default: 32,
          "x-env": "SKILLDOCK_CONCURRENCY",
          description: "Runs at a time.",
        },
        metricsPort: {
          type: "integer",
          minimum: 0,
          maximum: 65_535,
          default: 9_464,
          "x-env": "SKILLDOCK_METRICS_PORT",
          description: "Port of /metrics, /healthz, /readyz. 0: a free one.",
        },
        metricsHost: {
          type: "string",
          minLength: 1,
          maxLength: 255,
          default: "127.0.0.1",
          "x-env": "SKILLDOCK_METRICS_HOST",
          description: "Address that port is opened on.",
        },
        graceMs: {
          type: "integer",
          minimum: 0,
          maximum: 3_600_000,
          default: 20_000,
          "x-env": "SKILLDOCK_GRACE_MS",
          description: "How long a closing worker lets runs finish before it hands them over.",
        },
        lockDurationMs: {
          type: "integer",
          minimum: 500,
          maximum: 600_000,
          default: 10_000,
          "x-env": "SKILLDOCK_LOCK_DURATION_MS",
          description: "A worker that is silent for so long loses its runs.",
        },
        stalledIntervalMs: {
          type: "integer",
          minimum: 100,
          maximum: 600_000,
          default: 5_000,
          "x-env": "SKILLDOCK_STALLED_INTERVAL_MS",
          description: "How often lost runs are looked for.",
        },
        installation: {
          type: "string",
          pattern: "^[a-z0-9][a-z0-9_-]{0,62}$",
          default: "default",
          "x-env": "SKILLDOCK_INSTALLATION",
          description: "Whose sandboxes a worker may sweep: workers that share an engine but not a Redis differ in it.",
        },
        tools: {
          type: "string",
          minLength: 1,
          "x-env": "SKILLDOCK_TOOLS",
          description: "Module that exports caller tools. A path that begins with a dot is relative to this file.",
        },
      },
    },
    sandbox: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: {
        backend: {
          enum: ["docker", "none"],
          default: "docker",
          "x-env": "SKILLDOCK_SANDBOX",
          description: "none: workspace capabilities are denied.",
        },
        image: {
          type: "string",
          minLength: 1,
          maxLength: 500,
          "x-env": "SKILLDOCK_SANDBOX_IMAGE",
          description: "Image of sandboxes.",
        },
        runtime: {
          type: "string",
          pattern: "^[A-Za-z0-9_.-]{1,64}$",
          "x-env": "SKILLDOCK_SANDBOX_RUNTIME",
          description: "Container runtime, such as runsc.",
        },
        memory: {
          type: "integer",
          minimum: 16_777_216,
          maximum: 1_000_000_000_000,
          "x-unit": "size",
          "x-env": "SKILLDOCK_SANDBOX_MEMORY",
          description: "Memory of one sandbox.",
        },
        cpus: {
          type: "number",
          minimum: 0.05,
          maximum: 256,
          "x-env": "SKILLDOCK_SANDBOX_CPUS",
          description: "CPUs of one sandbox.",
        },
        pids: {
          type: "integer",
          minimum: 16,
          maximum: 100_000,
          "x-env": "SKILLDOCK_SANDBOX_PIDS",
          description: "Processes of one sandbox.",
        },
      },
    },
    tenants: {
      type: "object",
      default: {},
      propertyNames: { pattern: TENANT_ID_PATTERN },
      additionalProperties: { type: "object", additionalProperties: false, properties: {} },
      description: "Who may enqueue. The record `default` admits tenants that have none of their own.",
    },
    log: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: { level: { enum: LOG_LEVELS, default: "info", "x-env": "SKILLDOCK_LOG_LEVEL" } },
    },
    retention: {
      type: "object",
      additionalProperties: false,
      default: {},
      properties: {
        ttl: {
          type: "integer",
          minimum: 1_000,
          maximum: 31_536_000_000,
          default: 86_400_000,
          "x-unit": "duration",
          "x-env": "SKILLDOCK_RETENTION_TTL",
          description: "Life of a run's record and stream after its end.",
        },
      },
    },
  },
} as const;

/** Keywords that only this project reads. */
export const CONFIG_KEYWORDS = ["x-env", "x-unit"] as const;

/** Fields of tenant records that are planned and refused as `not_supported` until they work. */
export const PLANNED_TENANT_FIELDS: ReadonlySet<string> = new Set([
  "weight",
  "maxConcurrentRuns",
  "maxQueuedRuns",
  "runsPerMinute",
  "tokensPerDay",
  "costUsdPerDay",
  "maxLimits",
  "skills",
  "capabilities",
  "models",
  "workspacePolicy",
  "suspended",
]);

/** Variables that configure no field: read by an entry point, or by the compose file. */
export const OTHER_VARIABLES: ReadonlySet<string> = new Set([
  "SKILLDOCK_CONFIG",
  "SKILLDOCK_TENANT",
  "SKILLDOCK_IMAGE",
  "SKILLDOCK_CONFIG_FILE",
  "SKILLDOCK_SCRIPT_FILE",
]);

/** What {@link CONFIG_SCHEMA} accepts, with defaults filled in. */
export type ConfigDocument = SchemaType<Omit<typeof CONFIG_SCHEMA, "$schema">>;

/** The part of a schema that reading values needs. */
export interface FieldSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly additionalProperties?: FieldSchema | boolean;
  readonly "x-env"?: string;
  readonly "x-unit"?: "duration" | "size";
}

/** A field that an environment variable sets. */
export interface VariableField {
  readonly variable: string;
  readonly path: readonly string[];
}

/** Every variable with the field it sets. */
export const VARIABLE_FIELDS: readonly VariableField[] = variableFields(CONFIG_SCHEMA, []);

function variableFields(schema: FieldSchema, path: readonly string[]): readonly VariableField[] {
  const own = schema["x-env"] === undefined ? [] : [{ variable: schema["x-env"], path }];
  return [
    ...own,
    ...Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => variableFields(inner, [...path, name])),
  ];
}

/** @returns The schema of a member; undefined where there is none. */
export function memberSchema(schema: FieldSchema, name: string): FieldSchema | undefined {
  if (schema.properties !== undefined && Object.hasOwn(schema.properties, name)) return schema.properties[name];
  return typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
}
