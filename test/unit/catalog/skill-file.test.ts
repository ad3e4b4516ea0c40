import { expect, test } from "vitest";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import type { Catalog } from "../../../src/worker/catalog/catalog.ts";
import { makeSkillTree } from "../../support/skill-tree.ts";

/** Loads one SKILL.md in the directory `demo`. */
async function loadText(content: string | Uint8Array): Promise<Catalog> {
  using tree = makeSkillTree();
  tree.write("demo/SKILL.md", content);
  return await loadCatalog({ directories: [tree.path] });
}

async function loadHeader(header: string): Promise<Catalog> {
  return loadText(`---\n${header}\n---\nBody.\n`);
}

test("a byte-order mark and CRLF are read over; the digest keeps them apart", async () => {
  const plain = (await loadText("---\ndescription: Fine.\n---\nOne\nTwo\n")).get("demo");
  const windows = (await loadText("\ufeff---\r\ndescription: Fine.\r\n---\r\nOne\r\nTwo\r\n")).get("demo");
  expect(windows).toMatchObject({ description: "Fine.", body: "One\nTwo\n" });
  expect(plain?.body).toBe(windows?.body);
  expect(plain?.digest).not.toBe(windows?.digest);
});

test("a second byte-order mark is content, and no fence", async () => {
  expect((await loadText("\ufeff\ufeff---\ndescription: x\n---\n")).invalid("demo")).toMatchObject({
    code: "frontmatter-missing",
  });
});

test("invalid UTF-8 is refused with its place", async () => {
  const bytes = Buffer.concat([Buffer.from("---\ndescription: é"), Buffer.from([0xff]), Buffer.from("\n---\n")]);
  expect((await loadText(bytes)).invalid("demo")).toMatchObject({ code: "not-utf8", line: 2, column: 15 });
  for (const broken of [
    [0xc0, 0xaf],
    [0xed, 0xa0, 0x80],
    [0xf5, 0x80, 0x80, 0x80],
    [0xe2, 0x82],
  ]) {
    const catalog = await loadText(
      Buffer.concat([Buffer.from("---\ndescription: x\n---\nbody "), Buffer.from(broken)]),
    );
    expect(catalog.invalid("demo")).toMatchObject({ code: "not-utf8", line: 4, column: 6 });
  }
});

test("NUL anywhere and control characters in the header are refused with their place", async () => {
  expect((await loadText("---\ndescription: x\n---\nab\0c")).invalid("demo")).toMatchObject({
    code: "nul-character",
    line: 4,
    column: 3,
  });
  expect((await loadHeader("description: a\u001bb")).invalid("demo")).toMatchObject({
    code: "control-character",
    line: 2,
    column: 15,
  });
});

test("fences are lines of their own", async () => {
  const catalog = await loadText("--- \t\ndescription: a --- b\nlicense: '---'\n---\t\nBody\n---\nmore\n");
  expect(catalog.get("demo")).toMatchObject({ description: "a --- b", body: "Body\n---\nmore\n" });
  for (const text of [
    "---js\n({description: 'x'})\n---\n",
    " ---\ndescription: x\n---\n",
    "\n---\ndescription: x\n---\n",
    "----\ndescription: x\n----\n",
    "",
  ]) {
    expect((await loadText(text)).invalid("demo")).toMatchObject({ code: "frontmatter-missing", line: 1 });
  }
  for (const text of ["---\ndescription: x\n", "---", "---\ndescription: x\n --- \n", "---\ndescription: x\n---x\n"]) {
    expect((await loadText(text)).invalid("demo")).toMatchObject({ code: "frontmatter-unclosed" });
  }
});

