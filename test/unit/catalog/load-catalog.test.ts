import { appendFileSync, chmodSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import type { Catalog, Skill } from "../../../src/worker/catalog/catalog.ts";
import { catalogDigest } from "../../../src/worker/catalog/digest.ts";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import { makeSkillTree } from "../../support/skill-tree.ts";

async function load(...directories: (string | URL)[]): Promise<Catalog> {
  return loadCatalog({ directories });
}

function refs(catalog: Catalog): readonly string[] {
  return catalog.skills.map(({ ref }) => ref);
}

function skillOf(catalog: Catalog, ref: string): Skill {
  const skill = catalog.get(ref);
  if (skill === undefined) throw new Error(`no ${ref}: ${JSON.stringify(catalog.diagnostics)}`);
  return skill;
}

test("a directory may be a skill, a parent of skills or a root of categories", async () => {
  using tree = makeSkillTree();
  const skill = tree.skill("one");
  tree.skill("parent/two");
  tree.skill("root/category/three");
  tree.skill("root/category/too/deep");
  expect(refs(await load(skill))).toEqual(["one"]);
  expect(refs(await load(join(tree.path, "parent")))).toEqual(["two"]);
  expect(refs(await load(join(tree.path, "root")))).toEqual(["three"]);
  expect(refs(await load(skill, pathToFileURL(join(tree.path, "parent")), `${tree.path}/root/`))).toEqual([
    "one",
    "three",
    "two",
  ]);
});

test("a skill holds its files with sizes, digests and executable bits, sorted by path", async () => {
  using tree = makeSkillTree();
  tree.skill("demo", { header: "name: demo\ndescription: Shows it.\nversion: 2024-01-01", body: "\n  Indented.\n" });
  chmodSync(tree.write("demo/scripts/run.py", "print(1)\n"), 0o755);
  tree.write("demo/a.txt", "abc");
  const catalog = await load(tree.path);
  const demo = skillOf(catalog, "demo");
  expect(demo.manifest).toEqual([
    {
      path: "a.txt",
      size: 3,
      digest: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      executable: false,
    },
    { path: "scripts/run.py", size: 9, digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/), executable: true },
  ]);
  expect(demo.body).toBe("\n  Indented.\n");
  expect(demo.frontmatter["version"]).toBe("2024-01-01");
  expect(demo.bytes).toBe(
    3 + 9 + Buffer.byteLength("---\nname: demo\ndescription: Shows it.\nversion: 2024-01-01\n---\n\n  Indented.\n"),
  );
  expect(new TextDecoder().decode(demo.read("a.txt"))).toBe("abc");
  expect(() => demo.read("../demo/a.txt")).toThrow(expect.objectContaining({ code: "file_not_found" }));
  expect(() => demo.read("__proto__")).toThrow(expect.objectContaining({ code: "file_not_found" }));
  expect(catalog.diagnostics).toEqual([]);
});

test("what was loaded cannot be changed from outside", async () => {
  using tree = makeSkillTree();
  tree.skill("demo", { header: "description: Shows it.\nallowed-tools: [Read]\nmetadata: {list: [1]}" });
  tree.write("demo/a.txt", "abc");
  const catalog = await load(tree.path);
  const demo = skillOf(catalog, "demo");
  demo.read("a.txt").fill(0);
  expect(new TextDecoder().decode(demo.read("a.txt"))).toBe("abc");
  for (const value of [
    catalog,
    catalog.skills,
    catalog.diagnostics,
    demo,
    demo.manifest,
    demo.manifest[0],
    demo.allowedTools,
    demo.allowedTools?.[0],
    demo.frontmatter,
    demo.frontmatter["metadata"],
  ]) {
    expect(Object.isFrozen(value)).toBe(true);
  }
  expect(new Uint8Array(demo.read("a.txt").buffer)).toHaveLength(3);
});

test("changing files on disk after loading changes nothing", async () => {
  using tree = makeSkillTree();
  const directory = tree.skill("demo");
  tree.write("demo/a.txt", "abc");
  const catalog = await load(tree.path);
  const demo = skillOf(catalog, "demo");
  const before = { ...demo, content: demo.read("a.txt"), catalog: catalog.digest };
  tree.write("demo/a.txt", "changed");
  appendFileSync(join(directory, "SKILL.md"), "more");
  tree.write("demo/b.txt", "new");
  rmSync(join(directory, "SKILL.md"));
  renameSync(directory, join(tree.path, "gone"));
  expect({ ...skillOf(catalog, "demo"), content: demo.read("a.txt"), catalog: catalog.digest }).toEqual(before);
});

