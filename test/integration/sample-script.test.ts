import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import type { Sandbox } from "../../src/sandbox/index.ts";
import { loadScript } from "../../src/shared/config/script-file.ts";
import { DEBIAN_IMAGE, ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { EXEC_LIMITS, openTestBackend } from "../support/sandbox.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SKILL = "skills/invoice-check";
const SCRIPT = `${SKILL}/scripts/check_invoice.py`;
const EXAMPLE = `${SKILL}/assets/example-invoice.json`;

interface Report {
  readonly findings?: readonly { readonly code: string; readonly printed: string; readonly calculated: string }[];
}

/** Puts the sample's files where a run has them. */
async function stage(sandbox: Sandbox): Promise<void> {
  const files = [SCRIPT, EXAMPLE].map((path) => ({ path, bytes: readFileSync(join(ROOT, path)) }));
  await sandbox.writeFiles(files);
}

async function run(
  sandbox: Sandbox,
  argv: readonly string[],
): Promise<{ readonly exitCode: number | null; readonly report: Report }> {
  const { exitCode, stdout } = await sandbox.exec(argv, EXEC_LIMITS);
  return { exitCode, report: JSON.parse(Buffer.from(stdout).toString()) as Report }; // the script prints JSON
}

describe.runIf(hasDocker)("the script of invoice-check, in its sandbox", () => {
  beforeAll(ensureSandboxImages, 300_000);

  test("finds what the scripted answer says", async () => {
    await using backend = await openTestBackend({ image: DEBIAN_IMAGE });
    const sandbox = await backend.create();
    await stage(sandbox);
    const entry = loadScript(join(ROOT, "scripted.yaml")).find(({ when }) => when?.skill === "invoice-check");
    const call = entry?.steps
      .flatMap(({ toolCalls }) => toolCalls ?? [])
      .find(({ name }) => name === "workspace_execute_command");
    if (typeof call?.arguments !== "object") throw new Error("the script calls no command");
    const { exitCode, report } = await run(sandbox, call.arguments["argv"] as readonly string[]); // as the tool's schema says
    expect(exitCode).toBe(1);
    expect(report.findings?.map(({ code }) => code)).toEqual(["tax_total", "gross_total"]);
    const answer = entry?.steps.at(-1)?.text ?? "";
    for (const { printed, calculated } of report.findings ?? []) {
      expect(answer).toContain(printed);
      expect(answer).toContain(calculated);
    }
    await sandbox.destroy();
  });

  test("finds planted mistakes and refuses what is no invoice", async () => {
    await using backend = await openTestBackend({ image: DEBIAN_IMAGE });
    const sandbox = await backend.create();
    await stage(sandbox);
    const example = JSON.parse(readFileSync(join(ROOT, EXAMPLE), "utf8")) as Readonly<Record<string, unknown>>; // ours
    const check = async (
      change: Readonly<Record<string, unknown>>,
    ): Promise<readonly [number | null, readonly string[]]> => {
      const invoice = JSON.stringify({ ...example, taxTotal: "154.26", grossTotal: "1022.36", ...change });
      await sandbox.writeFiles([{ path: "i.json", bytes: Buffer.from(invoice) }]);
      const argv = ["python3", `/workspace/${SCRIPT}`, "/workspace/i.json", "--today", "2026-03-20"];
      const { exitCode, report } = await run(sandbox, argv);
      return [exitCode, (report.findings ?? []).map(({ code }) => code)];
    };
    expect(await check({})).toEqual([0, []]);
    expect(await check({ supplier: { name: "x", taxId: "y", iban: "DE88370400440532013000" } })).toEqual([1, ["iban"]]);
    expect(await check({ due: "2026-03-01" })).toEqual([1, ["dates"]]);
    expect(await check({ due: "2026-03-10" })).toEqual([1, ["overdue"]]);
    expect(await check({ number: "" })).toEqual([1, ["missing"]]);
    expect(await check({ lines: [] })).toEqual([2, []]);
    expect(await check({ netTotal: "1e400" })).toEqual([2, []]);
    await sandbox.destroy();
  });
});
