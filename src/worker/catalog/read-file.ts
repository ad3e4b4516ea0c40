import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  type BigIntStats,
} from "node:fs";
import { fault, type Finding } from "./finding.ts";

export type FileRead =
  | { readonly ok: true; readonly bytes: Uint8Array; readonly executable: boolean }
  | { readonly ok: false; readonly finding: Finding };

/** Without O_NONBLOCK the open of a FIFO waits for a writer, for ever. */
const OPEN_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Reads a regular file with one name, reached without any link, within a size limit. Never waits, never opens
 * what `lstat` already knows to be something else, never reads more than one byte above the limit.
 *
 * @param path Absolute, and free of links up to the file's directory when it was found: it is checked again after the open.
 * @returns The content, or why it is refused. Does not throw for what a file can be.
 */
export function readRegularFile(path: string, maxBytes: number): FileRead {
  let descriptor: number | undefined;
  try {
    const kind = refuseByKind(lstatSync(path, { bigint: true }));
    if (kind !== undefined) return refused(kind);
    descriptor = openSync(path, OPEN_FLAGS);
    const before = fstatSync(descriptor, { bigint: true });
    const problem = refuseByKind(before) ?? refuseBySize(before, maxBytes) ?? refuseByRoute(path, before);
    if (problem !== undefined) return refused(problem);
    const bytes = readAtMost(descriptor, Number(before.size) + 1);
    const after = fstatSync(descriptor, { bigint: true });
    if (bytes.length !== Number(before.size) || after.mtimeNs !== before.mtimeNs || after.size !== before.size) {
      return refused(
        fault(
          "file-changed",
          "The file changed while it was read. Load the catalog again when the files are in place.",
        ),
      );
    }
    return { ok: true, bytes, executable: (before.mode & 0o111n) !== 0n };
  } catch (error) {
    return refused(toFileFinding(error));
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function refused(finding: Finding): FileRead {
  return { ok: false, finding };
}

function refuseByKind(stats: BigIntStats): Finding | undefined {
  if (stats.isSymbolicLink()) return LINK;
  if (!stats.isFile()) {
    return fault("not-regular-file", `This is a ${kindOf(stats)}. Only regular files belong into a skill: remove it.`);
  }
  if (stats.nlink !== 1n) {
    return fault(
      "hard-link-refused",
      `The file has ${stats.nlink} names (hard links). Put a copy of its own in its place.`,
    );
  }
  return undefined;
}

const LINK = fault(
  "link-refused",
  "This is a symbolic link. Links are not followed: put a copy of the file in its place.",
);

function kindOf(stats: BigIntStats): string {
  if (stats.isFIFO()) return "FIFO";
  if (stats.isSocket()) return "socket";
  if (stats.isDirectory()) return "directory";
  return "device";
}

function refuseBySize(stats: BigIntStats, maxBytes: number): Finding | undefined {
  if (stats.size <= BigInt(maxBytes)) return undefined;
  return fault(
    "file-too-large",
    `The file has ${stats.size} bytes, more than the ${maxBytes} that are allowed. Split or shorten it.`,
  );
}

/**
 * The opened file must be the one that the path names without a link on the way. Comparing identities after
 * the open settles it, whenever a parent directory was exchanged for a link.
 */
function refuseByRoute(path: string, opened: BigIntStats): Finding | undefined {
  const named = lstatSync(path, { bigint: true });
  if (realpathSync.native(path) === path && named.dev === opened.dev && named.ino === opened.ino) return undefined;
  return fault(
    "link-refused",
    "A directory above the file is, or just became, a symbolic link. Put a real directory in its place.",
  );
}

/** Fills from the descriptor until its end or `limit` bytes. The memory is not shared with a pool. */
function readAtMost(descriptor: number, limit: number): Uint8Array {
  const buffer = Buffer.allocUnsafeSlow(limit);
  let filled = 0;
  while (filled < limit) {
    const count = readSync(descriptor, buffer, filled, limit - filled, null);
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
}

/** What a failed file operation means, without the host's path. Rethrows what no file operation threw. */
export function toFileFinding(error: unknown): Finding {
  const code = systemCode(error);
  if (code === undefined) throw error;
  if (code === "ELOOP") return LINK;
  if (code === "ENXIO")
    return fault(
      "not-regular-file",
      "This is a socket or a device. Only regular files belong into a skill: remove it.",
    );
  if (code === "ENOENT" || code === "ENOTDIR") {
    return fault(
      "file-changed",
      "The file went away while it was read. Load the catalog again when the files are in place.",
    );
  }
  return fault("file-unreadable", `The file cannot be read (${code}). Give the worker's user the right to read it.`);
}

/** The code of a system error such as `ENOENT`; undefined for any other error. */
export function systemCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error) || !("syscall" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