test("digests depend on content, paths and executable bits, and on nothing else", async () => {
  using first = makeSkillTree();
  using second = makeSkillTree();
  for (const tree of [first, second]) {
    const order = tree === first ? ["b.txt", "a.txt"] : ["a.txt", "b.txt"];
    tree.skill("demo");
    for (const name of order) tree.write(`demo/${name}`, name);
    tree.skill("other", { body: "Other.\n" });
  }
  const original = await load(first.path);
  const same = await load(join(second.path, "other"), join(second.path, "demo"));
  expect(same.digest).toBe(original.digest);
  expect(skillOf(same, "demo").digest).toBe(skillOf(original, "demo").digest);

  const seen = new Set([skillOf(original, "demo").digest]);
  const changes: (() => void)[] = [
    () => chmodSync(join(second.path, "demo/a.txt"), 0o755),
    () => writeFileSync(join(second.path, "demo/a.txt"), "x.txt"),
    () => renameSync(join(second.path, "demo/a.txt"), join(second.path, "demo/c.txt")),
    () => appendFileSync(join(second.path, "demo/SKILL.md"), "\n"),
    () => rmSync(join(second.path, "demo/c.txt")),
  ];
  for (const change of changes) {
    change();
    const changed = await load(second.path);
    expect(changed.digest).not.toBe(original.digest);
    seen.add(skillOf(changed, "demo").digest);
  }
  expect(seen.size).toBe(changes.length + 1);
});

test("the catalog digest ignores invalid skills", async () => {
  using tree = makeSkillTree();
  tree.skill("good");
  const before = await load(tree.path);
  tree.skill("bad", { header: "name: bad" });
  const after = await load(tree.path);
  expect(after.digest).toBe(before.digest);
});

test("the same ref twice stops the start and names both paths", async () => {
  using tree = makeSkillTree();
  const first = tree.skill("a/refund");
  const second = tree.skill("b/refund", { header: "name: broken" });
  const failure = load(join(tree.path, "a"), join(tree.path, "b"));
  await expect(failure).rejects.toMatchObject({ name: "RunError", code: "invalid_configuration" });
  await expect(failure).rejects.toThrow(first);
  await expect(failure).rejects.toThrow(second);
});

test("one directory given twice, or reached twice, is one", async () => {
  using tree = makeSkillTree();
  const skill = tree.skill("demo");
  const catalog = await load(tree.path, tree.path, skill);
  expect(refs(catalog)).toEqual(["demo"]);
  expect(catalog.diagnostics.filter(({ level }) => level === "error")).toEqual([]);
});

test("a missing directory, a file, and a URL of another kind stop the start", async () => {
  using tree = makeSkillTree();
  const file = tree.write("file.txt", "x");
  for (const given of [
    join(tree.path, "missing"),
    file,
    "https://example.org/skills",
    new URL("https://example.org/"),
    "file://host/x",
    "nul\0byte",
  ]) {
    await expect(load(given)).rejects.toMatchObject({ name: "RunError", code: "invalid_configuration" });
  }
  await expect(load(join(tree.path, "missing"))).rejects.toThrow(/does not exist/);
});

test("a directory without skills is told", async () => {
  using tree = makeSkillTree();
  const catalog = await load(tree.path);
  expect(catalog.skills).toEqual([]);
  expect(catalog.diagnostics).toEqual([
    expect.objectContaining({ path: tree.path, level: "warning", code: "no-skills" }),
  ]);
});

