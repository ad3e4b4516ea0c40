import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseAllowedTools } from "../../../src/worker/catalog/allowed-tools.ts";
import type { AllowedTool, Skill } from "../../../src/worker/catalog/catalog.ts";
import { effectiveCapabilities } from "../../../src/worker/catalog/narrowing.ts";

const ALL = [
  "workspace.list@1",
  "workspace.read@1",
  "workspace.write@1",
  "workspace.execute_command@1",
  "caller.lookup_order@1",
  "caller.lookup_order@2",
];

/** A skill with this `allowed-tools` value; undefined: without the field. */
function skillWith(value: unknown, ref = "demo"): Skill {
  const { tools } = parseAllowedTools(value);
  return {
    ref,
    digest: "sha256:",
    name: ref,
    description: "",
    body: "",
    manifest: [],
    frontmatter: {},
    bytes: 0,
    read: () => new Uint8Array(),
    ...(tools === undefined ? {} : { allowedTools: tools }),
  };
}

function narrowed(value: unknown, request: readonly string[] = ALL): readonly string[] {
  return [...effectiveCapabilities(request, [skillWith(value)]).allowed];
}

test("text and lists are split outside parentheses and quotes", () => {
  const cases: readonly (readonly [unknown, readonly AllowedTool[]])[] = [
    ["Read Write", [{ name: "Read" }, { name: "Write" }]],
    ["Read, Write,,\n Edit,", [{ name: "Read" }, { name: "Write" }, { name: "Edit" }]],
    [
      "Bash(git:*) Bash(jq:*) Read",
      [{ name: "Bash", scope: "git:*" }, { name: "Bash", scope: "jq:*" }, { name: "Read" }],
    ],
    ["Bash(git add *), Read", [{ name: "Bash", scope: "git add *" }, { name: "Read" }]],
    ["Bash(f(a, b)) Read", [{ name: "Bash", scope: "f(a, b)" }, { name: "Read" }]],
    [`Bash(echo ")") Read`, [{ name: "Bash", scope: 'echo ")"' }, { name: "Read" }]],
    [`"Read" 'Bash(git status)'`, [{ name: "Read" }, { name: "Bash", scope: "git status" }]],
    ["Bash()", [{ name: "Bash", scope: "" }]],
    [
      ["Read", "Bash(git add *)"],
      [{ name: "Read" }, { name: "Bash", scope: "git add *" }],
    ],
    [["Read Write"], [{ name: "Read" }, { name: "Write" }]],
    ["", []],
    ["  , ", []],
    [[], []],
    [null, []],
  ];
  for (const [value, tools] of cases) expect(parseAllowedTools(value), String(value)).toEqual({ tools });
  expect(parseAllowedTools(undefined)).toEqual({});
});

test("what is not closed takes the rest with it and allows nothing", () => {
  for (const text of ["Bash(git Read", `"Read Write`, "Bash(git) Read)", "Read) Bash("]) {
    for (const id of narrowed(text)) expect(["workspace.execute_command@1"], text).not.toContain(id);
  }
  expect(narrowed("Bash(git Read")).toEqual([]);
  expect(narrowed(`"Read Write`)).toEqual([]);
});

test("another type allows nothing and says so", () => {
  for (const value of [1, true, {}, { Read: true }, ["Read", 1], [["Read"]], [null]]) {
    expect(parseAllowedTools(value)).toEqual({ tools: [], problem: expect.stringContaining("allowed-tools must be") });
  }
});

test("no list narrows nothing, an empty list leaves nothing", () => {
  expect(effectiveCapabilities(ALL, [skillWith(undefined)])).toEqual({ allowed: new Set(ALL), narrowedBy: [] });
  expect(effectiveCapabilities(ALL, [])).toEqual({ allowed: new Set(ALL), narrowedBy: [] });
  for (const empty of ["", [], null, 5]) {
    expect(effectiveCapabilities(ALL, [skillWith(empty)])).toEqual({ allowed: new Set(), narrowedBy: ["demo"] });
  }
});

test("aliases, stable ids, ids without version and model-visible names are known", () => {
  expect(narrowed("Read")).toEqual(["workspace.read@1"]);
  expect(narrowed("Write")).toEqual(["workspace.write@1"]);
  expect(narrowed("Edit")).toEqual(["workspace.write@1"]);
  expect(narrowed("Glob")).toEqual(["workspace.list@1"]);
  expect(narrowed("LS")).toEqual(["workspace.list@1"]);
  expect(narrowed("Bash")).toEqual(["workspace.execute_command@1"]);
  expect(narrowed("workspace.read@1 workspace.list workspace_write")).toEqual([
    "workspace.list@1",
    "workspace.read@1",
    "workspace.write@1",
  ]);
  expect(narrowed("caller.lookup_order@2")).toEqual(["caller.lookup_order@2"]);
  expect(narrowed("caller.lookup_order")).toEqual(["caller.lookup_order@1", "caller.lookup_order@2"]);
  expect(narrowed("caller_lookup_order")).toEqual(["caller.lookup_order@1", "caller.lookup_order@2"]);
});

test("names are compared exactly, and an unknown one matches nothing", () => {
  const strangers = [
    "read",
    "READ",
    "Reаd",
    "Read\u200b",
    "workspace.read@01",
    "workspace.read@11",
    "workspace.read@",
    "workspace.*",
    "*",
    "Read*",
    "workspace",
    "caller",
    "lookup_order",
    "__proto__",
    "constructor",
    "toString",
    "workspace-read",
    "mcp__workspace__read",
    "",
  ];
  for (const name of strangers) expect(narrowed([name]), name).toEqual([]);
});

test("an entry with a scope grants nothing, whatever the scope", () => {
  for (const entry of ["Bash(git:*)", "Bash(*)", "Bash()", "Read(*)", "workspace.read@1(*)"])
    expect(narrowed(entry), entry).toEqual([]);
  expect(narrowed("Bash(git:*) Read")).toEqual(["workspace.read@1"]);
});

test("several lists unite, and a skill without one loosens nothing", () => {
  const active = [skillWith("Read", "a"), skillWith(undefined, "b"), skillWith("LS", "c")];
  expect(effectiveCapabilities(ALL, active)).toEqual({
    allowed: new Set(["workspace.list@1", "workspace.read@1"]),
    narrowedBy: ["a", "c"],
  });
});

test("nothing widens what the request allows", () => {
  const value = fc.oneof(
    fc.string(),
    fc.array(fc.string()),
    fc.anything(),
    fc.constantFrom("Read, Bash", "Read Write Edit Glob LS Bash", ["*"]),
  );
  fc.assert(
    fc.property(fc.subarray(ALL), fc.array(value, { maxLength: 4 }), (request, values) => {
      const { allowed, narrowedBy } = effectiveCapabilities(
        request,
        values.map((each) => skillWith(each)),
      );
      for (const id of allowed) expect(request).toContain(id);
      if (narrowedBy.length === 0) expect([...allowed]).toEqual(request);
    }),
  );
});

test("a wrong type never gives more than the empty list", () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      const { tools, problem } = parseAllowedTools(value);
      if (value !== undefined) expect(tools).toBeDefined();
      if (problem !== undefined) expect(tools).toEqual([]);
    }),
  );
});
