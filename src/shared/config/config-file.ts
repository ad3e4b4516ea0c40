import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { isMap, isNode, isScalar, LineCounter, parseDocument, type Document } from "yaml";
import { mustBe } from "../contracts/problem.ts";
import { screenDocument } from "../contracts/screen.ts";
import { RunError } from "../errors.ts";
import { isTree, type ConfigLayer, type ConfigProblem, type Tree } from "./config-layer.ts";

const MAX_FILE_BYTES = 1_000_000;

export interface ConfigFile {
  readonly layer: ConfigLayer;
  readonly problems: readonly ConfigProblem[];
}

/**
 * Reads a small regular file; follows links, opens nothing that could block.
 *
 * @returns undefined where there is none.
 * @throws {Error} What the system says, or that it is no regular file or too large.
 */
export function readSmallFile(path: string): string | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const stat = fstatSync(descriptor);
    if (!stat.isFile()) throw new RunError("invalid_configuration", { message: "it is not a regular file" });
    if (stat.size > MAX_FILE_BYTES)
      throw new RunError("invalid_configuration", { message: `it is larger than ${MAX_FILE_BYTES} bytes` });
    return readFileSync(descriptor, "utf8");
  } finally {
    closeSync(descriptor);
  }
}

/** Why a file could not be read, in a few words. */
export function whyUnreadable(error: unknown): string {
  if (error instanceof RunError) return error.message;
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "it cannot be read";
}

/**
 * Parses YAML 1.2 (or JSON). Paths in it become relative to its directory.
 *
 * @param path As it shall be named in problems.
 */
export function parseConfigFile(text: string, path: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, strict: true, uniqueKeys: true });
  const locate = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${path}:${Math.max(1, line)}:${Math.max(1, col)}`;
  };
  const problems = [...document.errors, ...document.warnings].map((error) =>
    toProblem(`is not valid YAML: ${error.message.replaceAll("\n", " ")}`, locate(error.pos[0])),
  );
  if (problems.length > 0) return { layer: { value: {}, locate: () => path }, problems };
  const plain = toTree(document, locate(0));
  const layer = {
    value: resolvePaths(plain.value, dirname(resolve(path))),
    locate: (at: readonly string[]) => locate(offsetOf(document, at)),
  };
  return { layer, problems: plain.problems };
}

function toTree(
  document: Document,
  source: string,
): { readonly value: Tree; readonly problems: readonly ConfigProblem[] } {
  try {
    const { value, problems } = screenDocument(document.toJS({ maxAliasCount: 100 }) ?? {});
    const located = problems.map((problem) => ({ ...problem, source, code: "invalid_configuration" as const }));
    if (isTree(value)) return { value, problems: located };
    return { value: {}, problems: [...located, toProblem("must be a mapping of sections.", source)] };
  } catch (error) {
    const why = error instanceof RunError ? error.message : "it refers to its own parts too often.";
    return { value: {}, problems: [toProblem(`cannot be read: ${why}`, source)] };
  }
}

function toProblem(message: string, source: string): ConfigProblem {
  return { ...mustBe("", "valid YAML"), message: `The file ${message}`, source, code: "invalid_configuration" };
}

/** Where the key of a value stands; of a list's item, the item. */
function offsetOf(document: Document, path: readonly string[]): number {
  const name = path.at(-1);
  const parent = path.length === 1 ? document.contents : document.getIn(path.slice(0, -1), true);
  if (isMap(parent)) {
    const pair = parent.items.find(({ key }) => String(isScalar(key) ? key.value : key) === name);
    if (isNode(pair?.key) && pair.key.range) return pair.key.range[0];
  }
  const node = document.getIn(
    path.map((key) => (/^\d+$/.test(key) ? Number(key) : key)),
    true,
  );
  return isNode(node) && node.range ? node.range[0] : 0;
}

/** Skill directories, and a tools module that begins with a dot, are relative to the file. */
function resolvePaths(value: Tree, directory: string): Tree {
  const toAbsolute = (path: unknown): unknown =>
    typeof path === "string" && !path.startsWith("file:") ? resolve(directory, path) : path;
  const { skills, worker } = value;
  return {
    ...value,
    ...(isTree(skills) && Array.isArray(skills["directories"])
      ? { skills: { ...skills, directories: skills["directories"].map(toAbsolute) } }
      : {}),
    ...(isTree(worker) && typeof worker["tools"] === "string" && worker["tools"].startsWith(".")
      ? { worker: { ...worker, tools: toAbsolute(worker["tools"]) } }
      : {}),
  };
}

/** What a file is called in front of people: its name, or the path that was asked for. */
export function displayPath(path: string): string {
  return path.length > 120 ? basename(path) : path;
}
