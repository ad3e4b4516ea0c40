import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { createDockerSandbox } from "../../src/sandbox/index.ts";
import { Workspace } from "../../src/sandbox/workspace.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { RunError } from "../../src/shared/errors.ts";
import { CASE_POLICY, caseLabels, stagedFile } from "../../src/testing/sandbox-cases.ts";
import { BUSYBOX_IMAGE, docker, ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { EXEC_LIMITS, openTestBackend, output } from "../support/sandbox.ts";

const OWNER = fileURLToPath(new URL("../fixtures/sandbox-owner.ts", import.meta.url));
const reason = new Error("cancelled");
const never = new AbortController().signal;

describe.skipIf(!hasDocker)("a sandbox in Docker", () => {
  beforeAll(ensureSandboxImages, 300_000);

  it("is gone soon after its worker was killed, whatever runs in it", async () => {
    await using test = await openTestBackend();
    const owner = spawn(process.execPath, [OWNER, BUSYBOX_IMAGE, test.installation], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(owner, "exit");
    try {
      const [id] = (await once(createInterface(owner.stdout), "line")) as [string];
      expect(await test.containers()).toEqual([id]);
    } finally {
      owner.kill("SIGKILL");
    }
    await exited;
    await expect.poll(() => test.containers(), { timeout: 10_000, interval: 50 }).toEqual([]);
  });

  it("ends by itself at its deadline, though its worker lives", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create({}, { deadline: Date.now() + 1_000 });
    const running = sandbox.exec(["sleep", "600"], EXEC_LIMITS);
    await expect(running).rejects.toMatchObject({ code: "sandbox_failed" });
    expect(await test.containers()).toEqual([]);
    expect(await sandbox.destroy()).toEqual({ confirmed: true });
  });

  it("is not there when its create was cancelled, at whatever moment", async () => {
    await using test = await openTestBackend();
    const moments = [0, 5, 10, 20, 40, 60, 80, 120];
    await Promise.all(
      moments.map(async (ms) => {
        const abort = new AbortController();
        const creating = test.backend.create(CASE_POLICY, test.labels(), abort.signal);
        systemClock.after(ms, () => abort.abort(reason));
        const made = await creating.catch((error: unknown) => error);
        // A machine that is quicker than the moment hands the sandbox over.
        if (made instanceof Error) expect(made).toBe(reason);
        else await (made as Awaited<typeof creating>).destroy();
      }),
    );
    expect(await test.containers()).toEqual([]);
  });

  it("can be cancelled while files are staged, and destroyed in the middle of it", async () => {
    await using test = await openTestBackend();
    const bytes = Buffer.alloc(100_000, "x");
    const files = Array.from({ length: 100 }, (_, index) => stagedFile(`f${index}`, bytes));
    const cancelled = await test.create();
    const abort = new AbortController();
    const staging = new Workspace({ sandbox: cancelled, policy: CASE_POLICY }).stage(files, abort.signal);
    systemClock.after(30, () => abort.abort(reason));
    await expect(staging).rejects.toBe(reason);
    const destroyed = await test.create();
    const cut = new Workspace({ sandbox: destroyed, policy: CASE_POLICY }).stage(files, never);
    const settled = expect(cut).rejects.toMatchObject({ code: "sandbox_failed" });
    expect(await destroyed.destroy()).toEqual({ confirmed: true });
    await settled;
    expect(await cancelled.destroy()).toEqual({ confirmed: true });
    expect(await test.containers()).toEqual([]);
  });

  it("tells the abort and not its consequences, when both happen to a command", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    const abort = new AbortController();
    const running = sandbox.exec(["sleep", "600"], { ...EXEC_LIMITS, signal: abort.signal });
    const settled = expect(running).rejects.toBe(reason);
    abort.abort(reason);
    await sandbox.destroy();
    await settled;
  });

  it("fails its operations when somebody else removes it, and is confirmed gone", async () => {
    await using test = await openTestBackend();
    const sandbox = await test.create();
    await docker("rm", "--force", sandbox.id);
    await expect(sandbox.exec(["true"], EXEC_LIMITS)).rejects.toMatchObject({ code: "sandbox_failed" });
    expect(await sandbox.destroy()).toEqual({ confirmed: true });
  });

  it("detects staged bytes that are not what their digest says", async () => {
    await using test = await openTestBackend();
    const workspace = new Workspace({ sandbox: await test.create(), policy: CASE_POLICY });
    const wrong = { ...stagedFile("x", Buffer.from("x")), digest: stagedFile("y", Buffer.from("y")).digest };
    await expect(workspace.stage([wrong], never)).rejects.toMatchObject({ code: "sandbox_failed" });
  });

  it("goes with its backend, also when it is still being made", async () => {
    const test = await openTestBackend();
    const sandbox = await test.create();
    const creating = test.backend.create(CASE_POLICY, test.labels(), never);
    const settled = expect(creating).rejects.toMatchObject({ code: "sandbox_unavailable" });
    await test[Symbol.asyncDispose]();
    await settled;
    await expect(sandbox.list()).rejects.toBeInstanceOf(RunError);
    await expect(test.create()).rejects.toMatchObject({ code: "sandbox_unavailable" });
  });
});

