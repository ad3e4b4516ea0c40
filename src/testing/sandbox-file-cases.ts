import assert from "node:assert/strict";
import { RunError } from "../shared/errors.ts";
import { CASE_POLICY, caseLabels, codeOf, type SandboxCase, sandboxCase, stagedFile } from "./sandbox-cases.ts";

/** Paths that no operation takes. */
const REFUSED_PATHS = [
  "",
  "/",
  ".",
  "..",
  "../x",
  "a/../../x",
  "a/..",
  "/etc/passwd",
  "/workspace",
  "/workspace/",
  "/workspace/../etc/passwd",
  "/workspacex/a",
  "a/",
  "a\0b",
  "a\nb",
  "a\u0085b",
  "\ud800",
  "x".repeat(256),
  `${"d/".repeat(64)}f`,
  `${"x".repeat(255)}/`.repeat(4) + "xxxxx",
];

/** Names that are unusual and right. */
const UNUSUAL_PATHS = [
  "-rf",
  "a b",
  "it's",
  '"quoted"',
  "$HOME",
  "back\\slash",
  "*",
  "ümläut/日本語",
  "--/--",
  " ",
  "a:b",
  "é\u0301",
  "x".repeat(255),
  `${"y".repeat(255)}/`.repeat(3) + "z".repeat(255),
  `${"d/".repeat(63)}f`,
];

const isGone = (error: unknown): boolean => error instanceof RunError && error.code === "sandbox_failed";
const isRefused = (error: unknown): boolean => error instanceof RunError && error.code === "path_refused";

