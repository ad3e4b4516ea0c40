import type { WorkspacePolicy } from "../shared/contracts/policy.ts";

/**
 * The port to a sandbox engine: two primitives, on which the workspace is built.
 *
 * Rules that every backend keeps (the conformance suite checks them):
 * B1 What a command did is data; what the engine did is a `RunError`
 *    (`sandbox_unavailable` before a sandbox exists, `sandbox_failed` after).
 * B2 After `exec` settles, no process of that command is alive.
 * B3 `destroy` is idempotent, never throws, and resolves when the sandbox is gone or 10 s have passed;
 *    it says which.
 * B4 The environment of a command is the policy's, and nothing else.
 */

/** What a sandbox is for. Written on the container, for sweepers and operators. */
export interface SandboxLabels {
  readonly installation: string;
  /** The process that owns it; unique per start. */
  readonly owner: string;
  readonly runId: string;
  readonly tenantId: string;
  readonly attempt: number;
  /** Epoch ms after which a sweeper may remove it. */
  readonly deadline: number;
}

export interface ExecOptions {
  /** Bytes for stdin; closed after them. Absent: closed at once. */
  readonly stdin?: Uint8Array;
  readonly timeoutMs: number;
  /** stdout and stderr together, in bytes. At the first byte more the command is killed. */
  readonly maxOutputBytes: number;
  readonly signal?: AbortSignal;
}

export interface ExecResult {
  /**
   * `exited`: ended by itself, whatever the code. `not_started`: no such program, or it cannot be run.
   * `timed_out`, `output_limit`, `out_of_memory`: killed for that.
   */
  readonly outcome: "exited" | "not_started" | "timed_out" | "output_limit" | "out_of_memory";
  /** null where we killed it or it never started. */
  readonly exitCode: number | null;
  /** The first `maxOutputBytes` bytes of both streams together, apart. Their order to each other is not kept. */
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly truncated: boolean;
  readonly durationMs: number;
}

/** One entry under the workspace after the last operation. `special`: neither regular file nor directory. */
export interface WorkspaceEntry {
  /** Relative to the workspace, POSIX. */
  readonly path: string;
  readonly kind: "file" | "directory" | "special";
  readonly size: number;
}

export interface Sandbox {
  readonly id: string;
  /**
   * Whether this backend runs commands. Where it does not, `execute` is refused as `sandbox_unavailable`.
   */
  readonly executesCommands: boolean;
  /**
   * Runs `argv` without a shell, in `/workspace`, as the workload user, with the policy's environment.
   *
   * @throws {RunError} `sandbox_failed`; `signal.reason` after an abort (the command is dead then).
   */
  exec(argv: readonly string[], options: ExecOptions): Promise<ExecResult>;
  /** Every entry under the workspace. */
  list(signal?: AbortSignal): Promise<readonly WorkspaceEntry[]>;
  /**
   * Reads a regular file; follows no link, opens nothing else.
   *
   * @returns At most `length` bytes from `offset`, and the file's whole size.
   * @throws {RunError} `file_not_found`, `path_refused`, `sandbox_failed`.
   */
  readFile(
    path: string,
    range: { readonly offset: number; readonly length: number },
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: Uint8Array; readonly size: number }>;
  /**
   * Writes files, each atomically, making parent directories; follows no link.
   *
   * @throws {RunError} `path_refused`, `workspace_full`, `sandbox_failed`.
   */
  writeFiles(
    files: readonly { readonly path: string; readonly bytes: Uint8Array; readonly executable?: boolean }[],
    signal?: AbortSignal,
  ): Promise<void>;
  /** See B3. @returns `confirmed: false` where the removal could not be confirmed in 10 s. */
  destroy(): Promise<{ readonly confirmed: boolean }>;
}

export interface SandboxBackend extends AsyncDisposable {
  readonly name: string;
  /**
   * @param signal Aborting it during create leaves nothing behind.
   * @throws {RunError} `sandbox_unavailable`.
   */
  create(policy: WorkspacePolicy, labels: SandboxLabels, signal: AbortSignal): Promise<Sandbox>;
  /** Says whether the engine answers, with what an operator should know. @throws {RunError} `sandbox_unavailable`. */
  check(signal?: AbortSignal): Promise<{ readonly engine: string; readonly version: string }>;
  /** Removes what dead owners of this installation left behind. @returns How many sandboxes were removed. */
  sweep(): Promise<number>;
  [Symbol.asyncDispose](): Promise<void>;
}
