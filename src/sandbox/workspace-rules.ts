import type { WorkspacePolicy } from "../shared/contracts/policy.ts";
import { type ReceiptCode, RunError } from "../shared/errors.ts";
import type { WorkspaceEntry } from "./backend.ts";
import { parentDirectories } from "./workspace-path.ts";

/** How a workspace breaks its policy. */
export interface PolicyBreach {
  readonly code: ReceiptCode;
  /** One sentence with the figures. */
  readonly message: string;
}

/** Directories that a workspace may hold beside its files; they count for nothing else. */
export function maxDirectories(policy: WorkspacePolicy): number {
  return policy.maxFiles + 1_000;
}

/**
 * Holds a listing against the policy, exactly: a limit reached is kept, one more is broken.
 *
 * @returns The first breach, in this order: special entries, one file, number of files, total, directories.
 */
export function findBreach(entries: readonly WorkspaceEntry[], policy: WorkspacePolicy): PolicyBreach | undefined {
  const special = entries.find((entry) => entry.kind === "special");
  if (special !== undefined) {
    const path = JSON.stringify(special.path.slice(0, 200));
    return {
      code: "path_refused",
      message: `The workspace may hold regular files and directories only; ${path} is neither.`,
    };
  }
  return findSizeBreach(entries, policy);
}

/** {@link findBreach} without the rule about special entries: what a write adds is held against the rest. */
export function findSizeBreach(entries: readonly WorkspaceEntry[], policy: WorkspacePolicy): PolicyBreach | undefined {
  const files = entries.filter((entry) => entry.kind === "file");
  const tooLarge = files.find((file) => file.size > policy.maxFileBytes);
  if (tooLarge !== undefined) {
    const path = JSON.stringify(tooLarge.path.slice(0, 200));
    return {
      code: "file_too_large",
      message: `${path} has ${tooLarge.size} bytes; a file may have ${policy.maxFileBytes}.`,
    };
  }
  if (files.length > policy.maxFiles) {
    return {
      code: "too_many_files",
      message: `The workspace has ${files.length} files; it may have ${policy.maxFiles}.`,
    };
  }
  const totalBytes = files.reduce((sum, file) => sum + file.size, 0);
  if (totalBytes > policy.maxTotalBytes) {
    return {
      code: "workspace_full",
      message: `The workspace has ${totalBytes} bytes; it may have ${policy.maxTotalBytes}.`,
    };
  }
  const directories = entries.filter((entry) => entry.kind === "directory").length;
  if (directories > maxDirectories(policy)) {
    return {
      code: "workspace_full",
      message: `The workspace has ${directories} directories; it may have ${maxDirectories(policy)}.`,
    };
  }
  return undefined;
}

/**
 * What the workspace would hold after a write. Every backend judges writes by this one function.
 *
 * @param files Paths as `parseWorkspacePath` returns them.
 * @throws {RunError} `path_refused` where a path, or a directory above it, is taken by something of another kind.
 */
export function entriesAfterWrite(
  entries: readonly WorkspaceEntry[],
  files: readonly { readonly path: string; readonly bytes: Uint8Array }[],
): readonly WorkspaceEntry[] {
  const after = new Map(entries.map((entry) => [entry.path, entry]));
  for (const { path, bytes } of files) {
    for (const parent of parentDirectories(path)) {
      const taken = after.get(parent);
      if (taken !== undefined && taken.kind !== "directory") throw notA("directory", parent);
      if (taken === undefined) after.set(parent, { path: parent, kind: "directory", size: 0 });
    }
    const target = after.get(path);
    if (target !== undefined && target.kind !== "file") throw notA("regular file", path);
    after.set(path, { path, kind: "file", size: bytes.byteLength });
  }
  return [...after.values()];
}

/**
 * Finds the regular file at `path`.
 *
 * @throws {RunError} `file_not_found` where nothing is; `path_refused` where it, or a directory above it, is of
 *   another kind.
 */
export function requireFile(entries: readonly WorkspaceEntry[], path: string): WorkspaceEntry {
  const byPath = new Map(entries.map((entry) => [entry.path, entry]));
  for (const parent of parentDirectories(path)) {
    const entry = byPath.get(parent);
    if (entry !== undefined && entry.kind !== "directory") throw notA("directory", parent);
  }
  const entry = byPath.get(path);
  if (entry === undefined)
    throw new RunError("file_not_found", { message: `There is no file ${JSON.stringify(path)}.` });
  if (entry.kind !== "file") throw notA("regular file", path);
  return entry;
}

function notA(kind: string, path: string): RunError {
  return new RunError("path_refused", { message: `${JSON.stringify(path)} is not a ${kind}.` });
}
