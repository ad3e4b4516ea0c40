import type { SchemaType } from "../contracts/schema-type.ts";

const usdPerMillion = { type: "number", minimum: 0, maximum: 1_000_000 } as const;
const deadline = { type: "integer", minimum: 10, maximum: 3_600_000 } as const;

/** One route to a model, as the configuration holds it. Which fields belong to which `api` is checked when routes are built. */
export const MODEL_ROUTE_SCHEMA = {
  type: "object",
  required: ["api"],
  additionalProperties: false,
  properties: {
    api: {
      enum: ["chat", "responses", "scripted"],
      description:
        "`chat`: an OpenAI-compatible Chat Completions server. `scripted`: answers from a file, without a provider.",
    },
    model: {
      type: "string",
      minLength: 1,
      maxLength: 200,
      description: "The provider's name of the model. Required for `chat`.",
    },
    baseUrl: {
      type: "string",
      pattern: "^https?://",
      maxLength: 2000,
      description: "Default https://api.openai.com/v1.",
    },
    apiKeyEnv: {
      type: "string",
      pattern: "^[A-Za-z_][A-Za-z0-9_]*$",
      description:
        "The environment variable that holds the key. Absent: OPENAI_API_KEY where baseUrl is absent or OpenAI's, no key for another server.",
    },
    contextTokens: {
      type: "integer",
      minimum: 1,
      maximum: 100_000_000,
      description: "Size of the model's context window.",
    },
    maxOutputTokens: { type: "integer", minimum: 1, maximum: 100_000_000, description: "Upper bound of one answer." },
    maxTokensField: {
      enum: ["max_completion_tokens", "max_tokens"],
      description: "What the server calls the bound of an answer. Default: by the server's host.",
    },
    pricePerMillion: {
      type: "object",
      required: ["input", "cachedInput", "output"],
      additionalProperties: false,
      description: "USD for a million tokens.",
      properties: { input: usdPerMillion, cachedInput: usdPerMillion, output: usdPerMillion },
    },
    connectTimeoutMs: { ...deadline, description: "Until the response's headers. Default 30,000." },
    idleTimeoutMs: { ...deadline, description: "Longest silence within a response. Default 60,000." },
    totalTimeoutMs: { ...deadline, description: "One model call with its retries. Default 600,000." },
    script: {
      type: "string",
      minLength: 1,
      description: "The script file, relative to the configuration. Required for `scripted`.",
    },
  },
} as const;

/** The `models` section: the default route's id, and the routes by id. */
export const MODELS_SCHEMA = {
  type: "object",
  required: ["default"],
  minProperties: 2,
  properties: { default: { type: "string", description: "The id of the route for requests that name none." } },
  propertyNames: { pattern: "^[a-z0-9][a-z0-9_-]{0,62}$" },
  additionalProperties: MODEL_ROUTE_SCHEMA,
} as const;

export type ModelRouteConfig = SchemaType<typeof MODEL_ROUTE_SCHEMA>;

/** Values that satisfy {@link MODELS_SCHEMA}: every member but `default` is a route. */
export type ModelsConfig = Readonly<Record<string, ModelRouteConfig | string>> & { readonly default: string };
