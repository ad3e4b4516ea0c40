import { childPointer, mustBe, type Problem } from "../contracts/problem.ts";
import { memberSchema, type FieldSchema } from "./config-schema.ts";
import { DURATION_EXPECTED, parseDuration, parseSize, SIZE_EXPECTED } from "./units.ts";

/** Plain JSON as it comes from a file, the environment or flags. */
export type Tree = Readonly<Record<string, unknown>>;

/** One source of configuration: what it says, and where it says it. */
export interface ConfigLayer {
  readonly value: Tree;
  /** Names the place of a value, such as `skilldock.yaml:3:5`. */
  readonly locate: (path: readonly string[]) => string;
}

/** A problem and where it stands. */
export interface ConfigProblem extends Problem {
  /** `<file>:<line>:<column>`, a variable's name, `flag …`, or `configuration`. */
  readonly source: string;
  readonly code: "invalid_configuration" | "not_supported";
}

export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Later layers win, field by field; lists are replaced as a whole. */
export function mergeLayers(layers: readonly ConfigLayer[]): Tree {
  return layers.reduce<Tree>((merged, layer) => mergeTrees(merged, layer.value), {});
}

function mergeTrees(below: Tree, above: Tree): Tree {
  const merged = new Map(Object.entries(below));
  for (const [name, value] of Object.entries(above)) {
    if (value === undefined) continue;
    const under = merged.get(name);
    merged.set(name, isTree(under) && isTree(value) ? mergeTrees(under, value) : value);
  }
  return Object.fromEntries(merged);
}

/** The place of a problem: in the topmost layer that says something there, or nearest around it. */
export function locateProblem(problem: Problem, layers: readonly ConfigLayer[]): string {
  const path = toPath(problem.pointer);
  for (let length = path.length; length > 0; length -= 1) {
    const owner = layers.findLast((layer) => hasPath(layer.value, path.slice(0, length)));
    if (owner !== undefined) return owner.locate(path.slice(0, length));
  }
  return layers[0]?.locate([]) ?? "configuration";
}

function hasPath(value: unknown, path: readonly string[]): boolean {
  const [name, ...rest] = path;
  if (name === undefined) return true;
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return false;
  const inner: unknown = Reflect.get(value, name);
  return inner !== undefined && hasPath(inner, rest);
}

/** The keys of a JSON Pointer. */
export function toPath(pointer: string): readonly string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

export interface ReadOptions {
  /** `text`: every value may be text, as variables and flags are. `typed`: only durations and sizes may. */
  readonly values: "typed" | "text";
  readonly onProblem: (problem: Problem) => void;
}

/**
 * Turns durations, sizes and, where values are text, numbers into numbers. An empty section counts as `{}`.
 * What cannot be read is reported and left out, so that it is not reported twice.
 */
export function readValues(value: unknown, schema: FieldSchema, options: ReadOptions): unknown {
  return read({ value, schema, name: "", pointer: "" }, options);
}

interface Place {
  readonly value: unknown;
  readonly schema: FieldSchema | undefined;
  readonly name: string;
  readonly pointer: string;
}

function read(at: Place, options: ReadOptions): unknown {
  const { value, schema } = at;
  if (schema === undefined) return value;
  if (value === null && schema.type === "object") return {};
  if (isTree(value)) {
    const members = Object.entries(value).map(([name, inner]) => {
      const place = { value: inner, schema: memberSchema(schema, name), name, pointer: childPointer(at.pointer, name) };
      return [name, read(place, options)] as const;
    });
    return Object.fromEntries(members);
  }
  return typeof value === "string" && (schema.type === "integer" || schema.type === "number")
    ? readNumber(value, at, options)
    : value;
}

function readNumber(text: string, at: Place, options: ReadOptions): unknown {
  const unit = at.schema?.["x-unit"] ?? (at.name.endsWith("Ms") ? "duration" : undefined);
  if (unit !== undefined) {
    const quantity = unit === "duration" ? parseDuration(text) : parseSize(text);
    if (quantity === undefined)
      options.onProblem(mustBe(at.pointer, unit === "duration" ? DURATION_EXPECTED : SIZE_EXPECTED));
    return quantity;
  }
  // Text that is no number stays, for the schema to refuse.
  return options.values === "text" && /^-?\d{1,15}(\.\d{1,9})?$/.test(text.trim()) ? Number(text) : text;
}
