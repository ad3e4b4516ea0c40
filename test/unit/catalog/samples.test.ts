import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadScript, type ScriptFileEntry } from "../../../src/shared/config/script-file.ts";
import type { Catalog, Skill } from "../../../src/worker/catalog/catalog.ts";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import { effectiveCapabilities } from "../../../src/worker/catalog/narrowing.ts";

const ROOT = join(import.meta.dirname, "../../..");

const CAPABILITIES: ReadonlyMap<string, string> = new Map([
  ["workspace_list", "workspace.list@1"],
  ["workspace_read", "workspace.read@1"],
  ["workspace_write", "workspace.write@1"],
  ["workspace_execute_command", "workspace.execute_command@1"],
  ["caller_lookup_order", "caller.lookup_order@1"],
]);

async function loadSamples(): Promise<Catalog> {
  return loadCatalog({ directories: [join(ROOT, "skills")] });
}

function readScript(): readonly ScriptFileEntry[] {
  return loadScript(join(ROOT, "scripted.yaml"));
}

function scriptFor(skill: Skill): ScriptFileEntry {
  const entry = readScript().find(({ when }) => when?.skill === skill.ref);
  if (entry === undefined) throw new Error(`no script for ${skill.ref}`);
  return entry;
}

test("the samples load without a diagnostic, in the strict profile too", async () => {
  const catalog = await loadSamples();
  expect(catalog.diagnostics).toEqual([]);
  expect(catalog.skills.map(({ ref }) => ref)).toEqual([
    "commit-message",
    "invoice-check",
    "order-status",
    "refund-policy",
  ]);
  expect((await loadCatalog({ directories: [join(ROOT, "skills")], strict: true })).diagnostics).toEqual([]);
});

test("every sample has a script, which names only tools that the sample allows, and the last entry fits anything", async () => {
  for (const skill of (await loadSamples()).skills) {
    const { allowed } = effectiveCapabilities([...CAPABILITIES.values()], [skill]);
    for (const { name } of scriptFor(skill).steps.flatMap(({ toolCalls }) => toolCalls ?? [])) {
      expect(allowed, `${skill.ref} calls ${name}`).toContain(CAPABILITIES.get(name));
    }
    expect(scriptFor(skill).steps.at(-1)?.toolCalls).toBeUndefined();
  }
  expect(readScript().at(-1)?.when).toEqual({});
});

test("the files that scripts and skills name are in the manifests", async () => {
  for (const skill of (await loadSamples()).skills) {
    const directory = `/workspace/skills/${skill.ref}/`;
    const named = JSON.stringify(scriptFor(skill).steps).match(/\/workspace\/skills\/[^"\s]+/g) ?? [];
    const mentioned = [...skill.body.matchAll(/\$\{SKILL_DIR\}\/([\w./-]+\w)/g)].map(
      (match) => `${directory}${match[1] ?? ""}`,
    );
    const held = skill.manifest.map(({ path }) => `${directory}${path}`);
    for (const path of [...named, ...mentioned]) expect(held).toContain(path);
    for (const path of held) expect(mentioned).toContain(path);
  }
});

const hasPython = spawnSync("python3", ["--version"]).status === 0;

test.skipIf(!hasPython)("the scripted answer of invoice-check says what its script finds", async () => {
  const skill = (await loadSamples()).get("invoice-check");
  if (skill === undefined) throw new Error("no invoice-check");
  const call = scriptFor(skill)
    .steps.flatMap(({ toolCalls }) => toolCalls ?? [])
    .find(({ name }) => name === "workspace_execute_command");
  if (typeof call?.arguments !== "object") throw new Error("the script calls no command");
  const [program = "", ...words] = (call.arguments["argv"] ?? []) as readonly string[];
  const argv = words.map((word) => word.replace("/workspace/skills", join(ROOT, "skills")));
  const run = spawnSync(program, ["-B", ...argv], { encoding: "utf8" });
  expect(run.status).toBe(1);
  const report: {
    readonly findings: readonly { readonly code: string; readonly printed: string; readonly calculated: string }[];
  } = JSON.parse(run.stdout);
  expect(report.findings.map(({ code }) => code)).toEqual(["tax_total", "gross_total"]);
  const answer = scriptFor(skill).steps.at(-1)?.text ?? "";
  for (const { printed, calculated } of report.findings) {
    expect(answer).toContain(printed);
    expect(answer).toContain(calculated);
  }
});

test.skipIf(!hasPython)("the invoice script finds planted mistakes and refuses what is no invoice", () => {
  const directory = mkdtempSync(join(tmpdir(), "skilldock-invoice-"));
  try {
    const script = join(ROOT, "skills/invoice-check/scripts/check_invoice.py");
    const example: Record<string, unknown> = JSON.parse(
      readFileSync(join(ROOT, "skills/invoice-check/assets/example-invoice.json"), "utf8"),
    );
    const check = (
      change: Readonly<Record<string, unknown>>,
    ): { readonly status: number | null; readonly codes: readonly string[] } => {
      const input = JSON.stringify({ ...example, taxTotal: "154.26", grossTotal: "1022.36", ...change });
      writeFileSync(join(directory, "i.json"), input);
      const run = spawnSync("python3", ["-B", script, join(directory, "i.json"), "--today", "2026-03-20"], {
        encoding: "utf8",
      });
      const report: { readonly findings?: readonly { readonly code: string }[] } = JSON.parse(run.stdout);
      return { status: run.status, codes: (report.findings ?? []).map(({ code }) => code) };
    };
    expect(check({})).toEqual({ status: 0, codes: [] });
    expect(check({ supplier: { name: "x", taxId: "y", iban: "DE88370400440532013000" } })).toEqual({
      status: 1,
      codes: ["iban"],
    });
    expect(check({ due: "2026-03-01" })).toEqual({ status: 1, codes: ["dates"] });
    expect(check({ due: "2026-03-10" })).toEqual({ status: 1, codes: ["overdue"] });
    expect(check({ number: "" })).toEqual({ status: 1, codes: ["missing"] });
    expect(check({ lines: [] })).toEqual({ status: 2, codes: [] });
    expect(check({ netTotal: "1e400" })).toEqual({ status: 2, codes: [] });
  } finally {
    rmSync(directory, { recursive: true });
  }
});