test("a description is needed, and must be text", async () => {
  for (const header of ["name: demo", "description:", "description: ''", "description: '  '", "description: ~"]) {
    expect((await loadHeader(header)).invalid("demo")).toMatchObject({ code: "description-missing" });
  }
  for (const header of ["description: 12", "description: [a]", "description: {a: b}", "description: true"]) {
    expect((await loadHeader(`name: demo\n${header}`)).invalid("demo")).toMatchObject({
      code: "description-not-text",
      line: 3,
      column: 14,
    });
  }
  for (const header of ["", "# only a comment", "just text", "- a\n- b"]) {
    expect((await loadHeader(header)).invalid("demo")).toMatchObject({ code: "frontmatter-not-fields" });
  }
  expect((await loadHeader("description: >-\n  Two\n  lines.")).get("demo")?.description).toBe("Two lines.");
});

test("what YAML allows and a header must not hold is refused", async () => {
  const cases: readonly (readonly [string, string, number])[] = [
    ["description: x\nname: a\nname: b", "yaml-duplicate-key", 4],
    ["description: x\nmetadata:\n  a: 1\n  a: 2", "yaml-duplicate-key", 5],
    ["description: x\nmetadata: {a: 1, 'a': 2}", "yaml-duplicate-key", 3],
    ["a: &a [x]\ndescription: x", "yaml-anchor", 2],
    ["description: x\nb: *a", "yaml-alias", 3],
    ["description: !custom x", "yaml-invalid", 2],
    ["description: !!binary aGk=", "yaml-invalid", 2],
    ["description: !!js/function 'x'", "yaml-invalid", 2],
    ["description: x\n--- # second\nname: y", "yaml-documents", 3],
    ["description: x\n...\nname: y", "yaml-documents", 3],
    ["description: x\n? [a]\n: b", "yaml-invalid", 3],
    ["description: x\nmetadata:\n\tb: 1", "yaml-invalid", 4],
    ['description: "open', "yaml-invalid", 2],
  ];
  for (const [header, code, line] of cases) {
    expect((await loadHeader(header)).invalid("demo"), header).toMatchObject({ code, line, level: "error" });
  }
});

test("an alias bomb, deep nesting and a huge header are refused quickly", async () => {
  const bomb = [
    "description: x",
    "a0: &a0 [x, x]",
    ...Array.from({ length: 30 }, (_, level) => `a${level + 1}: &a${level + 1} [*a${level}, *a${level}]`),
  ].join("\n");
  const hostile = [
    [bomb, "yaml-anchor"],
    [`description: x\na: ${"[".repeat(60_000)}`, "yaml-too-deep"],
    [`description: x\na:\n  ${"- ".repeat(30_000)}x`, "yaml-too-deep"],
    [`description: x\n${"? ".repeat(30_000)}x`, "yaml-too-deep"],
    [`description: x\na: ${"[".repeat(500)}${"]".repeat(500)}`, "yaml-too-deep"],
    [
      `description: x\na:\n${Array.from({ length: 40 }, (_, level) => `${" ".repeat(level + 1)}k:`).join("\n")}`,
      "yaml-too-deep",
    ],
    [`description: x\na:\n  ${"- ".repeat(20)}x`, "yaml-too-deep"],
    [`description: ${"x".repeat(65_536)}`, "frontmatter-too-large"],
  ] as const;
  for (const [header, code] of hostile) {
    const started = performance.now();
    expect((await loadHeader(header)).invalid("demo"), code).toMatchObject({ code });
    expect(performance.now() - started).toBeLessThan(5_000);
  }
  expect((await loadHeader(`description: x\na: ${"[".repeat(60_000)}`)).invalid("demo")).toMatchObject({
    line: 3,
    column: 20,
  });
  const depth16 = `description: x\na: ${"[".repeat(15)}${"]".repeat(15)}`;
  expect((await loadHeader(depth16)).get("demo")).toBeDefined();
  const depth17 = `description: x\na: ${"[".repeat(16)}${"]".repeat(16)}`;
  expect((await loadHeader(depth17)).invalid("demo")).toMatchObject({ code: "yaml-too-deep", line: 3, column: 19 });
});

