import { inspect } from "node:util";
import type { LogLevel } from "../logging/log-level.ts";
import type { ModelsConfig } from "./model-routes.ts";
import type { TenantRecords } from "./tenants.ts";

/** The configuration of a process: complete, checked, frozen. */
export interface Config {
  readonly redis: { readonly url: string };
  /** Absent where none are configured: a process that runs no skills needs none. */
  readonly models?: ModelsConfig;
  /** Absolute paths, paths relative to the working directory, and `file://` URLs. */
  readonly skills: { readonly directories: readonly string[] };
  readonly worker: {
    readonly concurrency: number;
    readonly metricsPort: number;
    readonly metricsHost: string;
    readonly graceMs: number;
    readonly lockDurationMs: number;
    readonly stalledIntervalMs: number;
    readonly installation: string;
    readonly tools?: string;
  };
  readonly sandbox: {
    readonly backend: "docker" | "none";
    readonly image?: string;
    readonly runtime?: string;
    readonly memoryBytes?: number;
    readonly cpus?: number;
    readonly pids?: number;
  };
  readonly tenants: TenantRecords;
  readonly log: { readonly level: LogLevel };
  readonly retention: { readonly ttlMs: number };
  /** The file that was read. */
  readonly file?: string;
  /** Relative paths of model routes are meant from here: the file's directory, or the working directory. */
  readonly baseDirectory: string;
  /** The secret in a variable, or in the file that `<name>_FILE` names; undefined where it is not set. */
  readonly readSecret: (name: string) => string | undefined;
  /** Every secret value this configuration knows, for a logger to look out for. */
  readonly secretValues: () => readonly string[];
}

const MASK = "********";

/**
 * What may be shown of a configuration: everything but secrets, as plain JSON.
 *
 * A configuration that is printed by accident, or put into JSON, looks like this too.
 */
export function describeConfig(config: Config): Readonly<Record<string, unknown>> {
  const { readSecret, secretValues: _secretValues, redis, ...rest } = config;
  const keys = apiKeyVariables(rest.models).map((name) => [name, readSecret(name) === undefined ? "not set" : MASK]);
  return { redis: { url: maskUrl(redis.url) }, ...structuredClone(rest), secrets: Object.fromEntries(keys) };
}

/** The variables that the routes read their keys from. */
export function apiKeyVariables(models: ModelsConfig | undefined): readonly string[] {
  const names = Object.values(models ?? {}).flatMap((route) =>
    typeof route === "string" ? [] : (route.apiKeyEnv ?? []),
  );
  return [...new Set(["OPENAI_API_KEY", ...names])];
}

/** @returns The user's password of a URL; undefined where there is none. */
export function passwordOf(url: string): string | undefined {
  const password = URL.parse(url)?.password;
  return password === undefined || password === "" ? undefined : decodeURIComponent(password);
}

/** Makes a configuration show no secret when it is printed or put into JSON. */
export function guardSecrets(config: Config): Config {
  Object.defineProperty(config, "toJSON", { value: () => describeConfig(config) });
  Object.defineProperty(config, inspect.custom, { value: () => describeConfig(config) });
  return Object.freeze(config);
}

function maskUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null) return MASK;
  if (url.password !== "") url.password = MASK;
  for (const name of new Set(url.searchParams.keys())) url.searchParams.set(name, MASK);
  return url.href;
}
