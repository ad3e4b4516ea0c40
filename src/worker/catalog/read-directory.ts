import { readdirSync, realpathSync, type Dirent } from "node:fs";
import { fault, type Finding } from "./finding.ts";
import { checkFileName } from "./file-names.ts";
import { systemCode } from "./read-file.ts";

export type EntryKind = "file" | "directory" | "link" | "special";

/** One entry of a directory. `problem`: its name cannot be used, `name` is then only fit to be shown. */
export interface DirectoryEntry {
  readonly name: string;
  readonly kind: EntryKind;
  readonly problem?: string;
}

export type DirectoryRead =
  | { readonly ok: true; readonly entries: readonly DirectoryEntry[] }
  | { readonly ok: false; readonly finding: Finding };

/**
 * Lists a directory that is reached without any link, sorted by the bytes of the names.
 *
 * @param path Absolute and real when it was found.
 */
export function readDirectory(path: string): DirectoryRead {
  try {
    const raw = readdirSync(path, { withFileTypes: true, encoding: "buffer" });
    if (realpathSync.native(path) !== path) {
      return {
        ok: false,
        finding: fault("link-refused", "This is, or just became, a symbolic link. Put a real directory in its place."),
      };
    }
    raw.sort((left, right) => Buffer.compare(left.name, right.name));
    return { ok: true, entries: raw.map(toEntry) };
  } catch (error) {
    const code = systemCode(error);
    if (code === undefined) throw error;
    return {
      ok: false,
      finding: fault(
        "directory-unreadable",
        `The directory cannot be read (${code}). Give the worker's user the right to read it.`,
      ),
    };
  }
}

function toEntry(entry: Dirent<Buffer>): DirectoryEntry {
  const check = checkFileName(entry.name);
  return check.ok
    ? { name: check.name, kind: kindOf(entry) }
    : { name: check.shown, kind: kindOf(entry), problem: check.problem };
}

function kindOf(entry: Dirent<Buffer>): EntryKind {
  if (entry.isFile()) return "file";
  if (entry.isDirectory()) return "directory";
  return entry.isSymbolicLink() ? "link" : "special";
}
