import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Sandbox, SandboxBackend } from "../../../src/sandbox/backend.ts";
import { createMemorySandbox } from "../../../src/sandbox/index.ts";
import { RunError } from "../../../src/shared/errors.ts";
import { loadCatalog } from "../../../src/worker/catalog/load-catalog.ts";
import { Executor, type LocalRunRequest } from "../../../src/worker/executor/executor.ts";
import { ScriptedModel, type ScriptStepSource } from "../../../src/worker/model/scripted.ts";
import { collect, makeCatalog, makeSkill, oneModel, type CollectedRun } from "../../support/runs.ts";
import { makeSkillTree } from "../../support/skill-tree.ts";

const ALL = ["workspace.list@1", "workspace.read@1", "workspace.write@1", "workspace.execute_command@1"];
const use = (name: string, args: Record<string, unknown> = {}): ScriptStepSource => ({
  toolCalls: [{ name: `workspace_${name}`, arguments: args }],
});

/** A memory backend that counts what is made and ended, and can be told to break. */
function counted(broken: { readonly create?: RunError; readonly list?: RunError; readonly destroy?: Error } = {}): {
  readonly backend: SandboxBackend;
  readonly made: () => number;
  readonly alive: () => number;
} {
  const inner = createMemorySandbox();
  let made = 0;
  let ended = 0;
  const backend: SandboxBackend = {
    name: "counted",
    async create(...args) {
      if (broken.create !== undefined) throw broken.create;
      made++;
      const sandbox = await inner.create(...args);
      return new Proxy<Sandbox>(sandbox, {
        get(target, property: keyof Sandbox) {
          if (property === "destroy" && broken.destroy !== undefined) return async () => Promise.reject(broken.destroy);
          if (property === "destroy") return async () => (ended++, target.destroy());
          if (property === "list" && broken.list !== undefined) return async () => Promise.reject(broken.list);
          const value: unknown = target[property];
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
    check: (signal) => inner.check(signal),
    sweep: () => inner.sweep(),
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
  return { backend, made: () => made, alive: () => made - ended };
}

async function run(
  steps: readonly ScriptStepSource[],
  request: Partial<LocalRunRequest> = {},
  backend: SandboxBackend = createMemorySandbox(),
): Promise<CollectedRun> {
  const skill = makeSkill({ files: { "references/a.md": "alpha" } });
  const executor = new Executor({
    catalog: makeCatalog(skill),
    models: oneModel(new ScriptedModel(steps)),
    sandbox: () => backend,
  });
  return collect(executor.run({ skill: "sample", query: "q", allowedCapabilities: ALL, ...request }));
}

describe("a workspace", () => {
  test("is made at the first workspace call, holds the skill's files, and is gone at the end", async () => {
    const { backend, made, alive } = counted();
    const { result, of } = await run(
      [
        use("list"),
        use("read", { path: "skills/sample/references/a.md" }),
        use("write", { path: "out/b.txt", content: "beta" }),
        use("list"),
        { text: "Done." },
      ],
      {},
      backend,
    );
    const outputs = of("tool.result").map((event) => event.data.output);
    expect(outputs[0]).toContain("skills/sample/references/a.md");
    expect(outputs[1]).toContain("alpha");
    expect(outputs[3]).toContain("out/b.txt");
    expect(result).toMatchObject({ status: "succeeded" });
    expect(result.receipts.every((receipt) => receipt.policyDigest !== undefined)).toBe(true);
    expect([made(), alive()]).toEqual([1, 0]);
  });

  test("is not made for a run that never uses it", async () => {
    const { backend, made } = counted();
    await run([{ text: "No need." }], {}, backend);
    expect(made()).toBe(0);
  });

  test.each(["../x", "/etc/passwd", "a/../../b", "", "a\0b", "a/"])(
    "refuses the path %j, and the run goes on",
    async (path) => {
      const { result } = await run([use("read", { path }), { text: "Hm." }]);
      expect(result).toMatchObject({ status: "succeeded", receipts: [{ status: "failed" }] });
      expect(["path_refused", "invalid_arguments"]).toContain(result.receipts[0]?.code);
    },
  );

  test("keeps its policy: what would break it fails that call and changes nothing", async () => {
    const { result, of } = await run(
      [
        use("write", { path: "big", content: "123456" }),
        use("write", { path: "small", content: "12345" }),
        use("list"),
        { text: "Done." },
      ],
      { workspacePolicy: { maxFileBytes: 5 } },
    );
    expect(result.receipts.map((receipt) => receipt.code ?? "ok")).toEqual(["file_too_large", "ok", "ok"]);
    expect(of("tool.result")[2]?.data.output).not.toContain("big");
  });

  test("without command execution says so to the model", async () => {
    const { result } = await run([use("execute_command", { argv: ["true"] }), { text: "Then not." }]);
    expect(result).toMatchObject({ status: "succeeded", receipts: [{ status: "failed" }] });
  });

  test("that cannot be made ends the run as sandbox_unavailable, with nothing done", async () => {
    const { backend } = counted({ create: new RunError("sandbox_unavailable") });
    const { result } = await run([use("list"), { text: "never" }], {}, backend);
    expect(result).toMatchObject({
      status: "failed",
      error: { code: "sandbox_unavailable", retryable: true },
      receipts: [{ status: "failed" }],
    });
  });

  test("that breaks before the call has begun ends the run as sandbox_failed, and is still ended once", async () => {
    const { backend, alive } = counted({ list: new RunError("sandbox_failed") });
    const { result } = await run([use("list"), { text: "never" }], {}, backend);
    expect(result).toMatchObject({
      status: "failed",
      error: { code: "sandbox_failed" },
      receipts: [{ status: "failed" }],
    });
    expect(alive()).toBe(0);
  });

  test("whose end throws, against the rule, is reported as unconfirmed; the run ends all the same", async () => {
    const { backend } = counted({ destroy: new Error("engine gone") });
    const abort = new AbortController();
    const executor = new Executor({
      catalog: makeCatalog(makeSkill({})),
      models: oneModel(new ScriptedModel([use("list"), { waitForAbort: true }])),
      sandbox: () => backend,
      onEvent: (event) => void (event.type === "tool.result" && abort.abort()),
    });
    const { result } = await collect(
      executor.run({ skill: "sample", query: "q", allowedCapabilities: ALL }, { signal: abort.signal }),
    );
    expect(result).toMatchObject({ status: "cancelled", sandboxUnconfirmed: true });
  });

  test("is gone, too, when the reader leaves early", async () => {
    const { backend, made, alive } = counted();
    const executor = new Executor({
      catalog: makeCatalog(makeSkill({})),
      models: oneModel(new ScriptedModel([use("list"), { waitForAbort: true }])),
      sandbox: () => backend,
    });
    for await (const item of executor.run({ skill: "sample", query: "q", allowedCapabilities: ALL }))
      if (item.type === "tool.result") break;
    expect([made(), alive()]).toEqual([1, 0]);
  });

  test("is denied before the first turn where no backend is configured", async () => {
    const executor = new Executor({ catalog: makeCatalog(makeSkill({})), models: oneModel(new ScriptedModel([])) });
    const { result, types } = await collect(
      executor.run({ skill: "sample", query: "q", allowedCapabilities: ["workspace.read@1"] }),
    );
    expect(result).toMatchObject({ status: "policy_denied", error: { code: "workspace_unavailable" } });
    expect(types).toEqual(["run.started", "run.error"]);
  });
});

describe("a frozen catalog", () => {
  test("serves what was read, whatever happens on disk meanwhile", async () => {
    using tree = makeSkillTree();
    const directory = tree.skill("frozen", { body: "Before.\n" });
    tree.write("frozen/data.txt", "before");
    const catalog = await loadCatalog({ directories: [tree.path] });
    await writeFile(join(directory, "data.txt"), "after!");
    await rm(join(directory, "SKILL.md"));
    const model = new ScriptedModel([use("read", { path: "skills/frozen/data.txt" }), { text: "Done." }], {
      strict: true,
    });
    const executor = new Executor({ catalog, models: oneModel(model), sandbox: () => createMemorySandbox() });
    const { of, result } = await collect(
      executor.run({ skill: "frozen", query: "q", allowedCapabilities: ["workspace.read@1"] }),
    );
    expect(model.requests[0]?.messages[0]?.text).toContain("Before.");
    expect(of("tool.result")[0]?.data.output).toContain("before");
    expect(result.evidence[1]?.digest).toBe(catalog.get("frozen")?.manifest[0]?.digest);
  });
});
