import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type { DockerSandboxOptions } from "../../src/sandbox/docker/settings.ts";
import { createDockerSandbox, type Sandbox, type SandboxBackend, type SandboxLabels } from "../../src/sandbox/index.ts";
import type { WorkspacePolicy } from "../../src/shared/contracts/policy.ts";
import { CASE_POLICY, caseLabels } from "../../src/testing/sandbox-cases.ts";
import { BUSYBOX_IMAGE, containersWith } from "./docker.ts";

/** A Docker backend with an installation of its own; at the end of its scope none of its containers may be left. */
export interface TestBackend extends AsyncDisposable {
  readonly backend: SandboxBackend;
  readonly installation: string;
  labels(overrides?: Partial<SandboxLabels>): SandboxLabels;
  create(policy?: Partial<WorkspacePolicy>, overrides?: Partial<SandboxLabels>): Promise<Sandbox>;
  /** Ids of its containers, in any state. */
  containers(): Promise<readonly string[]>;
}

export async function openTestBackend(options: DockerSandboxOptions = {}): Promise<TestBackend> {
  const installation = `test-${randomUUID()}`;
  const backend = await createDockerSandbox({ image: BUSYBOX_IMAGE, installation, ...options });
  const labels = (overrides: Partial<SandboxLabels> = {}): SandboxLabels => ({
    ...caseLabels(),
    installation,
    ...overrides,
  });
  const containers = (): Promise<readonly string[]> => containersWith(`skilldock.installation=${installation}`);
  return {
    backend,
    installation,
    labels,
    containers,
    create: (policy, overrides) =>
      backend.create({ ...CASE_POLICY, ...policy }, labels(overrides), new AbortController().signal),
    async [Symbol.asyncDispose]() {
      await backend[Symbol.asyncDispose]();
      expect(await containers()).toEqual([]);
    },
  };
}

/** Limits for a command that is not what a test is about. */
export const EXEC_LIMITS = { timeoutMs: 20_000, maxOutputBytes: 100_000 } as const;

/** What a command printed; it must end with 0. */
export async function output(sandbox: Sandbox, ...argv: readonly string[]): Promise<string> {
  const result = await sandbox.exec(argv, EXEC_LIMITS);
  expect([result.outcome, result.exitCode], Buffer.from(result.stderr).toString()).toEqual(["exited", 0]);
  return Buffer.from(result.stdout).toString();
}
