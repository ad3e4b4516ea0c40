import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const LAUNCHER = join(import.meta.dirname, "..", "..", "bin", "skilldock");
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "skilldock-launcher-"));
  for (const directory of ["bin", "src", "old"]) mkdirSync(join(folder, directory));
  copyFileSync(LAUNCHER, join(folder, "bin", "skilldock"));
  chmodSync(join(folder, "bin", "skilldock"), 0o755);
});
afterEach(() => rmSync(folder, { recursive: true }));

function launch(path: string = process.env["PATH"] ?? ""): { readonly status: number | null; readonly stderr: string } {
  const { status, stderr } = spawnSync(join(folder, "bin", "skilldock"), ["--help"], {
    encoding: "utf8",
    env: { PATH: path },
  });
  return { status, stderr };
}

test("a checkout that is not set up says so", () => {
  expect(launch()).toEqual({
    status: 3,
    stderr: "skilldock: this checkout is not set up yet: run bin/setup (or npm ci) first\n",
  });
});

test("a Node that is too old is named, in one line", () => {
  mkdirSync(join(folder, "node_modules"));
  writeFileSync(join(folder, "old", "node"), "#!/bin/sh\necho v20.1.0\n", { mode: 0o755 });
  expect(launch(`${join(folder, "old")}:/usr/bin:/bin`)).toEqual({
    status: 3,
    stderr: "skilldock: needs Node 22.22 or newer, and found v20.1.0\n",
  });
});
