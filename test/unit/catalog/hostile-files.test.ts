import { execFileSync } from "node:child_process";
import {
  linkSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Catalog } from "../../../src/worker/catalog/catalog.ts";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import { readDirectory } from "../../../src/worker/catalog/read-directory.ts";
import { readRegularFile } from "../../../src/worker/catalog/read-file.ts";
import { makeSkillTree, type SkillTree } from "../../support/skill-tree.ts";

const HEADER = "---\ndescription: Fine.\n---\nBody.\n";

function makeFifo(path: string): void {
  const program = "mkfifo";
  execFileSync(program, [path]);
}

/** Loads and expects the skill `demo` to be refused with this code, and `good` beside it to be there. */
async function expectRefused(tree: SkillTree, code: string, path = "demo/SKILL.md"): Promise<Catalog> {
  tree.skill("good");
  const catalog = await loadCatalog({ directories: [tree.path] });
  expect(catalog.skills.map(({ ref }) => ref)).toEqual(["good"]);
  expect(catalog.diagnostics).toContainEqual(
    expect.objectContaining({ level: "error", code, path: join(tree.path, path) }),
  );
  expect(catalog.invalid("demo")).toMatchObject({ code });
  return catalog;
}

test("a FIFO named SKILL.md is refused at once", async () => {
  using tree = makeSkillTree();
  mkdirSync(join(tree.path, "demo"));
  makeFifo(join(tree.path, "demo/SKILL.md"));
  await expectRefused(tree, "not-regular-file");
});

test("a FIFO among the files is refused at once", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  makeFifo(join(tree.path, "demo/pipe"));
  await expectRefused(tree, "not-regular-file", "demo/pipe");
});

test("a socket is refused", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  const server = createServer().listen(join(tree.path, "demo/socket"));
  await once(server, "listening");
  try {
    await expectRefused(tree, "not-regular-file", "demo/socket");
  } finally {
    server.close();
  }
});

test("a device is refused without being opened", () => {
  expect(readRegularFile("/dev/zero", 10)).toMatchObject({ ok: false, finding: { code: "not-regular-file" } });
});

test("a file that claims no size and has content is refused", () => {
  expect(readRegularFile("/proc/version", 1_000)).toMatchObject({ ok: false, finding: { code: "file-changed" } });
});

test("links are refused: as SKILL.md, as a file, as a directory inside, dead, and as the skill itself", async () => {
  for (const [link, target] of [
    ["demo/SKILL.md", "secret.md"],
    ["demo/a.txt", "secret.md"],
    ["demo/dead", "nowhere"],
    ["demo/inside", "outside"],
  ] as const) {
    using tree = makeSkillTree();
    using elsewhere = makeSkillTree();
    elsewhere.write("secret.md", HEADER);
    elsewhere.write("outside/secret.txt", "secret");
    tree.skill("demo");
    rmSync(join(tree.path, link), { force: true });
    symlinkSync(join(elsewhere.path, target), join(tree.path, link));
    await expectRefused(tree, "link-refused", link);
  }
  using tree = makeSkillTree();
  using elsewhere = makeSkillTree();
  symlinkSync(elsewhere.skill("real"), join(tree.path, "demo"));
  await expectRefused(tree, "link-refused", "demo");
});

test("a link in a category is refused; a loose link to a file is nothing", async () => {
  using tree = makeSkillTree();
  using elsewhere = makeSkillTree();
  elsewhere.skill("category/hidden");
  symlinkSync(join(elsewhere.path, "category"), join(tree.path, "category"));
  symlinkSync(elsewhere.write("README.md", "x"), join(tree.path, "README.md"));
  tree.skill("good");
  const catalog = await loadCatalog({ directories: [tree.path] });
  expect(catalog.get("hidden")).toBeUndefined();
  expect(catalog.diagnostics).toEqual([
    expect.objectContaining({ code: "link-refused", path: join(tree.path, "category") }),
  ]);
});

test("a given path may lead through a link of the operator's own", async () => {
  using tree = makeSkillTree();
  using elsewhere = makeSkillTree();
  elsewhere.skill("release-7/demo");
  symlinkSync(join(elsewhere.path, "release-7"), join(tree.path, "current"));
  const catalog = await loadCatalog({ directories: [join(tree.path, "current")] });
  expect(catalog.skills.map(({ ref }) => ref)).toEqual(["demo"]);
});

test("a parent directory that became a link after it was found is refused", () => {
  using tree = makeSkillTree();
  using elsewhere = makeSkillTree();
  tree.write("demo/a.txt", "own");
  elsewhere.write("demo/a.txt", "secret");
  const path = join(tree.path, "demo/a.txt");
  expect(readRegularFile(path, 100)).toMatchObject({ ok: true });
  expect(readDirectory(join(tree.path, "demo"))).toMatchObject({ ok: true });
  renameSync(join(tree.path, "demo"), join(tree.path, "moved"));
  symlinkSync(join(elsewhere.path, "demo"), join(tree.path, "demo"));
  expect(readRegularFile(path, 100)).toMatchObject({ ok: false, finding: { code: "link-refused" } });
  expect(readDirectory(join(tree.path, "demo"))).toMatchObject({ ok: false, finding: { code: "link-refused" } });
});

