import { setImmediate } from "node:timers/promises";
import { toRunError } from "../../shared/errors.ts";
import type { Catalog, Diagnostic, Skill } from "./catalog.ts";
import { catalogDigest } from "./digest.ts";
import { compareDiagnostics, toDiagnostic } from "./finding.ts";
import { readSkill } from "./read-skill.ts";
import { scanDirectories, type Scan } from "./scan-directories.ts";
import { assignRefs } from "./skill-ref.ts";

export interface LoadCatalogOptions {
  /** Paths or `file://` URLs. Each is a skill, or holds skills, or holds directories of skills. */
  readonly directories: readonly (string | URL)[];
  /** Hold skills to the open format's own rules; what breaks one is invalid. Default false: such things are at most warnings. */
  readonly strict?: boolean;
}

/**
 * Reads every skill of the given directories once, into memory, and freezes it. What changes on disk later has no
 * effect. A skill that cannot be read faithfully is left out, with diagnostics; it never keeps out another.
 *
 * @throws {RunError} `invalid_configuration`: a directory is missing or cannot be read, or two skills have one ref.
 */
export async function loadCatalog(options: LoadCatalogOptions): Promise<Catalog> {
  try {
    return await load(options);
  } catch (error) {
    throw toRunError(error);
  }
}

async function load({ directories, strict }: LoadCatalogOptions): Promise<Catalog> {
  const scan = scanDirectories(directories);
  const known = new Set(scan.directories.map(({ realPath }) => realPath));
  const skills: Skill[] = [];
  const diagnostics: Diagnostic[] = [...scan.diagnostics, ...scan.refused.map(({ diagnostic }) => diagnostic)];
  const invalid = refusedRefs(scan);
  for (const { directory, ref, finding } of assignRefs(scan.directories)) {
    // The files of one skill are read at one go; between two, others have their turn.
    await setImmediate();
    const own = finding === undefined ? [] : [toDiagnostic(directory.shownPath, finding)];
    const refusedByName = ref === undefined || finding?.level === "error";
    const read = refusedByName
      ? { diagnostics: [] }
      : readSkill(directory, {
          ref,
          profile: strict === true ? "strict" : "lenient",
          isKnownSkill: (path) => known.has(path),
        });
    own.push(...read.diagnostics);
    diagnostics.push(...own);
    if ("skill" in read && read.skill !== undefined) skills.push(read.skill);
    else if (ref !== undefined)
      setIfAbsent(
        invalid,
        ref,
        own.find(({ level }) => level === "error"),
      );
  }
  return freezeCatalog(skills, diagnostics.sort(compareDiagnostics), invalid);
}

function setIfAbsent(invalid: Map<string, Diagnostic>, ref: string, diagnostic: Diagnostic | undefined): void {
  if (diagnostic !== undefined && !invalid.has(ref)) invalid.set(ref, diagnostic);
}

/** What was refused before it could be looked into, by the name that a request would use. */
function refusedRefs(scan: Scan): Map<string, Diagnostic> {
  const invalid = new Map<string, Diagnostic>();
  for (const { name, diagnostic } of scan.refused) setIfAbsent(invalid, name, diagnostic);
  return invalid;
}

function freezeCatalog(
  skills: readonly Skill[],
  diagnostics: readonly Diagnostic[],
  invalid: ReadonlyMap<string, Diagnostic>,
): Catalog {
  const sorted = skills.toSorted((left, right) => (left.ref < right.ref ? -1 : 1));
  const byRef = new Map(sorted.map((skill) => [skill.ref, skill]));
  return Object.freeze({
    digest: catalogDigest(sorted.map(({ digest }) => digest)),
    skills: Object.freeze(sorted),
    diagnostics: Object.freeze(diagnostics),
    get: (ref: string) => byRef.get(ref),
    invalid: (ref: string) => (byRef.has(ref) ? undefined : invalid.get(ref)),
  });
}
