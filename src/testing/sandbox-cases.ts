import { createHash, randomUUID } from "node:crypto";
import type { WorkspacePolicy } from "../shared/contracts/policy.ts";
import type { Sandbox, SandboxBackend, SandboxLabels } from "../sandbox/backend.ts";
import { type StagedFile, Workspace, type WorkspaceOutcome } from "../sandbox/workspace.ts";

/** One rule of the sandbox port, as a check that any test runner can run. It rejects where the rule is broken. */
export interface SandboxCase {
  /** A sentence of behaviour. */
  readonly name: string;
  /** `commands`: only for backends whose sandboxes run commands. */
  readonly needs?: "commands";
  /** Makes its own sandboxes and ends them. */
  run(backend: SandboxBackend): Promise<void>;
}

/** The policy of every case: the contract's defaults, with a short command time. */
export const CASE_POLICY: WorkspacePolicy = {
  maxFiles: 100,
  maxTotalBytes: 10_000_000,
  maxFileBytes: 1_000_000,
  commandTimeoutMs: 20_000,
  maxCommandOutputBytes: 100_000,
  environment: {},
  network: "disabled",
};

/** Installation on the labels of every sandbox that the cases make. */
export const CASE_INSTALLATION = "conformance";

/** Labels of a sandbox that may live two minutes. */
export function caseLabels(): SandboxLabels {
  return {
    installation: CASE_INSTALLATION,
    owner: `case-${process.pid}`,
    runId: randomUUID(),
    tenantId: "conformance",
    attempt: 1,
    deadline: Date.now() + 120_000,
  };
}

/** What a case works with; gone when the case is. */
export interface Bench {
  readonly sandbox: Sandbox;
  readonly workspace: Workspace;
  readonly signal: AbortSignal;
}

/** Makes a case around one sandbox. */
export function sandboxCase(
  name: string,
  check: (bench: Bench) => Promise<void>,
  options: { readonly needs?: "commands"; readonly policy?: Partial<WorkspacePolicy> } = {},
): SandboxCase {
  const policy = { ...CASE_POLICY, ...options.policy };
  return {
    name,
    ...(options.needs === undefined ? {} : { needs: options.needs }),
    async run(backend) {
      const { signal } = new AbortController();
      const sandbox = await backend.create(policy, caseLabels(), signal);
      try {
        await check({ sandbox, workspace: new Workspace({ sandbox, policy }), signal });
      } finally {
        await sandbox.destroy();
      }
    },
  };
}

/** A skill file as the catalog would give it. */
export function stagedFile(
  path: string,
  bytes: Uint8Array,
  options: { readonly executable?: boolean } = {},
): StagedFile {
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  return { path, bytes, executable: options.executable ?? false, digest };
}

/** The code of a failed outcome; `ok` of another. */
export function codeOf(outcome: WorkspaceOutcome): string {
  return outcome.ok ? "ok" : outcome.code;
}
