import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { findImports, type ImportStatement, readImports, REPOSITORY } from "../support/imports.ts";

/** What each room may import beside itself. Files directly under `src` are the public face. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  shared: [],
  sandbox: ["shared"],
  worker: ["shared", "sandbox"],
  producer: ["shared"],
  testing: ["shared", "sandbox", "worker"],
  cli: ["shared", "sandbox", "worker", "producer", "face"],
  face: ["shared", "sandbox", "worker", "producer"],
};

/** The files that may load each library. Every dependency has an owner. */
const OWNERS: Readonly<Record<string, RegExp>> = {
  ajv: /^src\/shared\/(contracts|config)\//,
  bullmq: /^src\/(producer|worker)\/queue\.ts$/,
  canonicalize: /^src\/shared\/contracts\/digest\.ts$/,
  commander: /^src\/cli\//,
  dockerode: /^src\/sandbox\/docker\//,
  "eventsource-parser": /^src\/worker\/model\//,
  ioredis: /^src\/shared\/redis\//,
  "json-schema-to-ts": /^src\/shared\/contracts\//,
  openai: /^src\/worker\/model\//,
  pino: /^src\/shared\/logging\//,
  "prom-client": /^src\/shared\/metrics\//,
  re2js: /^src\/shared\/contracts\//,
  uuid: /^src\/shared\/ids\.ts$/,
  yaml: /^src\/(worker\/catalog|shared\/config)\//,
};

/** Libraries whose types alone may be named anywhere. */
const TYPES_FOR_ALL: ReadonlySet<string> = new Set(["ioredis", "json-schema-to-ts", "pino"]);

/** Libraries too heavy to load before they are needed: never by a static import. */
const LAZY: ReadonlySet<string> = new Set(["bullmq", "dockerode", "openai"]);

/** A source file does one job. */
const MAX_FILE_LINES = 400;

const imports = readImports(["src"]);

function roomOf(path: string): string {
  return /^src\/([^/]+)\//.exec(path)?.[1] ?? "face";
}

function breaksDirection({ file, target }: ImportStatement): boolean {
  if (!target.startsWith("src/")) return target.includes("/") && !target.startsWith("@") && !target.startsWith("node:");
  const [from, to] = [roomOf(file), roomOf(target)];
  return from !== to && ROOMS[from]?.includes(to) !== true;
}

function breaksOwnership({ file, target, kind }: ImportStatement): boolean {
  if (target.startsWith("src/") || target.startsWith("node:")) return false;
  if (kind === "types-only" && TYPES_FOR_ALL.has(target)) return false;
  if (kind === "static" && LAZY.has(target)) return true;
  return OWNERS[target]?.test(file) !== true;
}

const show = ({ file, target, kind }: ImportStatement): string => `${file} → ${target} (${kind})`;

describe("the house", () => {
  test("imports point one way: shared ← sandbox ← worker ← cli, shared ← producer ← cli", () => {
    expect(imports.length).toBeGreaterThan(20);
    expect(imports.filter(breaksDirection).map(show)).toEqual([]);
  });

  test("each library is loaded by its owner alone, the heavy ones when they are needed", () => {
    expect(imports.filter(breaksOwnership).map(show)).toEqual([]);
  });

  test("each dependency has an owner", () => {
    const manifest: unknown = JSON.parse(readFileSync(join(REPOSITORY, "package.json"), "utf8"));
    expect(Object.keys((manifest as { dependencies: object }).dependencies).toSorted()).toEqual(
      Object.keys(OWNERS).toSorted(),
    );
  });

  test("the environment is read in entry points only", () => {
    const readers = globSync("src/**/*.ts", { cwd: REPOSITORY }).filter((file) =>
      /\bprocess\s*\.\s*env\b|\benv\b[^\n]*from "node:process"/.test(
        readFileSync(join(REPOSITORY, file), "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, ""),
      ),
    );
    // The in-process one-liner is an entry point, too: it takes the model routes that the command line would take.
    expect(readers.filter((file) => !file.startsWith("src/cli/"))).toEqual(["src/run-skill.ts"]);
  });

  test(`no source file is longer than ${MAX_FILE_LINES} lines`, () => {
    const long = globSync("src/**/*.ts", { cwd: REPOSITORY }).filter(
      (file) => readFileSync(join(REPOSITORY, file), "utf8").split("\n").length - 1 > MAX_FILE_LINES,
    );
    expect(long).toEqual([]);
  });
});

describe("the judge of the house", () => {
  const judge = (file: string, source: string): readonly string[] =>
    findImports(file, source)
      .filter((statement) => breaksDirection(statement) || breaksOwnership(statement))
      .map(({ target }) => target);

  test.each([
    ["a worker that imports the producer", "src/worker/a.ts", 'import { x } from "../producer/b.ts";'],
    ["a shared file that imports the sandbox", "src/shared/a.ts", 'export * from "../sandbox/backend.ts";'],
    ["a type of another room", "src/producer/a.ts", 'import type { X } from "../worker/b.ts";'],
    ["an import that leaves src", "src/shared/a.ts", 'import "../../test/support/redis.ts";'],
    ["the package's own name", "src/cli/a.ts", 'import { Producer } from "skilldock/producer";'],
    ["a library of another owner", "src/worker/a.ts", 'import {\n  Registry,\n} from "prom-client";'],
    ["a dynamic import of another owner's library", "src/worker/a.ts", 'await import("dockerode")'],
    ["a heavy library loaded at once", "src/worker/queue.ts", 'import { Worker } from "bullmq";'],
    ["a library without an owner", "src/shared/a.ts", 'import x from "left-pad";'],
  ])("catches %s", (_what, file, source) => {
    expect(judge(file, source)).toHaveLength(1);
  });

  test("lets the owner load its library lazily, and everyone name a Redis type", () => {
    expect(judge("src/worker/queue.ts", 'const { Worker } = await import("bullmq");')).toEqual([]);
    expect(judge("src/worker/a.ts", 'import type { Redis } from "ioredis";')).toEqual([]);
    expect(judge("src/worker/a.ts", '/** import { x } from "../producer/b.ts"; */')).toEqual([]);
  });
});
