import { execFile, execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** The images of `deploy/sandbox/build`: for real use, and the smallest one that keeps the contract. */
export const DEBIAN_IMAGE = "skilldock-sandbox:1";
export const BUSYBOX_IMAGE = "skilldock-sandbox-busybox:1";

/**
 * False where no Docker engine answers: its tests are skipped, aloud. Always true under `CI=true`, where they fail.
 */
export const hasDocker: boolean = process.env["CI"] === "true" || dockerAnswers();

function dockerAnswers(): boolean {
  try {
    execFileSync("docker", ["version"], { stdio: "ignore", timeout: 10_000 });
    return true;
  } catch {
    console.warn("SKIPPED: no Docker engine answers, so the tests with real containers do not run.");
    return false;
  }
}

/** Makes the sandbox images where they are not there yet. */
export async function ensureSandboxImages(): Promise<void> {
  await run("sh", [fileURLToPath(new URL("../../deploy/sandbox/build", import.meta.url))]);
}

/** Runs the docker command; returns what it printed. */
export async function docker(...args: readonly string[]): Promise<string> {
  return (await run("docker", [...args])).stdout.trim();
}

/** Ids of all containers, in any state, that carry the label. */
export async function containersWith(label: string): Promise<readonly string[]> {
  const ids = await docker("ps", "--all", "--quiet", "--no-trunc", "--filter", `label=${label}`);
  return ids.split("\n").filter(Boolean);
}
