import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../bench/main.ts", import.meta.url));

interface Outcome {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
}

/** Runs the bench as a user does, and reads all that it prints. */
async function bench(...args: readonly string[]): Promise<Outcome> {
  const child = spawn(process.execPath, ["--conditions=skilldock-source", MAIN, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [output, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { code: code as number, output, errors }; // as Node documents it
}

test.each([
  ["noop", 1],
  ["latency", 2],
  ["loop", 1],
  ["path", 1],
  ["append", 2],
])(
  "the bench %s prints ratio, both figures and the goal",
  async (name, figures) => {
    const { code, output, errors } = await bench("--quick", name);
    expect(errors).toBe("");
    expect(code).toBe(0);
    const number = String.raw`[\d,.]+`;
    const count = (pattern: string): number => [...output.matchAll(new RegExp(pattern, "gm"))].length;
    expect(count(`^  ratio     ${number} × \\(${number}–${number}\\)   goal [≥≤] .*met$`)).toBe(figures);
    expect(count(`^  skilldock ${number} \\S+ \\(${number}–${number}\\)$`)).toBe(figures);
    expect(count(`^  baseline  ${number} \\S+ \\(${number}–${number}\\): \\S`)).toBe(figures);
  },
  60_000,
);

test("a bench that does not exist is refused, with the names of those that do", async () => {
  const { code, output, errors } = await bench("speed");
  expect(code).toBe(1);
  expect(output).toBe("");
  expect(errors).toContain("noop, latency, loop, path, append");
});
