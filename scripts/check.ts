/**
 * Checks the whole repository: `node scripts/check.ts` for what needs neither Redis nor Docker,
 * `node scripts/check.ts --all` for everything. The quick checks run side by side; the tests run last
 * and alone, so that their summary closes the output. Exit 0 only when every step passed.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";

interface Step {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
}

interface StepOutcome {
  readonly name: string;
  readonly passed: boolean;
  readonly output: string;
  readonly durationMs: number;
}

const LINTED = ["src", "test", "scripts", "bench", "examples", "deploy", "vitest.config.ts"].filter((path) =>
  existsSync(path),
);

const QUICK_STEPS: readonly Step[] = [
  { name: "format", argv: ["oxfmt", "--check", "."] },
  { name: "lint", argv: ["oxlint", ...LINTED] },
  { name: "types", argv: ["tsc", "-p", "tsconfig.json"] },
  { name: "dead code", argv: ["knip", "--no-progress"] },
];

/** What the tests need beside Node, and how to ask whether it is there. */
const REQUIREMENTS: readonly Step[] = [
  { name: "Redis (redis-server)", argv: ["redis-server", "--version"] },
  { name: "Docker (a daemon that answers)", argv: ["docker", "version", "--format", "{{.Server.Version}}"] },
];

/** Children find the tools of this repository first, also where npm did not start this script. */
const environment = { ...process.env, PATH: `${process.cwd()}/node_modules/.bin:${process.env["PATH"] ?? ""}` };

async function runQuietly(step: Step): Promise<StepOutcome> {
  const startedAt = performance.now();
  const [command, ...options] = step.argv;
  const child = spawn(command, options, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const passed = await new Promise<boolean>((resolve) => {
    child.once("error", (error) => {
      output += error.message;
      resolve(false);
    });
    child.once("close", (status) => resolve(status === 0));
  });
  return { name: step.name, passed, output, durationMs: performance.now() - startedAt };
}

async function runTests(projects: readonly string[]): Promise<boolean> {
  const argv = ["run", ...projects.flatMap((project) => ["--project", project])];
  const child = spawn("vitest", argv, { env: environment, stdio: "inherit" });
  return new Promise<boolean>((resolve) => {
    child.once("error", () => resolve(false));
    child.once("close", (status) => resolve(status === 0));
  });
}

function report(outcome: StepOutcome): boolean {
  const seconds = (outcome.durationMs / 1_000).toFixed(1);
  console.log(`${outcome.passed ? "ok  " : "FAIL"}  ${outcome.name} (${seconds} s)`);
  if (!outcome.passed) console.log(outcome.output.trimEnd());
  return outcome.passed;
}

/** Says aloud what cannot run. @returns false where that is a failure: under `CI=true`. */
async function checkRequirements(): Promise<boolean> {
  const outcomes = await Promise.all(REQUIREMENTS.map(async (step) => runQuietly(step)));
  const missing = outcomes.filter((outcome) => !outcome.passed);
  const mustRun = process.env["CI"] === "true";
  for (const { name } of missing) {
    console.log(`${mustRun ? "FAIL" : "SKIP"}  ${name} is missing: the tests that need it cannot run`);
  }
  return missing.length === 0 || !mustRun;
}

async function main(options: { readonly everything: boolean }): Promise<boolean> {
  let passed = options.everything ? await checkRequirements() : true;
  const outcomes = await Promise.all(QUICK_STEPS.map(async (step) => runQuietly(step)));
  for (const outcome of outcomes) passed = report(outcome) && passed;
  const projects = options.everything ? ["unit", "integration", "e2e"] : ["unit"];
  const testsPassed = await runTests(projects);
  if (!passed) console.log("FAIL  a check before the tests failed: see above");
  return passed && testsPassed;
}

process.exitCode = (await main({ everything: process.argv.includes("--all") })) ? 0 : 1;