/** What holds for files on every backend. */
export const FILE_CASES: readonly SandboxCase[] = [
  sandboxCase("a new sandbox is empty", async ({ sandbox, workspace, signal }) => {
    assert.deepEqual(await sandbox.list(), []);
    assert.deepEqual(await workspace.list(signal), { ok: true, value: { files: [], totalBytes: 0 } });
  }),

  sandboxCase("written bytes come back exactly, whole and by range", async ({ sandbox }) => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256));
    await sandbox.writeFiles([
      { path: "a/b.bin", bytes },
      { path: "empty", bytes: new Uint8Array() },
    ]);
    const whole = await sandbox.readFile("a/b.bin", { offset: 0, length: 100_000 });
    assert.equal(whole.size, bytes.byteLength);
    assert.ok(bytes.equals(whole.bytes));
    const range = await sandbox.readFile("a/b.bin", { offset: 4_097, length: 10 });
    assert.deepEqual([...range.bytes], [...bytes.subarray(4_097, 4_107)]);
    const past = await sandbox.readFile("a/b.bin", { offset: 80_000, length: 10 });
    assert.deepEqual([past.bytes.byteLength, past.size], [0, 70_000]);
    assert.equal((await sandbox.readFile("empty", { offset: 0, length: 10 })).size, 0);
  }),

  sandboxCase("unusual names are kept as they are", async ({ workspace, signal }) => {
    for (const path of UNUSUAL_PATHS)
      assert.equal(codeOf(await workspace.write({ path, content: path }, signal)), "ok", path);
    for (const path of UNUSUAL_PATHS) {
      const read = await workspace.read({ path: `/workspace/${path}` }, signal);
      assert.ok(read.ok, path);
      assert.deepEqual([read.value["path"], read.value["content"]], [`/workspace/${path}`, path]);
    }
    const listed = await workspace.list(signal);
    assert.ok(listed.ok);
    const expected = UNUSUAL_PATHS.map((path) => ({ path: `/workspace/${path}`, bytes: Buffer.byteLength(path) }));
    const files = listed.value["files"];
    assert.deepEqual(
      files,
      expected.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    );
  }),

  sandboxCase("paths that lead elsewhere are refused by every operation", async ({ sandbox, workspace, signal }) => {
    for (const path of REFUSED_PATHS) {
      const label = JSON.stringify(path.slice(0, 40));
      assert.equal(codeOf(await workspace.read({ path }, signal)), "path_refused", label);
      assert.equal(codeOf(await workspace.write({ path, content: "x" }, signal)), "path_refused", label);
      await assert.rejects(sandbox.readFile(path, { offset: 0, length: 1 }), isRefused, label);
      await assert.rejects(sandbox.writeFiles([{ path, bytes: Buffer.from("x") }]), isRefused, label);
    }
    assert.deepEqual(await sandbox.list(), []);
  }),

  sandboxCase("a path is the same with and without its root", async ({ workspace, signal }) => {
    for (const [index, path] of ["a/b", "./a/b", "a//b", "/workspace/a/b", "/workspace/./a/b"].entries()) {
      const written = await workspace.write({ path, content: String(index) }, signal);
      assert.ok(written.ok);
      assert.deepEqual([written.value["path"], written.value["created"]], ["/workspace/a/b", index === 0]);
    }
    const read = await workspace.read({ path: "a/b" }, signal);
    assert.equal(read.value?.["content"], "4");
  }),

  sandboxCase("files and directories do not take each other's place", async ({ workspace, signal }) => {
    assert.equal(codeOf(await workspace.write({ path: "dir/file", content: "x" }, signal)), "ok");
    assert.equal(codeOf(await workspace.write({ path: "dir", content: "x" }, signal)), "path_refused");
    assert.equal(codeOf(await workspace.write({ path: "dir/file/below", content: "x" }, signal)), "path_refused");
    assert.equal(codeOf(await workspace.read({ path: "dir" }, signal)), "path_refused");
    assert.equal(codeOf(await workspace.read({ path: "dir/file/below" }, signal)), "path_refused");
    assert.equal(codeOf(await workspace.read({ path: "dir/none" }, signal)), "file_not_found");
    assert.equal((await workspace.read({ path: "dir/file" }, signal)).value?.["content"], "x");
  }),

  sandboxCase(
    "text is read as text, cut between characters; anything else as base64",
    async ({ workspace, signal }) => {
      await workspace.write({ path: "text", content: "aä€😀" }, signal);
      const first = await workspace.read({ path: "text", length: 5 }, signal);
      assert.deepEqual(
        [first.value?.["content"], first.value?.["length"], first.value?.["size"], first.value?.["truncated"]],
        ["aä", 3, 10, true],
      );
      const second = await workspace.read({ path: "text", offset: 3 }, signal);
      assert.deepEqual([second.value?.["content"], second.value?.["truncated"]], ["€😀", false]);
      const middle = await workspace.read({ path: "text", offset: 2, length: 2 }, signal);
      assert.deepEqual([middle.value?.["encoding"], middle.value?.["content"]], ["base64", "pOI="]);
      const written = await workspace.write({ path: "binary", content: "//4AAQ==", encoding: "base64" }, signal);
      assert.equal(written.value?.["bytes"], 4);
      const binary = await workspace.read({ path: "binary" }, signal);
      assert.deepEqual([binary.value?.["encoding"], binary.value?.["content"]], ["base64", "//4AAQ=="]);
      assert.equal(binary.value?.["digest"], written.value?.["digest"]);
      assert.equal(
        codeOf(await workspace.write({ path: "bad", content: "a*", encoding: "base64" }, signal)),
        "invalid_arguments",
      );
      assert.equal(codeOf(await workspace.write({ path: "bad", content: "\udc00" }, signal)), "invalid_arguments");
    },
  ),

  sandboxCase(
    "a read without a length brings 100,000 bytes and says that there is more",
    async ({ workspace, signal }) => {
      await workspace.write({ path: "long", content: "x".repeat(100_001) }, signal);
      const read = await workspace.read({ path: "long" }, signal);
      assert.deepEqual([read.value?.["length"], read.value?.["truncated"]], [100_000, true]);
      const rest = await workspace.read({ path: "long", offset: 100_000, length: 9_999_999 }, signal);
      assert.deepEqual([rest.value?.["length"], rest.value?.["truncated"]], [1, false]);
    },
  ),

  sandboxCase("a hundred files of 100,000 bytes fit, one file more does not", async ({ workspace, signal }) => {
    const bytes = Buffer.alloc(100_000, "x");
    await workspace.stage(
      Array.from({ length: 100 }, (_, index) => stagedFile(`skills/x/${index}`, bytes)),
      signal,
    );
    const listed = await workspace.list(signal);
    assert.equal(listed.value?.["totalBytes"], 10_000_000);
    assert.equal(codeOf(await workspace.write({ path: "more", content: "" }, signal)), "too_many_files");
    assert.equal(
      codeOf(await workspace.write({ path: "skills/x/0", content: "y".repeat(100_001) }, signal)),
      "workspace_full",
    );
    assert.equal(codeOf(await workspace.write({ path: "skills/x/0", content: "y".repeat(100_000) }, signal)), "ok");
    assert.equal(codeOf(await workspace.read({ path: "more" }, signal)), "file_not_found");
  }),

  sandboxCase("ten files of 1,000,000 bytes fit, one byte more does not", async ({ workspace, signal }) => {
    const content = "x".repeat(1_000_000);
    for (let index = 0; index < 10; index += 1) {
      assert.equal(codeOf(await workspace.write({ path: `f${index}`, content }, signal)), "ok");
    }
    assert.equal(codeOf(await workspace.write({ path: "one", content: "x" }, signal)), "workspace_full");
    assert.equal(codeOf(await workspace.write({ path: "f0", content: `${content}x` }, signal)), "file_too_large");
    const replaced = await workspace.write({ path: "f0", content: content.replaceAll("x", "y") }, signal);
    assert.equal(codeOf(replaced), "ok");
  }),

  sandboxCase(
    "files that a skill brings count, and too many of them are refused whole",
    async ({ workspace, signal }) => {
      const files = Array.from({ length: 101 }, (_, index) => stagedFile(`skills/x/${index}`, Buffer.from("x")));
      await assert.rejects(
        workspace.stage(files, signal),
        (error: unknown) => error instanceof RunError && error.code === "skill_invalid",
      );
      assert.deepEqual((await workspace.list(signal)).value?.["files"], []);
      await workspace.stage(files.slice(0, 99), signal);
      assert.equal(codeOf(await workspace.write({ path: "last", content: "x" }, signal)), "ok");
      assert.equal(codeOf(await workspace.write({ path: "over", content: "x" }, signal)), "too_many_files");
    },
  ),

  sandboxCase("a sandbox is destroyed once, however often it is asked, and does nothing after", async ({ sandbox }) => {
    const answers = await Promise.all([sandbox.destroy(), sandbox.destroy()]);
    assert.deepEqual(
      [...answers, await sandbox.destroy()],
      [{ confirmed: true }, { confirmed: true }, { confirmed: true }],
    );
    await assert.rejects(sandbox.list(), isGone);
    await assert.rejects(sandbox.writeFiles([{ path: "x", bytes: new Uint8Array() }]), isGone);
  }),

  {
    name: "a create that is aborted before it begins rejects with the reason",
    async run(backend) {
      const reason = new Error("changed my mind");
      await assert.rejects(backend.create(CASE_POLICY, caseLabels(), AbortSignal.abort(reason)), reason);
    },
  },

  {
    name: "two sandboxes do not see each other's files",
    async run(backend) {
      const { signal } = new AbortController();
      const first = await backend.create(CASE_POLICY, caseLabels(), signal);
      const second = await backend.create(CASE_POLICY, caseLabels(), signal);
      try {
        await first.writeFiles([{ path: "secret", bytes: Buffer.from("x") }]);
        assert.notEqual(first.id, second.id);
        assert.deepEqual(await second.list(), []);
      } finally {
        await Promise.all([first.destroy(), second.destroy()]);
      }
    },
  },

  {
    name: "an engine that works says what it is, and a second sweep finds nothing",
    async run(backend) {
      const { engine, version } = await backend.check();
      assert.ok(engine !== "" && version !== "");
      await backend.sweep();
      assert.equal(await backend.sweep(), 0);
    },
  },
];