test("a broken skill never keeps out the others, and says why it is not there", async () => {
  using tree = makeSkillTree();
  tree.skill("good");
  tree.skill("no-description", { header: "name: no-description" });
  tree.skill("bad-yaml", { header: "description: [\nname: x" });
  tree.write("no-header/SKILL.md", "# Just text\n");
  const catalog = await load(tree.path);
  expect(refs(catalog)).toEqual(["good"]);
  expect(catalog.invalid("no-description")).toMatchObject({
    path: join(tree.path, "no-description/SKILL.md"),
    code: "description-missing",
    level: "error",
  });
  expect(catalog.invalid("bad-yaml")).toMatchObject({ code: "yaml-invalid" });
  expect(catalog.invalid("no-header")).toMatchObject({ code: "frontmatter-missing", line: 1, column: 1 });
  expect(catalog.invalid("good")).toBeUndefined();
  expect(catalog.invalid("unheard-of")).toBeUndefined();
  expect(catalog.get("bad-yaml")).toBeUndefined();
});

test("a directory name that is no ref gives a slug and a warning, unless that is taken", async () => {
  using tree = makeSkillTree();
  tree.skill("My Skill");
  tree.skill("refund");
  tree.skill("Refund");
  tree.skill("A_b");
  tree.skill("a b");
  tree.skill("скилл");
  const catalog = await load(tree.path);
  expect(refs(catalog)).toEqual(["my-skill", "refund"]);
  expect(catalog.diagnostics.map(({ code }) => code).toSorted()).toEqual([
    "skill-name-ambiguous",
    "skill-name-ambiguous",
    "skill-name-ambiguous",
    "skill-name-changed",
    "skill-name-unusable",
  ]);
  expect(catalog.invalid("a-b")).toMatchObject({ code: "skill-name-ambiguous" });
  expect(catalog.invalid("refund")).toBeUndefined();
});

test("a nested skill stays out of its parent's manifest and is a skill by itself", async () => {
  using tree = makeSkillTree();
  tree.skill("outer");
  tree.write("outer/own.txt", "own");
  tree.skill("outer/inner", { body: "Inner.\n" });
  tree.write("outer/inner/secret.txt", "inner");
  tree.skill("outer/x/y/deep");
  const catalog = await load(tree.path);
  expect(refs(catalog)).toEqual(["inner", "outer"]);
  expect(skillOf(catalog, "outer").manifest.map(({ path }) => path)).toEqual(["own.txt"]);
  expect(catalog.diagnostics).toEqual([
    expect.objectContaining({
      path: join(tree.path, "outer/x/y/deep"),
      code: "nested-skill-not-loaded",
      level: "warning",
    }),
  ]);
});

test("skill.md in other letters is told, and so is a missing one that a link stands for", async () => {
  using tree = makeSkillTree();
  tree.write("demo/skill.md", "---\ndescription: x\n---\n");
  const catalog = await load(tree.path);
  expect(catalog.invalid("demo")).toMatchObject({
    path: join(tree.path, "demo/skill.md"),
    code: "skill-file-misnamed",
  });
});

test("the catalog digest does not depend on the order of its skills", () => {
  expect(catalogDigest(["sha256:b", "sha256:a"])).toBe(catalogDigest(["sha256:a", "sha256:b"]));
  expect(catalogDigest(["sha256:a"])).not.toBe(catalogDigest(["sha256:a", "sha256:a"]));
});

test("installed packages and version control are not searched for skills", async () => {
  using tree = makeSkillTree();
  tree.skill("good");
  tree.skill("node_modules/package");
  tree.skill(".git/template");
  expect(refs(await load(tree.path))).toEqual(["good"]);
});

test("version control and empty directories are not part of a skill", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  tree.write("demo/.git/config", "secret");
  mkdirSync(join(tree.path, "demo/empty"));
  expect(skillOf(await load(tree.path), "demo").manifest).toEqual([]);
});

test("the strict profile holds skills to the format's own rules", async () => {
  using tree = makeSkillTree();
  tree.skill("demo", { header: "name: demo\ndescription: Fine." });
  tree.skill("loose", { header: "name: Loose\ndescription: Fine.\nargument-hint: x\nmetadata: {n: 1}" });
  const lenient = await load(tree.path);
  expect(refs(lenient)).toEqual(["demo", "loose"]);
  const strict = await loadCatalog({ directories: [tree.path], strict: true });
  expect(refs(strict)).toEqual(["demo"]);
  expect(strict.diagnostics.filter(({ level }) => level === "error").map(({ code }) => code)).toEqual([
    "strict-name",
    "strict-field",
    "strict-metadata",
  ]);
});
