import { compileLinearPattern, PatternRefusal } from "./linear-pattern.ts";
import { childPointer, mustBe, type Problem } from "./problem.ts";

/** Bounds on a schema that a stranger wrote: what compiles it is recursive. */
const MAX_SCHEMA_BYTES = 32_768;
const MAX_LEVELS = 16;
const MAX_MEMBERS = 200;

const DIALECT = /^https?:\/\/json-schema\.org\/(draft-0[67]|draft\/20(19-09|20-12))\/schema#?$/;

/** Keywords that reach outside of the schema, bind names that a pointer does not show, or change how a check runs. */
const REFUSED: readonly string[] = [
  "$async",
  "$anchor",
  "$dynamicAnchor",
  "$dynamicRef",
  "$id",
  "$recursiveAnchor",
  "$recursiveRef",
  "$vocabulary",
  "id",
];
const ONE_SCHEMA: ReadonlySet<string> = new Set([
  "additionalProperties",
  "contains",
  "else",
  "if",
  "items",
  "not",
  "propertyNames",
  "then",
  "unevaluatedItems",
  "unevaluatedProperties",
]);
const SCHEMA_LISTS: ReadonlySet<string> = new Set(["allOf", "anyOf", "oneOf", "prefixItems"]);
const SCHEMA_MAPS: ReadonlySet<string> = new Set([
  "$defs",
  "definitions",
  "dependentSchemas",
  "patternProperties",
  "properties",
]);

/** A keyword of our own in every place where a schema stands; it counts the steps of a check. */
export const STEP_KEYWORD = "x-skilldock-step";

export interface InspectedSchema {
  /** The schema with {@link STEP_KEYWORD} added in each place. */
  readonly schema: Readonly<Record<string, unknown>>;
  readonly problems: readonly Problem[];
}

/**
 * Finds what must not reach the schema compiler: more than 32 KiB or 16 levels, an object or list of
 * schemas with more than 200 members, a `$ref` that leaves the document or meets no schema in it, names
 * other than JSON Pointers, and patterns that cannot run in linear time.
 *
 * @param schema A screened document: plain, acyclic, at most 32 levels.
 */
export function inspectSchema(schema: Readonly<Record<string, unknown>>): InspectedSchema {
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes > MAX_SCHEMA_BYTES)
    return { schema, problems: [mustBe("", `a schema of at most ${MAX_SCHEMA_BYTES} bytes`)] };
  const tooDeep = findTooDeep(schema, "", MAX_LEVELS);
  if (tooDeep !== undefined) return { schema, problems: [mustBe(tooDeep, `nested at most ${MAX_LEVELS} levels deep`)] };
  const inspection = new Inspection();
  const { $schema: dialect, ...rest } = schema;
  if (dialect !== undefined && !(typeof dialect === "string" && DIALECT.test(dialect))) {
    inspection.problems.push(mustBe("/$schema", "https://json-schema.org/draft/2020-12/schema, or absent"));
  }
  const prepared = inspection.prepare(rest, "");
  inspection.checkReferences();
  return { schema: prepared, problems: inspection.problems };
}

function findTooDeep(value: unknown, pointer: string, levelsLeft: number): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (levelsLeft === 0) return pointer;
  for (const [key, inner] of Object.entries(value)) {
    const found = findTooDeep(inner, childPointer(pointer, key), levelsLeft - 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

class Inspection {
  readonly problems: Problem[] = [];
  readonly #places = new Set<string>();
  readonly #references: { readonly pointer: string; readonly target: unknown }[] = [];

  prepare(schema: Readonly<Record<string, unknown>>, pointer: string): Readonly<Record<string, unknown>> {
    this.#places.add(pointer);
    const prepared: Record<string, unknown> = { [STEP_KEYWORD]: true };
    for (const [keyword, value] of Object.entries(schema)) {
      const at = childPointer(pointer, keyword);
      if (REFUSED.includes(keyword) || keyword === STEP_KEYWORD)
        this.problems.push(mustBe(at, "absent: it is not supported"));
      else prepared[keyword] = this.#prepareKeyword(keyword, value, at);
    }
    return prepared;
  }

  #prepareKeyword(keyword: string, value: unknown, at: string): unknown {
    if (keyword === "$ref") this.#references.push({ pointer: at, target: value });
    if (keyword === "pattern") this.#checkPattern(value, at);
    if (ONE_SCHEMA.has(keyword)) return this.#prepareAny(value, at);
    if (SCHEMA_LISTS.has(keyword) && Array.isArray(value)) {
      this.#checkCount(value.length, at);
      return value.map((inner: unknown, index) => this.#prepareAny(inner, childPointer(at, index)));
    }
    if (!SCHEMA_MAPS.has(keyword) || !isObject(value)) return value;
    const entries = Object.entries(value);
    this.#checkCount(entries.length, at);
    if (keyword === "patternProperties") for (const [name] of entries) this.#checkPattern(name, childPointer(at, name));
    return Object.fromEntries(entries.map(([name, inner]) => [name, this.#prepareAny(inner, childPointer(at, name))]));
  }

  #prepareAny(value: unknown, pointer: string): unknown {
    if (isObject(value)) return this.prepare(value, pointer);
    this.#places.add(pointer);
    return value;
  }

  #checkCount(count: number, at: string): void {
    if (count > MAX_MEMBERS) this.problems.push(mustBe(at, `at most ${MAX_MEMBERS} schemas`));
  }

  #checkPattern(pattern: unknown, at: string): void {
    if (typeof pattern !== "string") return;
    try {
      compileLinearPattern(pattern);
    } catch (error) {
      if (!(error instanceof PatternRefusal)) throw error;
      this.problems.push(mustBe(at, error.message));
    }
  }

  checkReferences(): void {
    for (const { pointer, target } of this.#references) {
      const known = typeof target === "string" && target.startsWith("#") && this.#places.has(target.slice(1));
      if (!known) this.problems.push(mustBe(pointer, "a reference to a schema in this document, such as #/$defs/name"));
    }
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
