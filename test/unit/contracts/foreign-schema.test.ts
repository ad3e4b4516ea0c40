import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileForeignSchema } from "../../../src/shared/contracts/foreign-schema.ts";
import type { Problem } from "../../../src/shared/contracts/problem.ts";
import { RunError } from "../../../src/shared/errors.ts";
import { deepFreeze } from "../../../src/shared/freeze.ts";

const compile = (schema: unknown): ReturnType<typeof compileForeignSchema> =>
  compileForeignSchema(schema, { what: "schema" });
const pointersOf = (problems: readonly Problem[]): readonly string[] => problems.map(({ pointer }) => pointer);

function refusedAt(schema: unknown): readonly string[] {
  try {
    compile(schema);
  } catch (error) {
    if (!(error instanceof RunError)) throw error;
    expect(error.code).toBe("invalid_request");
    expect(error.message).toMatch(/^schema: /);
    return pointersOf(error.details?.["problems"] as readonly Problem[]);
  }
  return [];
}

/** A schema whose naive check would visit 2^60 places. */
function doublingSchema(): object {
  const names = Array.from({ length: 60 }, (_, index) => `level${index}`);
  const definitions = names.map((name, index) => {
    const next = { $ref: `#/$defs/level${index + 1}` };
    return [name, { allOf: [next, next] }] as const;
  });
  return { $ref: "#/$defs/level0", $defs: { ...Object.fromEntries(definitions), level60: { type: "string" } } };
}

describe("a stranger's schema", () => {
  test("checks values and says all that is wrong, and where", () => {
    const check = compile({
      type: "object",
      required: ["id", "lines"],
      additionalProperties: false,
      properties: {
        id: { type: "string", pattern: "^[0-9]+$" },
        lines: { type: "array", items: { $ref: "#/$defs/line" }, minItems: 1, uniqueItems: true },
      },
      $defs: { line: { type: "object", properties: { cents: { type: "integer", minimum: 0 } } } },
    });
    expect(check({ id: "42", lines: [{ cents: 1 }, { cents: 2 }] })).toEqual([]);
    expect(pointersOf(check({ id: "x", lines: [{ cents: -1 }], more: 1 }))).toEqual(["/more", "/id", "/lines/0/cents"]);
    expect(check({ id: "42" })).toEqual([{ pointer: "/lines", expected: "present", message: "/lines is missing." }]);
    expect(
      check({
        id: "42",
        lines: [
          { cents: 1, a: 2 },
          { a: 2, cents: 1 },
        ],
      }),
    ).toEqual([
      {
        pointer: "/lines",
        expected: "a list of different items",
        message: "/lines must be a list of different items.",
      },
    ]);
  });

  test("never changes a value: no defaults, no coercion", () => {
    const value = { a: "1" };
    const check = compile({ properties: { a: { type: "integer" }, b: { default: 2 } }, additionalProperties: true });
    expect(pointersOf(check(value))).toEqual(["/a"]);
    expect(value).toEqual({ a: "1" });
  });

  test("may name the drafts that tools write, and carry annotations of any kind", () => {
    const schema = {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "string",
      format: "email",
      "x-hint": { a: 1 },
    };
    expect(compile(schema)("not an address")).toEqual([]);
  });

  test("describes itself, if it likes", () => {
    const check = compile({ type: "object", properties: { child: { $ref: "#" }, name: { type: "string" } } });
    expect(pointersOf(check({ child: { child: { name: 1 } } }))).toEqual(["/child/child/name"]);
  });

  test("demands an own member, not an inherited one", () => {
    expect(pointersOf(compile({ required: ["constructor", "toString"] })({}))).toEqual(["/constructor", "/toString"]);
  });

  test("is compiled once when it is frozen, and anew when it may change", () => {
    const frozen = deepFreeze({ type: "string" });
    expect(compile(frozen)).toBe(compile(frozen));
    const open = { type: "string" };
    expect(compile(open)).not.toBe(compile(open));
  });

  test.each<[what: string, schema: unknown, pointers: readonly string[]]>([
    ["text", "string", [""]],
    ["a list", [], [""]],
    ["an unknown type", { type: "wat" }, ["/type"]],
    ["look-ahead", { pattern: "(?=a)b" }, ["/pattern"]],
    ["look-behind in a member's pattern", { patternProperties: { "(?<=a)b": {} } }, ["/patternProperties/(?<=a)b"]],
    ["a back-reference", { properties: { a: { pattern: "(a)\\1" } } }, ["/properties/a/pattern"]],
    ["a pattern that is none", { pattern: "(" }, ["/pattern"]],
    ["a pattern of 600 characters", { pattern: "a".repeat(600) }, ["/pattern"]],
    ["a remote reference", { items: { $ref: "https://example.com/s" } }, ["/items/$ref"]],
    ["a reference to a file", { $ref: "file:///etc/passwd" }, ["/$ref"]],
    ["a reference to nothing", { $ref: "#/$defs/none" }, ["/$ref"]],
    ["a reference into what is no schema", { $ref: "#/x-hint/a", "x-hint": { a: {} } }, ["/$ref"]],
    ["an id", { $id: "https://example.com/s", type: "string" }, ["/$id"]],
    ["an asynchronous schema", { $async: true }, ["/$async"]],
    ["another dialect", { $schema: "https://example.com/dialect" }, ["/$schema"]],
    [
      "5,000 properties",
      { properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`p${i}`, {}])) },
      [""],
    ],
    [
      "201 properties",
      { properties: Object.fromEntries(Array.from({ length: 201 }, (_, i) => [`p${i}`, {}])) },
      ["/properties"],
    ],
    ["201 choices", { anyOf: Array.from({ length: 201 }, () => ({ type: "null" })) }, ["/anyOf"]],
    ["32 KiB and a bit", { description: "x".repeat(32_768) }, [""]],
    ["the name __proto__", JSON.parse('{"properties":{"__proto__":{}}}'), ["/properties/__proto__"]],
  ])("%s is refused where it stands", (_what, schema, pointers) => {
    expect(refusedAt(schema)).toEqual(pointers);
  });

  test("17 levels are refused, 500 too", () => {
    const nest = (levels: number): object =>
      Array.from({ length: levels - 1 }).reduce<object>((inner) => ({ not: inner }), {});
    expect(refusedAt(nest(16))).toEqual([]);
    expect(refusedAt(nest(17))).toHaveLength(1);
    expect(refusedAt(nest(500))).toHaveLength(1);
  });
});