test("keys such as __proto__ are keys like any other", async () => {
  const skill = (
    await loadHeader(
      "description: x\n__proto__: {polluted: yes}\nconstructor: {prototype: {polluted: yes}}\nmetadata: {__proto__: 1}",
    )
  ).get("demo");
  expect(skill).toBeDefined();
  expect(Object.getPrototypeOf(skill?.frontmatter)).toBeNull();
  expect(Object.getPrototypeOf(skill?.frontmatter["metadata"])).toBeNull();
  expect(Object.keys(skill?.frontmatter ?? {})).toEqual(["description", "__proto__", "constructor", "metadata"]);
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
});

test("a value with a colon is repaired, and the repair is told", async () => {
  const catalog = await loadHeader(
    "name: demo\ndescription: Use when: it's needed\nlicense: @home\nargument-hint: %path",
  );
  expect(catalog.get("demo")).toMatchObject({
    description: "Use when: it's needed",
    frontmatter: { license: "@home", "argument-hint": "%path" },
  });
  expect(catalog.diagnostics.map(({ code, line, column, level }) => [code, line, column, level])).toEqual([
    ["frontmatter-repaired", 3, 14, "warning"],
    ["frontmatter-repaired", 4, 10, "warning"],
    ["frontmatter-repaired", 5, 16, "warning"],
  ]);
});

test("the repair touches plain top-level values on one line, and nothing else", async () => {
  const untouched = [
    "description: x\nmetadata:\n  a: b: c",
    "description: x # note: this\na: b: c # note",
    "description: x\na: {b: c: d}",
    "description: a: b\n  goes on",
    "description: x\na: &anchor b: c",
    "description: x\na: [b: c",
    'description: "a" b: c',
  ];
  for (const header of untouched)
    expect((await loadHeader(header)).invalid("demo"), header).toMatchObject({ code: "yaml-invalid" });
});

test("a repair never brings in what was refused", async () => {
  expect((await loadHeader("description: a: b\nname: x\nname: y")).invalid("demo")).toBeDefined();
  expect((await loadHeader("description: a: b\nx: &a 1")).invalid("demo")).toBeDefined();
});

test("a restriction that cannot be read keeps the skill out", async () => {
  for (const value of ["12", "true", "{Read: true}", "[Read, 1]", "[Bash: git]", "[[Read]]", "[~]"]) {
    expect((await loadHeader(`description: x\nallowed-tools: ${value}`)).invalid("demo"), value).toMatchObject({
      code: "allowed-tools-invalid",
      line: 3,
      column: 16,
    });
  }
  for (const field of ["allowed_tools", "Allowed-Tools", "allowedTools", "allowed tools"]) {
    expect((await loadHeader(`description: x\n${field}: Read`)).invalid("demo"), field).toMatchObject({
      code: "allowed-tools-misspelled",
    });
  }
});

test("entries that match nothing, long texts and other oddities are warnings", async () => {
  const catalog = await loadHeader(
    `description: ${"x".repeat(1_025)}\nname: Other Name\nallowed-tools: Read, Frobnicate, Bash(git:*), caller.lookup_order\narguments: [good, 'bad name']\ndisallowed-tools: Write`,
  );
  expect(catalog.get("demo")?.name).toBe("Other Name");
  expect(catalog.diagnostics.every(({ level }) => level === "warning")).toBe(true);
  expect(catalog.diagnostics.map(({ code }) => code)).toEqual([
    "description-long",
    "name-differs",
    "allowed-tools-scope",
    "allowed-tools-unknown",
    "argument-name-unusable",
    "field-not-enforced",
  ]);
  expect((await loadHeader("name: 007\ndescription: x")).get("demo")?.name).toBe("demo");
  expect((await loadHeader("description: a\u202eb")).diagnostics).toEqual([
    expect.objectContaining({ code: "hidden-characters" }),
  ]);
});
