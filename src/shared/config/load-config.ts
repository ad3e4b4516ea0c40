import { dirname, resolve } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { mustBe, type Problem } from "../contracts/problem.ts";
import { toProblems } from "../contracts/schema-problems.ts";
import { RunError } from "../errors.ts";
import { deepFreeze } from "../freeze.ts";
import { apiKeyVariables, guardSecrets, passwordOf, type Config } from "./config.ts";
import { displayPath, parseConfigFile, readSmallFile, whyUnreadable } from "./config-file.ts";
import {
  isTree,
  locateProblem,
  mergeLayers,
  readValues,
  toPath,
  type ConfigLayer,
  type ConfigProblem,
  type Tree,
} from "./config-layer.ts";
import { CONFIG_KEYWORDS, CONFIG_SCHEMA, PLANNED_TENANT_FIELDS, type ConfigDocument } from "./config-schema.ts";
import { readEnvironment, readSecret, valueOf, type Environment } from "./environment.ts";
import type { ModelsConfig } from "./model-routes.ts";

type FlagValue = string | number | readonly string[] | undefined;
type Flags<Section extends keyof ConfigDocument> = { readonly [Field in keyof ConfigDocument[Section]]?: FlagValue };

/** Values given on the command line, by section and field. Text is read as in the environment; undefined: not given. */
export interface ConfigFlags {
  readonly redis?: Flags<"redis">;
  readonly skills?: Flags<"skills">;
  readonly worker?: Flags<"worker">;
  readonly sandbox?: Flags<"sandbox">;
  readonly log?: Flags<"log">;
  readonly retention?: Flags<"retention">;
  readonly models?: { readonly default?: FlagValue };
}

export interface LoadConfigOptions {
  /** Must exist. Absent: the file that `SKILLDOCK_CONFIG` names, or `skilldock.yaml` where it exists. */
  readonly file?: string;
  readonly env: Environment;
  readonly flags?: ConfigFlags;
}

const DEFAULT_FILE = "skilldock.yaml";
const MAX_PROBLEMS = 50;
const MAX_IN_MESSAGE = 10;

/** Compiled at the first need. */
let validator: ValidateFunction | undefined;

/**
 * Reads the configuration: flags before environment before file before defaults.
 *
 * @throws {RunError} `invalid_configuration`; `details.problems` holds every {@link ConfigProblem}, without the
 *   values: they may be secrets.
 */
export function loadConfig(options: LoadConfigOptions): Config {
  const problems: ConfigProblem[] = [];
  const file = readFile(options, problems);
  const environment = readEnvironment(options.env);
  problems.push(...environment.problems);
  const flags: ConfigLayer = { value: { ...options.flags }, locate: (path) => `flag ${path.join(".")}` };
  const layers = [
    readLayer(file.layer, "typed", problems),
    readLayer(environment.layer, "text", problems),
    readLayer(flags, "text", problems),
  ];
  const merged = mergeLayers(layers);
  const found = problemsOf(merged);
  problems.push(...found.map((problem) => ({ ...refine(problem), source: locateProblem(problem, layers) })));
  const models = withOpenaiBaseUrl(modelsOf(merged), options.env);
  const secrets = readSecrets(models, options.env, (problem) => problems.push(problem));
  if (problems.length > 0) throw refusal(problems);
  // The schema has just accepted it.
  const document = merged as unknown as ConfigDocument;
  return toConfig(document, { models, secrets, env: options.env, path: file.path });
}

function readFile(
  options: LoadConfigOptions,
  problems: ConfigProblem[],
): { readonly layer: ConfigLayer; readonly path: string | undefined } {
  const asked = options.file ?? valueOf(options.env, "SKILLDOCK_CONFIG");
  const path = asked ?? DEFAULT_FILE;
  const none = { layer: { value: {}, locate: () => "configuration" }, path: undefined };
  const refuse = (why: string): typeof none => {
    const source = displayPath(path);
    problems.push({
      ...mustBe("", "a readable file"),
      message: `The file cannot be read: ${why}.`,
      source,
      code: "invalid_configuration",
    });
    return none;
  };
  try {
    const text = readSmallFile(path);
    if (text === undefined) return asked === undefined ? none : refuse("it does not exist");
    const { layer, problems: own } = parseConfigFile(text, displayPath(path));
    problems.push(...own);
    return { layer, path };
  } catch (error) {
    return refuse(whyUnreadable(error));
  }
}

function readLayer(layer: ConfigLayer, values: "typed" | "text", problems: ConfigProblem[]): ConfigLayer {
  const onProblem = (problem: Problem): void => {
    problems.push({ ...problem, source: layer.locate(toPath(problem.pointer)), code: "invalid_configuration" });
  };
  const value = readValues(layer.value, CONFIG_SCHEMA, { values, onProblem });
  return { ...layer, value: isTree(value) ? value : {} };
}

