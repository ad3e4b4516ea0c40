import { randomUUID } from "node:crypto";
import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";
import { RunError } from "../../shared/errors.ts";
import type { ExecResult, Sandbox, SandboxBackend, WorkspaceEntry } from "../backend.ts";
import { parseWorkspacePath } from "../workspace-path.ts";
import { entriesAfterWrite, findSizeBreach, requireFile } from "../workspace-rules.ts";

/**
 * A sandbox without an engine: files in this process's memory, and no commands. For offline examples and for
 * skills that only read and write.
 */
export function createMemorySandbox(): SandboxBackend {
  return new MemoryBackend();
}

class MemoryBackend implements SandboxBackend {
  readonly name = "memory";
  #disposed = false;

  async create(policy: WorkspacePolicy, _labels: unknown, signal: AbortSignal): Promise<Sandbox> {
    signal.throwIfAborted();
    if (this.#disposed) throw new RunError("sandbox_unavailable", { message: "The sandbox backend is closed." });
    return new MemorySandbox(policy);
  }

  async check(): Promise<{ readonly engine: string; readonly version: string }> {
    return { engine: "memory", version: process.versions.node };
  }

  /** Nothing outlives its process. */
  async sweep(): Promise<number> {
    return 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
  }
}

class MemorySandbox implements Sandbox {
  readonly id = `memory-${randomUUID()}`;
  readonly executesCommands = false;
  readonly #policy: WorkspacePolicy;
  readonly #bytes = new Map<string, Uint8Array>();
  #entries: readonly WorkspaceEntry[] = [];
  #destroyed = false;

  constructor(policy: WorkspacePolicy) {
    this.#policy = policy;
  }

  async exec(): Promise<ExecResult> {
    throw new RunError("sandbox_unavailable", {
      message: "The memory sandbox runs no commands; use the Docker sandbox.",
    });
  }

  async list(signal?: AbortSignal): Promise<readonly WorkspaceEntry[]> {
    this.#requireOpen(signal);
    return this.#entries;
  }

  async readFile(
    path: string,
    range: { readonly offset: number; readonly length: number },
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: Uint8Array; readonly size: number }> {
    this.#requireOpen(signal);
    const relative = parseWorkspacePath(path);
    const { size } = requireFile(this.#entries, relative);
    const bytes = this.#bytes.get(relative) ?? new Uint8Array();
    return { bytes: new Uint8Array(bytes.subarray(range.offset, range.offset + range.length)), size };
  }

  async writeFiles(
    files: readonly { readonly path: string; readonly bytes: Uint8Array; readonly executable?: boolean }[],
    signal?: AbortSignal,
  ): Promise<void> {
    this.#requireOpen(signal);
    const named = files.map((file) => ({ path: parseWorkspacePath(file.path), bytes: new Uint8Array(file.bytes) }));
    const entries = entriesAfterWrite(this.#entries, named);
    const breach = findSizeBreach(entries, this.#policy);
    if (breach !== undefined) throw new RunError("workspace_full", { message: breach.message });
    for (const { path, bytes } of named) this.#bytes.set(path, bytes);
    this.#entries = entries;
  }

  async destroy(): Promise<{ readonly confirmed: boolean }> {
    this.#destroyed = true;
    this.#bytes.clear();
    this.#entries = [];
    return { confirmed: true };
  }

  #requireOpen(signal: AbortSignal | undefined): void {
    signal?.throwIfAborted();
    if (this.#destroyed) throw new RunError("sandbox_failed", { message: "The sandbox is destroyed." });
  }
}
