/** Writes `dist`: the compiled sources and declarations, and the files beside them that are read at run time. */
import { spawnSync } from "node:child_process";
import { cpSync, globSync, rmSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
const compiler = join(root, "node_modules", ".bin", "tsc");
const compiled = spawnSync(compiler, ["-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" });
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

for (const asset of globSync("src/**/*.{lua,json}", { cwd: root })) {
  cpSync(join(root, asset), join(dist, relative("src", asset)), { recursive: true });
}
