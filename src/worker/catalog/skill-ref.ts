import { RunError } from "../../shared/errors.ts";
import { fault, warning, type Finding } from "./finding.ts";

const REF = /^[a-z0-9][a-z0-9-]{0,63}$/;
const MAX_REF_LENGTH = 64;

/** What a ref is chosen for: a directory's name, and its path for messages. */
export interface Named {
  readonly name: string;
  readonly shownPath: string;
}

/** A directory with its ref. `finding`: a warning, or the fault that keeps it out. */
export interface WithRef<T extends Named> {
  readonly directory: T;
  /** Absent: no ref can be made of the name. */
  readonly ref?: string;
  readonly finding?: Finding;
}

/**
 * Gives each skill directory its ref: its name where that is a ref, else a slug of it, if nothing else has that.
 *
 * @throws {RunError} `invalid_configuration` where two directories have the same name; the message has both paths.
 */
export function assignRefs<T extends Named>(directories: readonly T[]): readonly WithRef<T>[] {
  const exact = new Map<string, T>();
  for (const directory of directories) {
    const ref = directory.name.normalize("NFC");
    if (!REF.test(ref)) continue;
    const other = exact.get(ref);
    if (other !== undefined) throw sameRef(ref, other, directory);
    exact.set(ref, directory);
  }
  const slugs = Map.groupBy(
    directories.filter(({ name }) => !REF.test(name.normalize("NFC"))),
    ({ name }) => toSlug(name),
  );
  return directories.map((directory) => {
    const ref = directory.name.normalize("NFC");
    if (exact.get(ref) === directory) return { directory, ref };
    const slug = toSlug(directory.name);
    if (slug === undefined) {
      return {
        directory,
        finding: fault(
          "skill-name-unusable",
          "The directory's name gives no skill ref. Rename it to a–z, 0–9 and hyphens.",
        ),
      };
    }
    const rival = exact.get(slug) ?? slugs.get(slug)?.find((other) => other !== directory);
    if (rival !== undefined) {
      return {
        directory,
        ref: slug,
        finding: fault(
          "skill-name-ambiguous",
          `The directory's name gives the ref ${slug}, as ${rival.shownPath} does. Rename it to a–z, 0–9 and hyphens.`,
        ),
      };
    }
    return {
      directory,
      ref: slug,
      finding: warning(
        "skill-name-changed",
        `The directory's name is no skill ref, so this skill is ${slug}. Rename the directory to that.`,
      ),
    };
  });
}

function toSlug(name: string): string | undefined {
  const slug = name
    .normalize("NFC")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, MAX_REF_LENGTH)
    .replace(/-+$/, "");
  return REF.test(slug) ? slug : undefined;
}

function sameRef(ref: string, first: Named, second: Named): RunError {
  return new RunError("invalid_configuration", {
    message: `The skill ref ${ref} is there twice: ${first.shownPath} and ${second.shownPath}. Rename one of the directories.`,
    details: { ref, paths: [first.shownPath, second.shownPath] },
  });
}
