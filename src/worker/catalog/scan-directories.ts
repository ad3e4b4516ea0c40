import { realpathSync, statSync } from "node:fs";
import { basename, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { RunError } from "../../shared/errors.ts";
import type { Diagnostic } from "./catalog.ts";
import { joinShown, printable } from "./file-names.ts";
import { fault, toDiagnostic, warning } from "./finding.ts";
import { readDirectory, type DirectoryEntry } from "./read-directory.ts";
import { systemCode } from "./read-file.ts";

export const SKILL_FILE = "SKILL.md";

/** A directory that holds an entry named SKILL.md, whatever that entry is. */
export interface SkillDirectory {
  /** Absolute, without links. */
  readonly realPath: string;
  /** As the operator wrote it, joined with the path inside; safe to print. */
  readonly shownPath: string;
  readonly name: string;
}

export interface Scan {
  readonly directories: readonly SkillDirectory[];
  /** What would have been a skill's directory and cannot be one. */
  readonly refused: readonly { readonly name: string; readonly diagnostic: Diagnostic }[];
  readonly diagnostics: readonly Diagnostic[];
}

/** A skills directory is a skill, or holds skills, or holds directories of skills. */
const MAX_LEVELS_DOWN = 2;
const MAX_ENTRIES = 50_000;

/** Neither holds skills, and both can be huge. */
const SKIPPED: ReadonlySet<string> = new Set([".git", "node_modules"]);

/** A directory on the way down. */
interface Visit {
  readonly realPath: string;
  readonly shownPath: string;
  readonly name: string;
  readonly level: number;
  /** A directory above it is a skill: what is odd in it, that skill's manifest reports. */
  readonly insideSkill: boolean;
}

interface ScanState {
  readonly found: Map<string, SkillDirectory>;
  readonly refused: { readonly name: string; readonly diagnostic: Diagnostic }[];
  readonly diagnostics: Diagnostic[];
  entryCount: number;
}

/**
 * Finds every skill directory at, or at most two levels below, the given directories. A directory reached twice is
 * one. Links below a given directory are not followed; the given path itself may lead through links.
 *
 * @throws {RunError} `invalid_configuration`: a given directory is missing, is none, cannot be read, or is far too large.
 */
export function scanDirectories(given: readonly (string | URL)[]): Scan {
  const state: ScanState = { found: new Map(), refused: [], diagnostics: [], entryCount: 0 };
  const roots = new Set<string>();
  for (const directory of given) {
    const root = openRoot(directory);
    if (roots.has(root.realPath)) continue;
    roots.add(root.realPath);
    const before = state.found.size + state.refused.length;
    state.entryCount = 0;
    visit(root, state);
    if (state.found.size + state.refused.length === before && !state.found.has(root.realPath)) {
      state.diagnostics.push(
        toDiagnostic(
          root.shownPath,
          warning(
            "no-skills",
            "No new SKILL.md was found here or up to two levels down. Give a skill's directory, or one that holds skills.",
          ),
        ),
      );
    }
  }
  return { directories: [...state.found.values()], refused: state.refused, diagnostics: state.diagnostics };
}

function openRoot(given: string | URL): Visit {
  const path = toPath(given);
  const shownPath = printable(path);
  try {
    const absolute = resolve(path);
    const realPath = realpathSync.native(absolute);
    if (!statSync(realPath).isDirectory()) throw misconfigured(`${shownPath} is not a directory.`);
    const read = readDirectory(realPath);
    if (!read.ok) throw misconfigured(`${shownPath}: ${read.finding.message}`);
    return { realPath, shownPath, name: basename(absolute).normalize("NFC"), level: 0, insideSkill: false };
  } catch (error) {
    if (error instanceof RunError) throw error;
    const code = systemCode(error);
    const what = code === "ENOENT" ? "does not exist" : `cannot be opened (${code ?? "invalid path"})`;
    throw misconfigured(`The skills directory ${shownPath} ${what}. Give an existing directory.`, error);
  }
}

function toPath(given: string | URL): string {
  const text = String(given);
  if (!(given instanceof URL) && !text.startsWith("file:")) return text === "" ? "." : text;
  try {
    return fileURLToPath(given);
  } catch (error) {
    throw misconfigured(`${printable(text)} is not the file:// URL of a local directory.`, error);
  }
}

function misconfigured(message: string, cause?: unknown): RunError {
  return new RunError("invalid_configuration", { message, cause });
}

function visit(directory: Visit, state: ScanState): void {
  const read = readDirectory(directory.realPath);
  if (!read.ok) {
    if (!directory.insideSkill) state.diagnostics.push(toDiagnostic(directory.shownPath, read.finding));
    return;
  }
  state.entryCount += read.entries.length;
  if (state.entryCount > MAX_ENTRIES) {
    throw misconfigured(
      `More than ${MAX_ENTRIES} files lie at and below ${directory.shownPath}. Give a narrower skills directory.`,
    );
  }
  const isSkill = read.entries.some((entry) => entry.name === SKILL_FILE && entry.problem === undefined);
  if (isSkill && !state.found.has(directory.realPath)) {
    const { realPath, shownPath, name } = directory;
    state.found.set(realPath, { realPath, shownPath, name });
  }
  const insideSkill = directory.insideSkill || isSkill;
  if (!insideSkill) reportMisnamed(directory, read.entries, state);
  if (directory.level === MAX_LEVELS_DOWN) return;
  for (const entry of read.entries) visitEntry(directory, entry, { state, insideSkill });
}

function visitEntry(
  parent: Visit,
  entry: DirectoryEntry,
  { state, insideSkill }: { readonly state: ScanState; readonly insideSkill: boolean },
): void {
  if (SKIPPED.has(entry.name) || (entry.kind !== "directory" && entry.kind !== "link")) return;
  const realPath = parent.realPath.endsWith(sep)
    ? `${parent.realPath}${entry.name}`
    : `${parent.realPath}${sep}${entry.name}`;
  const shownPath = joinShown(parent.shownPath, printable(entry.name));
  const refuse = (code: string, message: string): void => {
    if (insideSkill) return;
    const diagnostic = toDiagnostic(shownPath, fault(code, message));
    state.refused.push({ name: entry.name, diagnostic });
  };
  if (entry.problem !== undefined) {
    refuse("file-name-refused", `The name ${entry.problem}.`);
  } else if (entry.kind === "directory") {
    visit({ realPath, shownPath, name: entry.name, level: parent.level + 1, insideSkill }, state);
  } else if (leadsToDirectory(realPath)) {
    refuse(
      "link-refused",
      "This is a symbolic link to a directory. Links are not followed: put the directory itself here, or give its path.",
    );
  }
}

/** Loose links to files mean nothing here; one to a directory, or to nothing, may have been meant as a skill. */
function leadsToDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return true;
  }
}

/** `skill.md` is not SKILL.md, and must not be overlooked in silence. */
function reportMisnamed(directory: Visit, entries: readonly DirectoryEntry[], state: ScanState): void {
  const misnamed = entries.find(
    (entry) => entry.kind !== "directory" && entry.name.toLowerCase() === SKILL_FILE.toLowerCase(),
  );
  if (misnamed === undefined) return;
  const path = joinShown(directory.shownPath, misnamed.name);
  state.refused.push({
    name: directory.name,
    diagnostic: toDiagnostic(
      path,
      fault("skill-file-misnamed", `The file must be named ${SKILL_FILE}, in these letters. Rename it.`),
    ),
  });
}
