/**
 * A catalog: skills read once, hashed, and frozen. What runs later is what was read; the disk is
 * never asked again.
 */

/** One regular file of a skill, other than its SKILL.md. */
export interface ManifestEntry {
  /** Virtual POSIX path inside the skill directory. */
  readonly path: string;
  readonly size: number;
  /** `sha256:<hex>` of the content. */
  readonly digest: string;
  readonly executable: boolean;
}

/** An `allowed-tools` entry: a tool's name as written and its scope, where it has one. */
export interface AllowedTool {
  readonly name: string;
  /** The text in parentheses, as in `Bash(git:*)`. Absent: unscoped. */
  readonly scope?: string;
}

export interface Skill {
  /** The directory's name. */
  readonly ref: string;
  /** `sha256:<hex>` over SKILL.md and the manifest. */
  readonly digest: string;
  /** Display name: frontmatter `name`, else the ref. */
  readonly name: string;
  readonly description: string;
  /** The text after the frontmatter, LF line ends. */
  readonly body: string;
  /** Sorted by path. */
  readonly manifest: readonly ManifestEntry[];
  /** Absent: the skill narrows nothing. Empty: nothing is allowed but control tools. */
  readonly allowedTools?: readonly AllowedTool[];
  /** Every frontmatter field as parsed, null prototype, frozen. */
  readonly frontmatter: Readonly<Record<string, unknown>>;
  /** Bytes of SKILL.md and the manifest's files together. */
  readonly bytes: number;
  /** The content of a manifest entry, from memory. @throws {RunError} `file_not_found`. */
  read(path: string): Uint8Array;
}

export interface Diagnostic {
  /** Path as the operator wrote it, joined with the path inside. */
  readonly path: string;
  /** 1-based; 1:1 where the whole file is meant. */
  readonly line: number;
  readonly column: number;
  readonly level: "error" | "warning";
  /** Stable, kebab-case. */
  readonly code: string;
  /** What was wrong and what to write. */
  readonly message: string;
}

export interface Catalog {
  /** `sha256:<hex>` over the sorted skill digests. */
  readonly digest: string;
  /** Sorted by ref. */
  readonly skills: readonly Skill[];
  readonly diagnostics: readonly Diagnostic[];
  get(ref: string): Skill | undefined;
  /** Why a ref that exists on disk is not in the catalog; undefined where nothing is known. */
  invalid(ref: string): Diagnostic | undefined;
}