/** Fills defaults into `merged`, in place, and finds what the schema and what holds between fields refuse. */
function problemsOf(merged: Tree): readonly Problem[] {
  validator ??= compileSchema();
  const problems = validator(merged) ? [] : [...toProblems(validator.errors)];
  const { redis, models } = merged;
  if (isTree(redis) && typeof redis["url"] === "string" && URL.parse(redis["url"]) === null) {
    if (!problems.some(({ pointer }) => pointer === "/redis/url"))
      problems.push(mustBe("/redis/url", "a URL such as redis://host:6379"));
  }
  if (isTree(models) && typeof models["default"] === "string" && !isTree(ownMember(models, models["default"]))) {
    problems.push(mustBe("/models/default", "the id of a route in models"));
  }
  return problems;
}

function compileSchema(): ValidateFunction {
  const ajv = new Ajv2020({ allErrors: true, verbose: true, useDefaults: true, strict: true, strictTypes: false });
  ajv.addVocabulary([...CONFIG_KEYWORDS]);
  return ajv.compile(CONFIG_SCHEMA);
}

function ownMember(tree: Tree, name: string): unknown {
  return Object.hasOwn(tree, name) ? tree[name] : undefined;
}

function refine(problem: Problem): Omit<ConfigProblem, "source"> {
  const [section, , field] = toPath(problem.pointer);
  if (section !== "tenants" || field === undefined || !PLANNED_TENANT_FIELDS.has(field)) {
    return { ...problem, code: "invalid_configuration" };
  }
  return { ...problem, message: `${problem.pointer} is not supported by this version.`, code: "not_supported" };
}

function modelsOf(merged: Tree): ModelsConfig | undefined {
  const { models } = merged;
  // Used where the whole document is valid; until then only read with care.
  return isTree(models) ? (models as unknown as ModelsConfig) : undefined;
}

/** `OPENAI_BASE_URL`, and the key that belongs to it, hold for chat routes that name no server of their own. */
function withOpenaiBaseUrl(models: ModelsConfig | undefined, env: Environment): ModelsConfig | undefined {
  const baseUrl = valueOf(env, "OPENAI_BASE_URL");
  if (models === undefined || baseUrl === undefined) return models;
  const hasKey = (valueOf(env, "OPENAI_API_KEY") ?? valueOf(env, "OPENAI_API_KEY_FILE")) !== undefined;
  const routes = Object.entries(models).map(([id, route]) => {
    if (!isTree(route) || route["api"] !== "chat" || route["baseUrl"] !== undefined) return [id, route];
    return [id, { ...(hasKey ? { apiKeyEnv: "OPENAI_API_KEY" } : {}), ...route, baseUrl }];
  });
  return { ...Object.fromEntries(routes), default: models.default };
}

function readSecrets(
  models: ModelsConfig | undefined,
  env: Environment,
  onProblem: (problem: ConfigProblem) => void,
): ReadonlyMap<string, string> {
  const secrets = new Map<string, string>();
  for (const name of apiKeyVariables(models)) {
    const value = typeof name === "string" ? readSecret(env, name, onProblem) : undefined;
    if (value !== undefined && value !== "") secrets.set(name, value);
  }
  return secrets;
}

function toConfig(
  document: ConfigDocument,
  own: {
    readonly models: ModelsConfig | undefined;
    readonly secrets: ReadonlyMap<string, string>;
    readonly env: Environment;
    readonly path: string | undefined;
  },
): Config {
  const { models, secrets, path } = own;
  const { memory, ...sandbox } = document.sandbox;
  const password = passwordOf(document.redis.url);
  const config: Config = {
    redis: document.redis,
    ...(models === undefined ? {} : { models }),
    skills: document.skills,
    worker: document.worker,
    sandbox: { ...sandbox, ...(memory === undefined ? {} : { memoryBytes: memory }) },
    tenants: document.tenants,
    log: document.log,
    retention: { ttlMs: document.retention.ttl },
    ...(path === undefined ? {} : { file: path }),
    baseDirectory: path === undefined ? resolve(".") : dirname(resolve(path)),
    readSecret: (name) => secrets.get(name),
    secretValues: () => [...secrets.values(), ...(password === undefined ? [] : [password])],
  };
  return guardSecrets(freezeMembers(config));
}

function freezeMembers(config: Config): Config {
  for (const member of Object.values(config)) if (typeof member === "object") deepFreeze(member);
  return config;
}

function refusal(problems: readonly ConfigProblem[]): RunError {
  const lines = problems.map(({ source, message }) => `${source}: ${message}`);
  const shown = lines.slice(0, MAX_IN_MESSAGE);
  const more = lines.length > shown.length ? [`and ${lines.length - shown.length} more`] : [];
  const message =
    lines.length === 1
      ? `The configuration is not valid. ${shown[0]}`
      : `The configuration is not valid, in ${lines.length} places:\n  ${[...shown, ...more].join("\n  ")}`;
  return new RunError("invalid_configuration", { message, details: { problems: problems.slice(0, MAX_PROBLEMS) } });
}
