import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REPOSITORY } from "../support/imports.ts";

/** A jump in size is a file that does not belong. */
const MAX_UNPACKED_BYTES = 3_000_000;
const ENTRY_POINTS = ["", "/producer", "/worker", "/sandbox", "/testing"];

const HEAVY_LIBRARIES = ["bullmq", "dockerode", "openai"];

interface PackReport {
  readonly filename: string;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string; readonly mode: number }[];
}

const modules = join(REPOSITORY, "node_modules");
const node = join(modules, "node", "bin", "node");
let folder: string;
let report: PackReport;

/** A folder that has the packed package installed as npm would: beside its dependencies, and without sources. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "skilldock-package-"));
  execFileSync(node, [join(REPOSITORY, "scripts/build.ts")], { cwd: REPOSITORY, stdio: "pipe" });
  const packed = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
    cwd: REPOSITORY,
    encoding: "utf8",
    // The machine's npm belongs to the machine's Node.
    env: {
      ...process.env,
      PATH: (process.env["PATH"] ?? "")
        .split(":")
        .filter((path) => !path.includes("node_modules"))
        .join(":"),
    },
  });
  [report] = JSON.parse(packed) as [PackReport];
  const installed = join(folder, "node_modules", "skilldock");
  mkdirSync(installed, { recursive: true });
  execFileSync("tar", ["-xzf", join(folder, report.filename), "-C", installed, "--strip-components=1"]);
  for (const name of readdirSync(modules)) {
    if (!name.startsWith(".") && name !== "skilldock")
      symlinkSync(join(modules, name), join(folder, "node_modules", name));
  }
}, 120_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (file: string, argv: readonly string[]): string =>
  execFileSync(file, argv, { cwd: folder, encoding: "utf8", timeout: 30_000 });

describe("the package", () => {
  test("holds the command, the compiled code, the contract, and nothing else", () => {
    const allowed = /^(bin\/skilldock|dist\/.+|contracts\/.+\.json|package\.json|README\.md|CHANGELOG\.md|LICENSE)$/;
    const paths = report.files.map(({ path }) => path);
    expect(paths.filter((path) => !allowed.test(path))).toEqual([]);
    expect(paths).toContain("LICENSE");
    expect(paths).toContain("contracts/run-request.schema.json");
    expect(paths.some((path) => path.endsWith(".lua"))).toBe(true);
    expect(report.unpackedSize).toBeLessThan(MAX_UNPACKED_BYTES);
  });

  test("has every file that its exports name", () => {
    const manifest = JSON.parse(run("cat", ["node_modules/skilldock/package.json"])) as {
      readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
    };
    const named = Object.values(manifest.exports).flatMap((target) =>
      typeof target === "string" ? [target] : [target["types"], target["default"]],
    );
    expect(named.filter((path) => !existsSync(join(folder, "node_modules/skilldock", path ?? "?")))).toEqual([]);
  });

  test.each(ENTRY_POINTS)("imports skilldock%s from the compiled code", (entryPoint) => {
    const script = `import(${JSON.stringify(`skilldock${entryPoint}`)}).then((names) => console.log(Object.keys(names).length))`;
    expect(Number(run(node, ["--eval", script]))).toBeGreaterThan(0);
  });

  test.each(ENTRY_POINTS)("loads no heavy library before skilldock%s needs it", (entryPoint) => {
    const script = `
      const loaded = new Set();
      require("node:module").registerHooks({
        resolve(specifier, context, next) {
          const found = next(specifier, context);
          loaded.add(/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\/(?!.*node_modules)/.exec(found.url)?.[1]);
          return found;
        },
      });
      import(${JSON.stringify(`skilldock${entryPoint}`)}).then(() => console.log([...loaded].join(" ")));`;
    const loaded = run(node, ["--input-type=commonjs", "--eval", script]).trim().split(" ");
    expect(loaded).toContain("skilldock");
    expect(loaded.filter((name) => HEAVY_LIBRARIES.includes(name))).toEqual([]);
  });

  test("its command runs through a link, from any folder", () => {
    mkdirSync(join(folder, "node_modules", ".bin"), { recursive: true });
    const link = join(folder, "node_modules", ".bin", "skilldock");
    symlinkSync("../skilldock/bin/skilldock", link);
    expect(run(link, ["--version"])).toMatch(/^\d+\.\d+\.\d+/);
  });
});
