import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { RunError } from "../../../src/shared/errors.ts";
import type { Catalog } from "../../../src/worker/catalog/catalog.ts";
import { parseFrontmatter } from "../../../src/worker/catalog/frontmatter.ts";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import { splitSkillFile } from "../../../src/worker/catalog/skill-file.ts";
import { makeSkillTree } from "../../support/skill-tree.ts";

const yamlPiece = fc.constantFrom(
  "description: x",
  "name: ",
  "a: b: c",
  "allowed-tools: ",
  "- ",
  "  ",
  "\n",
  "{",
  "}",
  "[",
  "]",
  "&a ",
  "*a",
  "!t ",
  "'",
  '"',
  "|",
  ">",
  "#",
  "? ",
  ": ",
  "@",
  "`",
  "%",
  "\t",
  "---",
  "...",
  "__proto__: ",
  "\r",
  "é",
  "\ufeff",
  "<<: ",
);
const header = fc.oneof(
  fc.array(yamlPiece, { maxLength: 30 }).map((pieces) => pieces.join("")),
  fc.string({ unit: "binary", maxLength: 200 }),
);

test("any header is fields or findings with a place, and never an exception", () => {
  fc.assert(
    fc.property(header, (text) => {
      const read = parseFrontmatter(text, 2);
      if (read.ok) {
        expect(Object.getPrototypeOf(read.frontmatter.fields)).toBeNull();
        expect(Object.isFrozen(read.frontmatter.fields)).toBe(true);
      } else expect(read.findings.some(({ level }) => level === "error")).toBe(true);
      const lines = text.split(/\r\n?|\n/).length;
      for (const { line, column } of read.findings) {
        expect(line).toBeGreaterThanOrEqual(2);
        expect(line).toBeLessThanOrEqual(2 + lines);
        expect(column).toBeGreaterThanOrEqual(1);
      }
    }),
    { numRuns: 1_000 },
  );
});

test("any bytes are parts or a finding, and never an exception", () => {
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    header.map((text) => Buffer.from(`---\n${text}\n---\n${text}`)),
  );
  fc.assert(
    fc.property(bytes, (content) => {
      const split = splitSkillFile(content);
      if (split.ok) expect(split.parts.frontmatter.split("\n").some((line) => /^---[ \t]*$/.test(line))).toBe(false);
      else expect(split.finding.level).toBe("error");
    }),
    { numRuns: 500 },
  );
});

const segment = fc.constantFrom(
  "a",
  "b",
  "A",
  "skill-one",
  "Skill One",
  "SKILL.md",
  "skill.md",
  "é",
  "e\u0301",
  "x\u202ey",
  ".git",
  "node_modules",
  "scripts",
);
const treePath = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
const node = fc.record({
  path: treePath,
  kind: fc.constantFrom("file", "skill", "skill", "link", "directory"),
  content: header,
});

test("any tree loads or is refused as a whole with a code, and loads the same twice", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(node, { maxLength: 12 }), async (nodes) => {
      using tree = makeSkillTree();
      for (const { path, kind, content } of nodes) plant(join(tree.path, path), kind, content);
      const first = await loadOrCode(tree.path);
      const second = await loadOrCode(tree.path);
      if (typeof first === "string" || typeof second === "string") {
        expect(second).toBe(first);
        return;
      }
      expect(second.digest).toBe(first.digest);
      expect(second.diagnostics).toEqual(first.diagnostics);
      for (const skill of first.skills) {
        expect(first.get(skill.ref)).toBe(skill);
        expect(skill.ref).toMatch(/^[a-z0-9][a-z0-9-]{0,63}$/);
        for (const entry of skill.manifest) expect(skill.read(entry.path)).toHaveLength(entry.size);
      }
      for (const { path } of first.diagnostics) expect(path).not.toMatch(/\u202e/);
    }),
    { numRuns: 150 },
  );
});

async function loadOrCode(path: string): Promise<Catalog | string> {
  try {
    return await loadCatalog({ directories: [path] });
  } catch (error) {
    expect(error).toBeInstanceOf(RunError);
    return error instanceof RunError ? error.code : "";
  }
}

/** Puts one thing on disk; what does not fit beside the earlier ones is left out. */
function plant(path: string, kind: string, content: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    if (kind === "directory") mkdirSync(path);
    else if (kind === "link") symlinkSync("..", path);
    else if (kind === "file") writeFileSync(path, content);
    else {
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, "SKILL.md"), `---\ndescription: x\n${content}\n---\n`);
    }
  } catch (error) {
    if (!(error instanceof Error && "syscall" in error)) throw error;
  }
}