describe.skipIf(!hasDocker)("a sweep", () => {
  beforeAll(ensureSandboxImages, 300_000);

  it("removes what is past its deadline or never started, of its own installation alone", async () => {
    let now = Date.now();
    await using test = await openTestBackend({ clock: { ...systemClock, now: () => now } });
    await using other = await openTestBackend();
    const alive = await test.create();
    const young = await leftOver(test.installation, now + 600_000);
    const foreign = await leftOver(other.installation, 1);
    const expired = await leftOver(test.installation, now - 1);
    expect(await test.backend.sweep()).toBe(1);
    expect([...(await test.containers())].toSorted()).toEqual([alive.id, young].toSorted());
    expect([...(await test.containers()), ...(await other.containers())]).not.toContain(expired);
    now += 61_000;
    expect(await test.backend.sweep()).toBe(1);
    expect(await test.containers()).toEqual([alive.id]);
    expect(await output(alive, "echo", "alive")).toBe("alive\n");
    expect(await other.containers()).toEqual([foreign]);
    expect(await other.backend.sweep()).toBe(1);
  });
});

/** A container that was created and never started, as a worker that died in between leaves it. */
async function leftOver(installation: string, deadline: number): Promise<string> {
  const labels = ["sandbox=1", `installation=${installation}`, `deadline=${deadline}`].flatMap((label) => [
    "--label",
    `skilldock.${label}`,
  ]);
  return docker("create", "--network", "none", ...labels, BUSYBOX_IMAGE, "true");
}

describe("a Docker engine that cannot serve", () => {
  it("is named with what to do, when there is no socket", async () => {
    const backend = await createDockerSandbox({ socketPath: "/nonexistent/docker.sock" });
    const refusal = { code: "sandbox_unavailable", message: expect.stringContaining("Start Docker") };
    await expect(backend.check()).rejects.toMatchObject(refusal);
    await expect(backend.create(CASE_POLICY, caseLabels(), never)).rejects.toMatchObject(refusal);
    await expect(backend.sweep()).rejects.toMatchObject({ code: "sandbox_unavailable" });
    await backend[Symbol.asyncDispose]();
  });

  it.skipIf(!hasDocker)("is named with what to do, when the image is missing", async () => {
    await using test = await openTestBackend({ image: "skilldock-no-such-image:1" });
    const refusal = { code: "sandbox_unavailable", message: expect.stringContaining("deploy/sandbox/build") };
    await expect(test.backend.check()).rejects.toMatchObject(refusal);
    await expect(test.create()).rejects.toMatchObject(refusal);
  });

  it.skipIf(!hasDocker)("is named when it does not know the runtime", async () => {
    await using test = await openTestBackend({ runtime: "no-such-runtime" });
    await expect(test.create()).rejects.toMatchObject({ code: "sandbox_unavailable" });
  });

  it("is not even asked with settings that cannot work", async () => {
    for (const wrong of [{ memoryBytes: 1 }, { cpus: 0 }, { pidsLimit: 4 }, { image: "" }]) {
      await expect(createDockerSandbox(wrong)).rejects.toMatchObject({ code: "invalid_configuration" });
    }
  });
});
