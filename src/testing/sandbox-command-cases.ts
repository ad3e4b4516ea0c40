import assert from "node:assert/strict";
import { RunError } from "../shared/errors.ts";
import type { Sandbox } from "../sandbox/backend.ts";
import { codeOf, type SandboxCase, sandboxCase, stagedFile } from "./sandbox-cases.ts";

const needs = "commands";
const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 100_000 } as const;

async function shell(sandbox: Sandbox, script: string): Promise<string> {
  const result = await sandbox.exec(["sh", "-c", script], LIMITS);
  assert.deepEqual([result.outcome, result.exitCode], ["exited", 0], Buffer.from(result.stderr).toString());
  return Buffer.from(result.stdout).toString();
}

/** Names of all processes that the sandbox shows. */
async function processNames(sandbox: Sandbox): Promise<string> {
  return shell(
    sandbox,
    'for file in /proc/[0-9]*/comm; do read -r name <"$file" && echo "$name"; done 2>/dev/null; exit 0',
  );
}

/** What holds for commands on every backend that runs them. */
export const COMMAND_CASES: readonly SandboxCase[] = [
  sandboxCase(
    "arguments arrive exactly as given",
    async ({ sandbox }) => {
      const given = ["a b", "", "$HOME", "`id`", "'\"\\", "line\nbreak", "*", "-n", "ü😀", "A=B", "x".repeat(131_071)];
      const script = 'for argument; do printf "%s\\0" "$argument"; done';
      const result = await sandbox.exec(["sh", "-c", script, "sh", ...given], { ...LIMITS, maxOutputBytes: 1_000_000 });
      assert.deepEqual(Buffer.from(result.stdout).toString().split("\0").slice(0, -1), given);
    },
    { needs },
  ),

  sandboxCase(
    "vectors that cannot be passed on exactly are refused before anything runs",
    async ({ workspace, signal }) => {
      const refused = [[], [""], ["-c"], ["A=1"], ["a\0"], ["echo", "\ud800"], ["echo", "x".repeat(131_072)]];
      for (const argv of refused) assert.equal(codeOf(await workspace.execute({ argv }, signal)), "invalid_arguments");
      const long = Array.from({ length: 9 }, () => "x".repeat(120_000));
      assert.equal(codeOf(await workspace.execute({ argv: ["echo", ...long] }, signal)), "invalid_arguments");
    },
    { needs },
  ),

  sandboxCase(
    "the environment is empty, and the directory is the workspace",
    async ({ sandbox }) => {
      const result = await sandbox.exec(["env"], LIMITS);
      assert.deepEqual([result.exitCode, result.stdout.byteLength, result.stderr.byteLength], [0, 0, 0]);
      assert.equal(await shell(sandbox, "pwd"), "/workspace\n");
    },
    { needs },
  ),

  sandboxCase(
    "the environment is the policy's and nothing else",
    async ({ sandbox }) => {
      const result = await sandbox.exec(["env"], LIMITS);
      const lines = Buffer.from(result.stdout).toString().split("\n").filter(Boolean);
      assert.deepEqual(lines.toSorted(), ["EMPTY=", "LANG=C.UTF-8", "QUOTED=a 'b' $c = d"]);
    },
    { needs, policy: { environment: { LANG: "C.UTF-8", EMPTY: "", QUOTED: "a 'b' $c = d" } } },
  ),

  sandboxCase(
    "stdin arrives whole and ends; without any it is at its end",
    async ({ sandbox, workspace, signal }) => {
      const bytes = Buffer.alloc(900_000, "stdin ");
      const counted = await sandbox.exec(["sha256sum"], { ...LIMITS, stdin: bytes });
      const { digest } = stagedFile("x", bytes);
      assert.equal(`sha256:${Buffer.from(counted.stdout).toString().slice(0, 64)}`, digest);
      assert.equal((await workspace.execute({ argv: ["cat"] }, signal)).value?.["stdout"], "");
      assert.equal((await workspace.execute({ argv: ["cat"], stdin: "hö" }, signal)).value?.["stdout"], "hö");
      assert.equal((await sandbox.exec(["true"], { ...LIMITS, stdin: bytes })).exitCode, 0);
    },
    { needs },
  ),

  sandboxCase(
    "an exit code is data, also those of a shell that finds no program",
    async ({ workspace, signal }) => {
      for (const code of [0, 1, 77, 126, 127, 255]) {
        const result = await workspace.execute({ argv: ["sh", "-c", `echo out; echo err >&2; exit ${code}`] }, signal);
        assert.ok(result.ok);
        const { exitCode, outcome, stdout, stderr, truncated } = result.value;
        assert.deepEqual([exitCode, outcome, stdout, stderr, truncated], [code, "exited", "out\n", "err\n", false]);
      }
    },
    { needs },
  ),

  sandboxCase(
    "a program that does not exist or may not be run is not started",
    async ({ workspace, signal }) => {
      await workspace.stage([stagedFile("plain", Buffer.from("#!/bin/sh\n"))], signal);
      for (const program of ["no-such-program", "./no-such-file", "/workspace/plain", "./plain", "/workspace"]) {
        const result = await workspace.execute({ argv: [program] }, signal);
        assert.deepEqual(
          [codeOf(result), result.value?.["outcome"], result.value?.["exitCode"]],
          ["tool_failed", "not_started", null],
        );
      }
    },
    { needs },
  ),

  sandboxCase(
    "staged scripts run, and what commands write can be read",
    async ({ workspace, signal }) => {
      const script = Buffer.from('#!/bin/sh\nprintf "%s" "$1" > out/result.txt\n');
      await workspace.stage([stagedFile("skills/x/run.sh", script, { executable: true })], signal);
      await workspace.write({ path: "out/other", content: "x" }, signal);
      assert.equal(codeOf(await workspace.execute({ argv: ["skills/x/run.sh", "done"] }, signal)), "ok");
      assert.equal((await workspace.read({ path: "out/result.txt" }, signal)).value?.["content"], "done");
      await workspace.write({ path: "skills/x/run.sh", content: "#!/bin/sh\necho rewritten\n" }, signal);
      assert.equal((await workspace.execute({ argv: ["skills/x/run.sh"] }, signal)).value?.["stdout"], "rewritten\n");
    },
    { needs },
  ),

  sandboxCase(
    "at its time limit a command is killed with all its children, whatever they ignore",
    async ({ sandbox, workspace, signal }) => {
      const script = "trap '' TERM INT HUP; (trap '' TERM; setsid sh -c 'sleep 600' &); echo before; sleep 600";
      const result = await workspace.execute({ argv: ["sh", "-c", script], timeoutMs: 300 }, signal);
      assert.equal(codeOf(result), "command_timeout");
      const { exitCode, outcome, stdout, durationMs } = result.value ?? {};
      assert.deepEqual([exitCode, outcome, stdout], [null, "timed_out", "before\n"]);
      assert.ok(Number(durationMs) >= 300 && Number(durationMs) < 8_000, String(durationMs));
      assert.doesNotMatch(await processNames(sandbox), /sleep/u);
    },
    { needs },
  ),

  sandboxCase(
    "the policy's time limit holds whatever a caller asks for",
    async ({ workspace, signal }) => {
      const result = await workspace.execute({ argv: ["sleep", "600"], timeoutMs: 600_000 }, signal);
      assert.equal(codeOf(result), "command_timeout");
    },
    { needs, policy: { commandTimeoutMs: 200 } },
  ),

  sandboxCase(
    "a command that ends leaves no process behind",
    async ({ sandbox }) => {
      assert.equal(await shell(sandbox, "sleep 600 & (setsid sleep 600 &) ; echo hi"), "hi\n");
      assert.doesNotMatch(await processNames(sandbox), /sleep/u);
    },
    { needs },
  ),

  sandboxCase(
    "output up to the limit is kept whole; at the first byte more the command is killed",
    async ({ sandbox, workspace, signal }) => {
      const whole = await sandbox.exec(["head", "-c", "100000", "/dev/zero"], LIMITS);
      assert.deepEqual(
        [whole.outcome, whole.exitCode, whole.truncated, whole.stdout.byteLength],
        ["exited", 0, false, 100_000],
      );
      const script = "head -c 60000 /dev/zero; head -c 40001 /dev/zero >&2; sleep 600";
      const over = await sandbox.exec(["sh", "-c", script], LIMITS);
      assert.deepEqual([over.outcome, over.exitCode, over.truncated], ["output_limit", null, true]);
      assert.equal(over.stdout.byteLength + over.stderr.byteLength, 100_000);
      const flood = await workspace.execute({ argv: ["yes"] }, signal);
      assert.equal(codeOf(flood), "output_limit");
      assert.equal(String(flood.value?.["stdout"]).length, 100_000);
    },
    { needs },
  ),

  sandboxCase(
    "an abort kills the command and rejects with the reason; the sandbox stays usable",
    async ({ sandbox }) => {
      const reason = new Error("cancelled");
      const abort = new AbortController();
      const running = sandbox.exec(["sh", "-c", "sleep 600 & sleep 600"], { ...LIMITS, signal: abort.signal });
      const waiting = sandbox.exec(["echo", "next"], LIMITS);
      setImmediate(() => abort.abort(reason));
      await assert.rejects(running, reason);
      assert.equal(Buffer.from((await waiting).stdout).toString(), "next\n");
      assert.doesNotMatch(await processNames(sandbox), /sleep/u);
      await assert.rejects(sandbox.exec(["true"], { ...LIMITS, signal: AbortSignal.abort(reason) }), reason);
    },
    { needs },
  ),

  sandboxCase(
    "commands of one sandbox run one after the other",
    async ({ sandbox }) => {
      const script = "echo in >> log; sleep 0.1; echo out >> log";
      await Promise.all([1, 2, 3].map(() => shell(sandbox, script)));
      assert.equal(await shell(sandbox, "cat log"), "in\nout\n".repeat(3));
    },
    { needs },
  ),

  sandboxCase(
    "a command that breaks the policy fails with its code, and the next can put it right",
    async ({ sandbox, workspace, signal }) => {
      const many = await workspace.execute(
        { argv: ["sh", "-c", "for i in $(seq 101); do : > f$i; done; echo done"] },
        signal,
      );
      assert.deepEqual(
        [codeOf(many), many.value?.["stdout"], many.value?.["exitCode"]],
        ["too_many_files", "done\n", 0],
      );
      assert.equal(codeOf(await workspace.write({ path: "f1", content: "x" }, signal)), "too_many_files");
      assert.equal(codeOf(await workspace.execute({ argv: ["rm", "f101"] }, signal)), "ok");
      const full = "rm -f f*; for i in 1 2 3 4 5 6 7 8 9 10; do head -c 1000000 /dev/zero > f$i; done; echo x > last";
      assert.equal(codeOf(await workspace.execute({ argv: ["sh", "-c", full] }, signal)), "workspace_full");
      assert.equal(codeOf(await workspace.execute({ argv: ["rm", "last"] }, signal)), "ok");
      const large = await workspace.execute({ argv: ["sh", "-c", "rm f*; head -c 1000001 /dev/zero > big"] }, signal);
      assert.equal(codeOf(large), "file_too_large");
      const sizes = (await sandbox.list()).map((entry) => entry.size);
      assert.ok(sizes.every((size) => size <= 1_000_000));
    },
    { needs },
  ),

  sandboxCase(
    "links and pipes are reported, and never followed or opened",
    async ({ workspace, signal }) => {
      const script = "echo kept > real; ln -s real link; ln -s / root; mkfifo pipe; ln -s /dev/zero endless";
      const made = await workspace.execute({ argv: ["sh", "-c", script] }, signal);
      assert.equal(codeOf(made), "path_refused");
      for (const path of ["link", "root/etc/passwd", "pipe", "endless"]) {
        assert.equal(codeOf(await workspace.read({ path }, signal)), "path_refused", path);
        assert.equal(codeOf(await workspace.write({ path, content: "x" }, signal)), "path_refused", path);
      }
      const listed = await workspace.list(signal);
      assert.deepEqual(
        listed.value?.["refused"],
        ["endless", "link", "pipe", "root"].map((name) => `/workspace/${name}`),
      );
      assert.equal((await workspace.read({ path: "real" }, signal)).value?.["content"], "kept\n");
      assert.equal(codeOf(await workspace.execute({ argv: ["rm", "link", "root", "pipe", "endless"] }, signal)), "ok");
    },
    { needs },
  ),

  sandboxCase(
    "locked directories and odd names hide nothing",
    async ({ sandbox, workspace, signal }) => {
      const script =
        "mkdir -p locked/inner && echo x > locked/inner/file && chmod 000 locked/inner/file locked/inner locked; printf x > \"$(printf 'a\\nb')\"";
      assert.equal(codeOf(await workspace.execute({ argv: ["sh", "-c", script] }, signal)), "ok");
      const paths = (await sandbox.list()).filter((entry) => entry.kind === "file").map((entry) => entry.path);
      assert.deepEqual(paths.toSorted(), ["a\nb", "locked/inner/file"]);
      assert.equal((await workspace.read({ path: "locked/inner/file" }, signal)).value?.["content"], "x\n");
      const invalid = await workspace.execute({ argv: ["sh", "-c", "printf x > \"$(printf '\\377')\""] }, signal);
      assert.equal(codeOf(invalid), "path_refused");
    },
    { needs },
  ),

  sandboxCase(
    "directories too deep to be listed are refused",
    async ({ sandbox, workspace, signal }) => {
      const deep = "i=0; while [ $i -lt 70 ]; do mkdir d && cd d || exit 1; i=$((i+1)); done; echo x > hidden";
      assert.equal(codeOf(await workspace.execute({ argv: ["sh", "-c", deep] }, signal)), "path_refused");
      assert.ok((await sandbox.list()).every((entry) => entry.path.split("/").length <= 64));
      assert.equal(codeOf(await workspace.execute({ argv: ["rm", "-r", "d"] }, signal)), "ok");
    },
    { needs },
  ),

  sandboxCase(
    "destroying a sandbox ends its command at once",
    async ({ sandbox }) => {
      const running = sandbox.exec(["sleep", "600"], { ...LIMITS, timeoutMs: 60_000 });
      const settled = assert.rejects(
        running,
        (error: unknown) => error instanceof RunError && error.code === "sandbox_failed",
      );
      assert.deepEqual(await sandbox.destroy(), { confirmed: true });
      await settled;
    },
    { needs },
  ),
];
