import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The machine's own redis-server as an image: no registry is needed. */
const REDIS_TEST_IMAGE = "skilldock-test-redis:1";

/** Makes the image where it is not there yet. Returns its name. */
export async function ensureRedisImage(): Promise<string> {
  const found = await run("docker", ["image", "inspect", REDIS_TEST_IMAGE]).catch(() => undefined);
  if (found !== undefined) return REDIS_TEST_IMAGE;
  const root = mkdtempSync(join(tmpdir(), "skilldock-redis-image-"));
  try {
    await copyProgram(root, (await run("sh", ["-c", "command -v redis-server"])).stdout.trim());
    for (const directory of ["data", "tmp"]) mkdirSync(join(root, directory));
    await importImage(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
  return REDIS_TEST_IMAGE;
}

/** A program and the shared libraries that it names, at their own paths. */
async function copyProgram(root: string, path: string): Promise<void> {
  mkdirSync(join(root, "bin"), { recursive: true });
  copyFileSync(realpathSync(path), join(root, "bin", basename(path)));
  const { stdout } = await run("ldd", [path]);
  for (const [, library = ""] of stdout.matchAll(/(\/\S+) \(0x/g)) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(realpathSync(library), join(root, library));
  }
}

async function importImage(root: string): Promise<void> {
  const archive = `${root}.tar`;
  try {
    await run("tar", ["-C", root, "-cf", archive, "."]);
    const changes = ["ENV PATH=/bin", "WORKDIR /data", "EXPOSE 6379", 'CMD ["redis-server", "--protected-mode", "no"]'];
    await run("docker", ["import", ...changes.flatMap((change) => ["--change", change]), archive, REDIS_TEST_IMAGE]);
  } finally {
    rmSync(archive, { force: true });
  }
}
