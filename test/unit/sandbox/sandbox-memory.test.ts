import { describe, expect, it } from "vitest";
import { createMemorySandbox } from "../../../src/sandbox/memory/memory-sandbox.ts";
import { Workspace } from "../../../src/sandbox/workspace.ts";
import { RunError } from "../../../src/shared/errors.ts";
import { CASE_POLICY, caseLabels } from "../../../src/testing/sandbox-cases.ts";
import { SANDBOX_CONFORMANCE } from "../../../src/testing/sandbox-conformance.ts";

const { signal } = new AbortController();

describe("the memory sandbox keeps the port's rules:", () => {
  for (const { name, needs, run } of SANDBOX_CONFORMANCE) {
    if (needs !== "commands") it(name, () => run(createMemorySandbox()));
  }
});

describe("the memory sandbox", () => {
  it("runs no command and says so to model and host", async () => {
    const sandbox = await createMemorySandbox().create(CASE_POLICY, caseLabels(), signal);
    expect(sandbox.executesCommands).toBe(false);
    const options = { timeoutMs: 1, maxOutputBytes: 1 };
    await expect(sandbox.exec(["true"], options)).rejects.toMatchObject({ code: "sandbox_unavailable" });
    const told = await new Workspace({ sandbox, policy: CASE_POLICY }).execute({ argv: ["true"] }, signal);
    expect(told).toMatchObject({ ok: false, code: "tool_failed" });
    await sandbox.destroy();
  });

  it("keeps its own copy of what was written", async () => {
    const sandbox = await createMemorySandbox().create(CASE_POLICY, caseLabels(), signal);
    const bytes = Buffer.from("before");
    await sandbox.writeFiles([{ path: "x", bytes }]);
    bytes.write("after!");
    const read = await sandbox.readFile("x", { offset: 0, length: 10 });
    read.bytes.fill(0);
    const again = await sandbox.readFile("x", { offset: 0, length: 10 });
    expect(Buffer.from(again.bytes).toString()).toBe("before");
  });

  it("makes no sandbox once it is closed", async () => {
    const backend = createMemorySandbox();
    await backend[Symbol.asyncDispose]();
    await expect(backend.create(CASE_POLICY, caseLabels(), signal)).rejects.toBeInstanceOf(RunError);
  });
});
