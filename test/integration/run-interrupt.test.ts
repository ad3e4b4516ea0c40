import { describe, expect, test } from "vitest";
import { createDockerSandbox } from "../../src/sandbox/index.ts";
import { Executor } from "../../src/worker/executor/executor.ts";
import { ScriptedModel } from "../../src/worker/model/scripted.ts";
import { BUSYBOX_IMAGE, containersWith, ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { collect, makeCatalog, makeSkill, oneModel } from "../support/runs.ts";

/** Stops every process of its user, for ever: helpers that should end it are stopped as they appear. */
const STOPS_ALL = "while :; do kill -STOP -1; done & while :; do kill -STOP -1; done";
const DEAF = "trap '' TERM; (trap '' TERM; setsid sleep 600) & while :; do :; done";

describe.runIf(hasDocker)("a run whose command resists", () => {
  test.each([
    ["stops its helpers", STOPS_ALL],
    ["is deaf", DEAF],
  ])("by the way that it %s ends with its wall clock all the same, and leaves nothing", async (name, script) => {
    await ensureSandboxImages();
    const installation = `interrupt-${name.replaceAll(/[^a-z]/g, "")}-${process.pid}`;
    const command = { name: "workspace_execute_command", arguments: { argv: ["sh", "-c", script] } };
    await using executor = new Executor({
      catalog: makeCatalog(makeSkill({})),
      models: oneModel(new ScriptedModel([{ toolCalls: [command] }, { text: "never" }])),
      sandbox: () => createDockerSandbox({ image: BUSYBOX_IMAGE, installation }),
      installation,
    });
    const { result } = await collect(
      executor.run({
        skill: "sample",
        query: "q",
        allowedCapabilities: ["workspace.execute_command@1"],
        limits: { wallClockMs: 3_000 },
      }),
    );
    expect(result).toMatchObject({ status: "timed_out", receipts: [{ status: "indeterminate" }] });
    expect(result.sandboxUnconfirmed).toBeUndefined();
    // Far more than it takes, far less than the minutes that the command would have.
    expect(result.timings.durationMs).toBeLessThan(30_000);
    expect(await containersWith(`skilldock.installation=${installation}`)).toEqual([]);
  });
});
