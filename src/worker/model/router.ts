import { resolve } from "node:path";
import { systemClock, type Clock } from "../../shared/clock.ts";
import type { ModelRouteConfig, ModelsConfig } from "../../shared/config/model-routes.ts";
import { loadScript } from "../../shared/config/script-file.ts";
import { RunError } from "../../shared/errors.ts";
import { createChatModel } from "./chat.ts";
import type { Model, ModelRoute, ModelRouter } from "./model.ts";
import { ScriptedModel } from "./scripted.ts";

const OPENAI_HOST = "api.openai.com";
const OPENAI_BASE_URL = `https://${OPENAI_HOST}/v1`;
const OPENAI_KEY = "OPENAI_API_KEY";
const CHAT_FIELDS = [
  "baseUrl",
  "apiKeyEnv",
  "maxTokensField",
  "connectTimeoutMs",
  "idleTimeoutMs",
  "totalTimeoutMs",
] as const;

/**
 * Builds the router of a process.
 *
 * A name is a route's id or `<route>:<model>`; the model of the second form goes to the provider unchecked, and may
 * hold colons itself.
 *
 * @throws {RunError} `invalid_configuration` for a default that is no route, or two routes with one id.
 */
export function createModelRouter(options: {
  readonly default: string;
  readonly routes: readonly ModelRoute[];
}): ModelRouter {
  const routes = new Map(options.routes.map((route) => [route.id, route]));
  const known = [...routes.keys()].sort();
  if (routes.size !== options.routes.length) throw misconfigured("Two model routes have the same id.");
  if (!routes.has(options.default)) {
    throw misconfigured(
      `The default model route ${options.default} does not exist. Known routes: ${known.join(", ")}.`,
    );
  }
  return {
    routes: options.routes,
    resolve(name = options.default) {
      const colon = name.indexOf(":");
      const id = colon === -1 ? name : name.slice(0, colon);
      const route = routes.get(id);
      const model = colon === -1 ? route?.model : name.slice(colon + 1);
      if (route !== undefined && model !== undefined && model !== "") return { route, model };
      throw new RunError("unknown_model", {
        message: `No model route is named ${JSON.stringify(id.slice(0, 64))}. Known routes: ${known.join(", ")}.`,
        details: { routes: known },
      });
    },
  };
}

/** What building routes needs of the process. */
export interface RouteResources {
  /** The value of an environment variable or of its `_FILE`; undefined where it is not set. */
  readonly readSecret: (name: string) => string | undefined;
  /** Script files are relative to this directory. */
  readonly baseDirectory: string;
  /** For chat routes that name no server. Default: OpenAI's. */
  readonly openaiBaseUrl?: string;
  readonly clock?: Clock;
}

/**
 * Builds the routes of a configuration that satisfies `MODELS_SCHEMA`.
 *
 * Scripts are read at once. A key is read at the first call of its route: a route that nobody uses needs none.
 *
 * @throws {RunError} `invalid_configuration`; `not_supported` for `api: responses`. A missing key is a
 *   `model_unavailable` of the call, naming the variable.
 */
export function routesFromConfig(
  models: ModelsConfig,
  resources: RouteResources,
): { readonly default: string; readonly routes: readonly ModelRoute[] } {
  const routes: ModelRoute[] = [];
  for (const [id, route] of Object.entries(models)) {
    if (typeof route !== "string") routes.push(routeOf(id, route, resources));
  }
  return { default: models.default, routes };
}

function routeOf(id: string, route: ModelRouteConfig, resources: RouteResources): ModelRoute {
  return {
    id,
    model: route.model ?? id,
    adapter: adapterOf(id, route, resources),
    ...(route.maxOutputTokens === undefined ? {} : { maxOutputTokens: route.maxOutputTokens }),
    ...(route.contextTokens === undefined ? {} : { contextTokens: route.contextTokens }),
    ...(route.pricePerMillion === undefined ? {} : { pricePerMillion: route.pricePerMillion }),
  };
}

function adapterOf(id: string, route: ModelRouteConfig, resources: RouteResources): Model {
  if (route.api === "responses") {
    throw new RunError("not_supported", { message: `models/${id}/api: responses is not supported yet; use chat.` });
  }
  if (route.api === "scripted") {
    refuseFields(id, route, CHAT_FIELDS);
    if (route.script === undefined) throw misconfigured(`models/${id}/script is missing: a scripted route needs one.`);
    const script = loadScript(resolve(resources.baseDirectory, route.script));
    return new ScriptedModel(script, { clock: resources.clock ?? systemClock });
  }
  refuseFields(id, route, ["script"]);
  if (route.model === undefined) throw misconfigured(`models/${id}/model is missing: a chat route needs one.`);
  return chatAdapter(id, route, resources);
}

function chatAdapter(id: string, route: ModelRouteConfig, resources: RouteResources): Model {
  const url = parseBaseUrl(id, route.baseUrl ?? resources.openaiBaseUrl ?? OPENAI_BASE_URL);
  const byDefault = route.baseUrl === undefined || url.hostname === OPENAI_HOST ? OPENAI_KEY : undefined;
  const variable = route.apiKeyEnv ?? byDefault;
  return createChatModel({
    baseUrl: url.href,
    clock: resources.clock ?? systemClock,
    ...(variable === undefined ? {} : { apiKey: () => requireSecret(id, variable, resources) }),
    ...(route.maxTokensField === undefined ? {} : { maxTokensField: route.maxTokensField }),
    ...(route.connectTimeoutMs === undefined ? {} : { connectTimeoutMs: route.connectTimeoutMs }),
    ...(route.idleTimeoutMs === undefined ? {} : { idleTimeoutMs: route.idleTimeoutMs }),
    ...(route.totalTimeoutMs === undefined ? {} : { totalTimeoutMs: route.totalTimeoutMs }),
  });
}

function parseBaseUrl(id: string, text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/u.test(url.protocol))
    throw misconfigured(`models/${id}/baseUrl is not an http(s) URL.`);
  if (url.username !== "" || url.password !== "") {
    throw misconfigured(`models/${id}/baseUrl holds credentials; name a variable in apiKeyEnv instead.`);
  }
  return url;
}

function requireSecret(id: string, variable: string, resources: RouteResources): string {
  const secret = resources.readSecret(variable)?.trim();
  if (secret !== undefined && secret !== "") return secret;
  throw new RunError("model_unavailable", {
    message: `The model route ${id} needs a key in ${variable} (or a file named by ${variable}_FILE).`,
    details: { reason: "not_configured", permanent: true, route: id, variable },
  });
}

function refuseFields(id: string, route: ModelRouteConfig, fields: readonly (keyof ModelRouteConfig)[]): void {
  for (const field of fields) {
    if (route[field] !== undefined) throw misconfigured(`models/${id}/${field} does not belong to api: ${route.api}.`);
  }
}

function misconfigured(message: string): RunError {
  return new RunError("invalid_configuration", { message });
}
