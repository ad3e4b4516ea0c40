import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { REPOSITORY } from "../support/imports.ts";

/** What any Unix has; everything else is a stub of the test. */
const PLAIN_TOOLS = [
  "cat",
  "chmod",
  "dirname",
  "env",
  "find",
  "grep",
  "id",
  "mktemp",
  "rm",
  "sed",
  "sh",
  "tail",
  "touch",
  "mkdir",
  "nohup",
];

interface Machine {
  readonly root: string;
  readonly tools: string;
  readonly calls: () => readonly string[];
  readonly run: (environment?: Readonly<Record<string, string>>) => {
    readonly status: number | null;
    readonly said: string;
  };
}

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/**
 * A machine of stubs: `PATH` holds plain tools and the stubs alone, so that the script can neither install
 * nor start anything here. Every call of a stub is recorded.
 */
function createMachine(stubs: Readonly<Record<string, string>>): Machine {
  const folder = mkdtempSync(join(tmpdir(), "skilldock-setup-"));
  folders.push(folder);
  const [root, tools, record] = [join(folder, "checkout"), join(folder, "tools"), join(folder, "calls")];
  for (const path of [join(root, "bin"), join(root, "deploy/sandbox"), join(root, "node_modules"), tools]) {
    mkdirSync(path, { recursive: true });
  }
  writeFileSync(record, "");
  copyFileSync(join(REPOSITORY, "bin/setup"), join(root, "bin/setup"));
  writeFileSync(join(root, "deploy/sandbox/build"), 'echo "image:1: already there"\n');
  writeFileSync(join(root, "package-lock.json"), "{}");
  writeFileSync(join(root, "node_modules/.package-lock.json"), "{}");
  for (const tool of PLAIN_TOOLS.filter((name) => !(name in stubs))) symlinkSync(findTool(tool), join(tools, tool));
  for (const [name, body] of Object.entries(stubs)) {
    writeFileSync(join(tools, name), `#!/bin/sh\necho "${name} $*" >>"${record}"\n${body}\n`);
    chmodSync(join(tools, name), 0o755);
  }
  return {
    root,
    tools,
    calls: () => readFileSync(record, "utf8").split("\n").filter(Boolean),
    run(environment = {}) {
      const ran = spawnSync(join(tools, "sh"), [join(root, "bin/setup")], {
        env: { PATH: tools, ...environment },
        encoding: "utf8",
        timeout: 30_000,
      });
      return { status: ran.status, said: ran.stdout + ran.stderr };
    },
  };
}

function findTool(name: string): string {
  return spawnSync("sh", ["-c", `command -v ${name}`], { encoding: "utf8" }).stdout.trim();
}

const ready = {
  "redis-server": "",
  docker: "",
  debootstrap: "",
  prometheus: "",
  "apt-get": "exit 9",
  npm: "exit 9",
  node: "echo v24.0.0",
};
const { "apt-get": _aptGet, ...withoutApt } = ready;

describe("bin/setup", () => {
  test("on a ready machine says one line a step, changes nothing, and takes under two seconds", () => {
    const machine = createMachine(ready);
    const startedAt = performance.now();
    const { status, said } = machine.run();
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    expect(status).toBe(0);
    expect(said.trimEnd().split("\n")).toEqual([
      "setup: packages: all there",
      "setup: node modules: up to date",
      "setup: Docker: answers",
      "setup: sandbox image image:1: already there",
    ]);
    expect(machine.calls()).toEqual(["docker version"]); // no npm, no apt-get, not even node
  });

  test("installs the modules of a newer lock file, once", () => {
    const machine = createMachine({ ...ready, npm: "exit 0" });
    const future = Date.now() / 1_000 - 60;
    utimesSync(join(machine.root, "node_modules/.package-lock.json"), future - 60, future - 60);
    utimesSync(join(machine.root, "package-lock.json"), future, future);
    expect(machine.run().said).toContain("setup: node modules: installed");
    expect(machine.run().said).toContain("setup: node modules: up to date");
    expect(machine.calls().filter((call) => call.startsWith("npm"))).toHaveLength(1);
  });

  test("where Node is old, lets the Node of the lock file install", () => {
    const machine = createMachine({ ...ready, npm: "exit 0", node: "echo v18.20.4" });
    writeFileSync(
      join(machine.root, "package-lock.json"),
      JSON.stringify({ packages: { "node_modules/node": { version: "24.1.2" } } }, null, 2),
    );
    rmSync(join(machine.root, "node_modules"), { recursive: true });
    mkdirSync(join(machine.root, "node_modules"));
    expect(machine.run()).toMatchObject({ status: 0, said: expect.stringContaining("setup: node modules: installed") });
    const [borrow, install] = machine.calls().filter((call) => call.startsWith("npm"));
    expect(borrow).toMatch(/^npm install .*--prefix \S+ node@24\.1\.2 npm@\d/);
    expect(install).toMatch(/^npm ci /);
  });

  test("off Debian, names the tools that are missing and exits 3", () => {
    const { docker: _docker, "redis-server": _redis, ...bare } = withoutApt;
    expect(createMachine(bare).run()).toEqual({
      status: 3,
      said: "setup: missing: redis-server docker. Install Redis and Docker, then run this again\n",
    });
  });

  test("off Debian, is content with Redis and Docker", () => {
    const { debootstrap: _debootstrap, prometheus: _prometheus, ...machine } = withoutApt;
    expect(createMachine(machine).run().status).toBe(0);
  });

  test("without the rights, prints the missing command and exits 3", () => {
    const { "redis-server": _redis, ...bare } = { ...ready, "apt-cache": "", id: "echo 1000", sudo: "exit 1" };
    const machine = createMachine(bare);
    expect(machine.run()).toEqual({ status: 3, said: "setup: needs root for: apt-get install --yes redis-server\n" });
    expect(machine.calls().some((call) => call.startsWith("apt-get"))).toBe(false);
  });

  test("installs with sudo -n where it may, and what is missing alone", () => {
    const { "redis-server": _redis, prometheus: _prometheus, ...bare } = ready;
    const machine = createMachine({ ...bare, "apt-get": "exit 0", id: "echo 1000", sudo: 'shift; "$@"' });
    expect(machine.run().said).toContain("setup: packages: installed redis-server prometheus\n");
    const installs = machine.calls().filter((call) => call.startsWith("apt-get install"));
    expect(installs).toHaveLength(1);
    expect(installs[0]).toMatch(/ redis-server prometheus$/);
  });

  test("says why an installation failed, and exits 3", () => {
    const { prometheus: _prometheus, ...bare } = ready;
    const machine = createMachine({ ...bare, "apt-get": "echo no such package; exit 100", id: "echo 0" });
    expect(machine.run()).toEqual({
      status: 3,
      said: expect.stringMatching(/no such package\nsetup: failed: apt-get install prometheus\n$/),
    });
  });

  test("with a DOCKER_HOST that does not answer starts nothing and exits 3", () => {
    const machine = createMachine({ ...ready, docker: "exit 1", dockerd: "" });
    const { status, said } = machine.run({ DOCKER_HOST: "tcp://127.0.0.1:1" });
    expect(status).toBe(3);
    expect(said).toContain("setup: no Docker engine answers at DOCKER_HOST\n");
    expect(machine.calls().some((call) => call.startsWith("dockerd"))).toBe(false);
  });
});
