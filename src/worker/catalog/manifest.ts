import { workspacePolicySchema } from "../../shared/contracts/policy.ts";
import type { Diagnostic, ManifestEntry } from "./catalog.ts";
import { sha256 } from "./digest.ts";
import { collisionKey, joinShown, MAX_PATH_BYTES, printable } from "./file-names.ts";
import { fault, toDiagnostic, warning, type Finding } from "./finding.ts";
import { readDirectory, type DirectoryEntry } from "./read-directory.ts";
import { readRegularFile } from "./read-file.ts";
import { SKILL_FILE, type SkillDirectory } from "./scan-directories.ts";

/** The bounds of a skill's files: those of a workspace, where they are staged. */
export const MANIFEST_LIMITS = {
  maxFiles: workspacePolicySchema.properties.maxFiles.default,
  maxTotalBytes: workspacePolicySchema.properties.maxTotalBytes.default,
  maxFileBytes: workspacePolicySchema.properties.maxFileBytes.default,
} as const;

const MAX_DIRECTORIES = 500;
const MAX_DEPTH = 16;
const MAX_DIAGNOSTICS = 20;

export interface Manifest {
  /** Sorted by path. */
  readonly entries: readonly ManifestEntry[];
  readonly contents: ReadonlyMap<string, Uint8Array>;
  readonly totalBytes: number;
  readonly diagnostics: readonly Diagnostic[];
}

interface Walk {
  readonly skill: SkillDirectory;
  readonly isKnownSkill: (realPath: string) => boolean;
  readonly entries: ManifestEntry[];
  readonly contents: Map<string, Uint8Array>;
  readonly diagnostics: Diagnostic[];
  totalBytes: number;
  directories: number;
  /** A limit of the whole is passed: nothing more is read. */
  full: boolean;
}

/**
 * Reads every file of a skill but SKILL.md and `.git`. A directory below that holds a SKILL.md of its own is another
 * skill and stays out. Whatever is refused is a diagnostic of level error: the skill is not complete without it.
 *
 * @param isKnownSkill Whether a nested skill is loaded by itself.
 */
export function readManifest(skill: SkillDirectory, isKnownSkill: (realPath: string) => boolean): Manifest {
  const walk: Walk = {
    skill,
    isKnownSkill,
    entries: [],
    contents: new Map(),
    diagnostics: [],
    totalBytes: 0,
    directories: 0,
    full: false,
  };
  walkDirectory("", 0, walk);
  walk.entries.sort((left, right) => (left.path < right.path ? -1 : 1));
  return { entries: walk.entries, contents: walk.contents, totalBytes: walk.totalBytes, diagnostics: walk.diagnostics };
}

function report(walk: Walk, path: string, finding: Finding): void {
  if (walk.diagnostics.length >= MAX_DIAGNOSTICS) return;
  const shownPath = path === "" ? walk.skill.shownPath : joinShown(walk.skill.shownPath, printable(path));
  walk.diagnostics.push(toDiagnostic(shownPath, finding));
}

function stop(walk: Walk, code: string, message: string): void {
  if (!walk.full) report(walk, "", fault(code, message));
  walk.full = true;
}

function walkDirectory(path: string, depth: number, walk: Walk): void {
  walk.directories += 1;
  if (walk.directories > MAX_DIRECTORIES)
    return stop(walk, "too-many-directories", `The skill has more than ${MAX_DIRECTORIES} directories. Remove some.`);
  if (depth > MAX_DEPTH)
    return report(
      walk,
      path,
      fault("path-too-long", `The directory lies more than ${MAX_DEPTH} levels deep. Move it up.`),
    );
  const realPath = path === "" ? walk.skill.realPath : `${walk.skill.realPath}/${path}`;
  const read = readDirectory(realPath);
  if (!read.ok) return report(walk, path, read.finding);
  if (path !== "" && read.entries.some((entry) => entry.name === SKILL_FILE && entry.problem === undefined)) {
    if (!walk.isKnownSkill(realPath)) {
      report(
        walk,
        path,
        warning(
          "nested-skill-not-loaded",
          "This skill lies inside another one, too deep to be loaded. Give its directory by itself, or move it up.",
        ),
      );
    }
    return;
  }
  refuseCollisions(path, read.entries, walk);
  for (const entry of read.entries) {
    if (walk.full) return;
    takeEntry(path === "" ? entry.name : `${path}/${entry.name}`, entry, { depth, walk });
  }
}

function refuseCollisions(path: string, entries: readonly DirectoryEntry[], walk: Walk): void {
  const seen = new Map<string, string>();
  for (const { name } of entries) {
    const key = collisionKey(name);
    const other = seen.get(key);
    if (other !== undefined) {
      report(
        walk,
        path === "" ? name : `${path}/${name}`,
        fault(
          "file-name-collision",
          `The name differs from ${printable(other)} only in case or in how letters are composed. Rename one of them.`,
        ),
      );
    }
    seen.set(key, name);
  }
}

function takeEntry(
  path: string,
  entry: DirectoryEntry,
  { depth, walk }: { readonly depth: number; readonly walk: Walk },
): void {
  if (depth === 0 && (entry.name === ".git" || (entry.name === SKILL_FILE && entry.problem === undefined))) return;
  if (entry.problem !== undefined) return report(walk, path, fault("file-name-refused", `The name ${entry.problem}.`));
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    return report(walk, path, fault("path-too-long", `The path has more than ${MAX_PATH_BYTES} bytes. Shorten it.`));
  if (entry.kind === "directory") return walkDirectory(path, depth + 1, walk);
  if (walk.entries.length >= MANIFEST_LIMITS.maxFiles) {
    return stop(
      walk,
      "too-many-files",
      `The skill has more than ${MANIFEST_LIMITS.maxFiles} files besides ${SKILL_FILE}. Remove some.`,
    );
  }
  const file = readRegularFile(`${walk.skill.realPath}/${path}`, MANIFEST_LIMITS.maxFileBytes);
  if (!file.ok) return report(walk, path, file.finding);
  walk.totalBytes += file.bytes.length;
  if (walk.totalBytes > MANIFEST_LIMITS.maxTotalBytes) {
    return stop(
      walk,
      "skill-too-large",
      `The files of the skill have more than ${MANIFEST_LIMITS.maxTotalBytes} bytes together. Remove some.`,
    );
  }
  walk.contents.set(path, file.bytes);
  walk.entries.push(
    Object.freeze({ path, size: file.bytes.length, digest: sha256(file.bytes), executable: file.executable }),
  );
}