describe("a hostile schema or value cannot hold the process", () => {
  test.each<[what: string, schema: unknown, value: unknown]>([
    ["nested quantifiers", { pattern: "^(a+)+$" }, `${"a".repeat(100_000)}b`],
    ["overlapping choices", { pattern: "^(a|a)*$" }, `${"a".repeat(100_000)}b`],
    [
      "a member's name against a pattern",
      { patternProperties: { "^(a+)+$": false } },
      { [`${"a".repeat(60_000)}b`]: 1 },
    ],
    ["references that double 60 times", doublingSchema(), "x"],
    ["a reference to itself", { $ref: "#" }, "x"],
    [
      "two references to itself",
      { allOf: [{ $ref: "#/$defs/a" }], $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }] } } },
      1,
    ],
    ["20,000 objects that must differ", { uniqueItems: true }, Array.from({ length: 20_000 }, (_, id) => ({ id }))],
    [
      "200 checks of 40,000 items",
      { items: { allOf: Array.from({ length: 200 }, () => ({ type: "integer" })) } },
      Array.from({ length: 40_000 }, () => 1),
    ],
    [
      "200 properties with limits",
      {
        properties: Object.fromEntries(
          Array.from({ length: 200 }, (_, i) => [`p${i}`, { type: "string", maxLength: 3, minLength: 1 }]),
        ),
      },
      { p1: "long text" },
    ],
  ])("%s", (_what, schema, value) => {
    const startedAt = performance.now();
    compile(schema)(value);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("what is too costly to check counts as wrong", () => {
    expect(pointersOf(compile(doublingSchema())("x"))).toEqual([""]);
    expect(pointersOf(compile({ pattern: "a" })("b".repeat(600_000)))).toEqual([""]);
  });

  test("a value that is cyclic, very deep or not JSON counts as wrong", () => {
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    for (const value of [cyclic, deep, { a: 1n }, new Map(), () => 1]) expect(compile({})(value)).toHaveLength(1);
  });

  test("whatever the schema is, the answer is a check that never throws, or a RunError", () => {
    const keyword = fc.constantFrom(
      "type",
      "properties",
      "items",
      "$ref",
      "pattern",
      "allOf",
      "not",
      "enum",
      "$defs",
      "required",
    );
    const inner = fc.letrec<{ readonly schema: unknown }>((tie) => ({
      schema: fc.dictionary(
        keyword,
        fc.oneof(
          fc.jsonValue({ maxDepth: 2 }),
          tie("schema"),
          fc.array(tie("schema"), { maxLength: 3 }),
          fc.dictionary(fc.string({ maxLength: 4 }), tie("schema"), { maxKeys: 3 }),
        ),
        { maxKeys: 4 },
      ),
    })).schema;
    fc.assert(
      fc.property(inner, fc.jsonValue({ maxDepth: 3 }), (schema, value) => {
        let check: (value: unknown) => readonly Problem[];
        try {
          check = compile(schema);
        } catch (error) {
          if (error instanceof RunError) return;
          throw error;
        }
        expect(Array.isArray(check(value))).toBe(true);
      }),
      { numRuns: 150 },
    );
  });
});
