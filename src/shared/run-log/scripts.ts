import { readFileSync } from "node:fs";
import type { Redis } from "ioredis";
import { RunError } from "../errors.ts";
import { guard } from "../redis/guard.ts";

/** The scripts of the run log, as files beside this one; each is documented in its own head. */
const SCRIPT_NAMES = [
  "enqueue",
  "grant",
  "claim",
  "append",
  "finish",
  "end-waiting",
  "renew",
  "hand-back",
  "regrant",
  "sweep",
] as const;
export type ScriptName = (typeof SCRIPT_NAMES)[number];

export interface ScriptCall {
  /** All in one slot. */
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

/** What a script answers: text, whole numbers, and lists of them. */
export type ScriptReply = string | number | null | readonly ScriptReply[];

type Command = (keyCount: number, ...rest: readonly (readonly (string | number)[])[]) => Promise<ScriptReply>;

/** Needs nothing of the library; every event of every run goes through it. */
const STANDS_ALONE: ScriptName = "append";
const PREFIX = "skilldock:";
let sources: ReadonlyMap<ScriptName, string> | undefined;

/**
 * Makes the scripts known to a connection. Twice is once. The first call of a script on a socket sends
 * its text, the later ones its digest.
 */
export function defineScripts(redis: Redis): void {
  sources ??= readSources();
  for (const [name, lua] of sources) {
    if (!Object.hasOwn(redis, PREFIX + name)) redis.defineCommand(PREFIX + name, { lua });
  }
}

/**
 * Runs a script on a connection that {@link defineScripts} has seen.
 *
 * @throws {RunError} `redis_unavailable`, or `internal` for what the script refuses as a bug of its caller.
 */
export function runScript(redis: Redis, name: ScriptName, call: ScriptCall): Promise<ScriptReply> {
  // defineCommand adds methods that the type of the connection does not know.
  const command = (redis as unknown as Readonly<Record<string, Command | undefined>>)[PREFIX + name];
  if (command === undefined) throw new RunError("internal", { message: `The script ${name} is not defined.` });
  return guard(command.call(redis, call.keys.length, call.keys, call.args));
}

function readSources(): ReadonlyMap<ScriptName, string> {
  const library = readLua("lib");
  const withLibrary = (name: ScriptName): string => `${library}\n${readLua(name)}`;
  return new Map(SCRIPT_NAMES.map((name) => [name, name === STANDS_ALONE ? readLua(name) : withLibrary(name)]));
}

function readLua(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), "utf8");
}