test("hard links are refused, as SKILL.md and as a file", async () => {
  for (const name of ["SKILL.md", "a.txt"]) {
    using tree = makeSkillTree();
    tree.skill("demo");
    rmSync(join(tree.path, "demo", name), { force: true });
    linkSync(tree.write("other.md", HEADER), join(tree.path, "demo", name));
    await expectRefused(tree, "hard-link-refused", `demo/${name}`);
  }
});

test("a sparse file of 8 GB is refused by its size, unread", async () => {
  for (const name of ["SKILL.md", "sparse.bin"]) {
    using tree = makeSkillTree();
    tree.skill("demo");
    const file = join(tree.path, "demo", name);
    writeFileSync(file, HEADER);
    truncateSync(file, 8_000_000_000);
    await expectRefused(tree, "file-too-large", `demo/${name}`);
  }
});

test("the limits of the default workspace hold: files, bytes, bytes a file", async () => {
  {
    using tree = makeSkillTree();
    tree.skill("demo");
    for (let index = 0; index < 100; index += 1) tree.write(`demo/f${index}`, "");
    expect((await loadCatalog({ directories: [tree.path] })).get("demo")?.manifest).toHaveLength(100);
    tree.write("demo/f100", "");
    await expectRefused(tree, "too-many-files", "demo");
  }
  {
    using tree = makeSkillTree();
    tree.skill("demo");
    const largest = Buffer.alloc(1_000_000);
    for (let index = 0; index < 10; index += 1) tree.write(`demo/f${index}`, largest);
    expect((await loadCatalog({ directories: [tree.path] })).get("demo")?.manifest).toHaveLength(10);
    tree.write("demo/f10", "x");
    await expectRefused(tree, "skill-too-large", "demo");
  }
  {
    using tree = makeSkillTree();
    tree.skill("demo");
    tree.write("demo/large", Buffer.alloc(1_000_001));
    await expectRefused(tree, "file-too-large", "demo/large");
  }
});

test("too many directories and too deep ones are refused", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  for (let index = 0; index < 600; index += 1) mkdirSync(join(tree.path, `demo/d${index}`));
  await expectRefused(tree, "too-many-directories", "demo");
  using deep = makeSkillTree();
  deep.skill("demo");
  deep.write(`demo/${"d/".repeat(20)}f`, "x");
  await expectRefused(deep, "path-too-long", `demo/${"d/".repeat(17).slice(0, -1)}`);
});

test("file names that hide, reorder or break text are refused, and shown as escapes", async () => {
  const names = [
    "a\u202etxt.py",
    "zero\u200bwidth",
    "tag\u{e0041}",
    "bell\u0007",
    "line\nfeed",
    "soft\u00adhyphen",
    "back\\slash",
    "variation\u{e0100}",
    "bom\ufeff",
  ];
  for (const name of names) {
    using tree = makeSkillTree();
    tree.skill("demo");
    tree.write(`demo/${name}`, "x");
    tree.skill("good");
    const catalog = await loadCatalog({ directories: [tree.path] });
    expect(catalog.invalid("demo")).toMatchObject({ code: "file-name-refused" });
    expect(catalog.invalid("demo")?.path).toMatch(/^[\x20-\x7e]+$/);
    expect(catalog.get("good")).toBeDefined();
  }
});

test("a file name that is not UTF-8 is refused", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  writeFileSync(Buffer.concat([Buffer.from(`${tree.path}/demo/`), Buffer.from([0x66, 0xff, 0x6f])]), "x");
  expect(readdirSync(join(tree.path, "demo"))).toHaveLength(2);
  await expectRefused(tree, "file-name-refused", "demo/fÿo");
});

test("names that collide by case or composition are refused, directories too", async () => {
  for (const [left, right] of [
    ["demo/README", "demo/readme"],
    ["demo/caf\u00e9", "demo/cafe\u0301"],
    ["demo/Docs/x", "demo/docs/y"],
    ["demo/straße", "demo/STRASSE"],
  ] as const) {
    using tree = makeSkillTree();
    tree.skill("demo");
    tree.write(left, "1");
    tree.write(right, "2");
    tree.skill("good");
    const catalog = await loadCatalog({ directories: [tree.path] });
    expect(catalog.invalid("demo")).toMatchObject({ code: "file-name-collision" });
    expect(catalog.get("good")).toBeDefined();
  }
});

test("a skill's diagnostics are bounded", async () => {
  using tree = makeSkillTree();
  tree.skill("demo");
  for (let index = 0; index < 200; index += 1) symlinkSync("/nowhere", join(tree.path, `demo/l${index}`));
  const catalog = await expectRefused(tree, "link-refused", "demo/l0");
  expect(catalog.diagnostics.length).toBeLessThanOrEqual(20);
});
