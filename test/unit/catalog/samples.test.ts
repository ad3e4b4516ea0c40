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
