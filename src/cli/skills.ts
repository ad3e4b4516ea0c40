import type { Catalog, Diagnostic, Skill } from "../worker/catalog/catalog.ts";
import { loadCatalog } from "../worker/catalog/load-catalog.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { formatCount } from "./figures.ts";
import { printableLine } from "./printable.ts";
import type { CommonOptions } from "./common-options.ts";
import type { Terminal } from "./terminal.ts";

export interface SkillsOptions extends CommonOptions {
  /** `check` only: the open format's own rules. */
  readonly strict?: boolean;
}

/** One skill as `skills list --json` shows it. */
interface SkillAnswer {
  readonly ref: string;
  readonly digest: string;
  readonly name: string;
  readonly description: string;
  readonly argumentHint?: string;
  readonly paths?: unknown;
  readonly version?: string;
  /** SKILL.md and the manifest's files: how many, and their bytes. */
  readonly files: number;
  readonly bytes: number;
}

/** `skilldock skills list`: what a worker would hold. Skills that cannot be loaded are diagnostics, not a failure. */
export async function listSkillsCommand(
  terminal: Terminal,
  directories: readonly string[],
  options: SkillsOptions,
): Promise<ExitCode> {
  const catalog = await loadCatalog({ directories });
  printCatalog(terminal, catalog, options);
  return EXIT.ok;
}

/** `skilldock skills check`: as `list`, and fails where a skill cannot be loaded. */
export async function checkSkillsCommand(
  terminal: Terminal,
  directories: readonly string[],
  options: SkillsOptions,
): Promise<ExitCode> {
  const catalog = await loadCatalog({ directories, strict: options.strict === true });
  printCatalog(terminal, catalog, options);
  return catalog.diagnostics.some(({ level }) => level === "error") ? EXIT.notSucceeded : EXIT.ok;
}

function printCatalog(terminal: Terminal, catalog: Catalog, options: SkillsOptions): void {
  if (options.json === true || options.jsonl === true) {
    const answer = {
      catalogDigest: catalog.digest,
      skills: catalog.skills.map(toAnswer),
      diagnostics: catalog.diagnostics,
    };
    terminal.stdout.line(JSON.stringify(answer));
    return;
  }
  const width = Math.max(0, ...catalog.skills.map(({ ref }) => ref.length));
  for (const skill of catalog.skills) terminal.stdout.line(toLine(terminal, skill, width));
  printDiagnostics(terminal, catalog.diagnostics);
  const errors = catalog.diagnostics.filter(({ level }) => level === "error").length;
  terminal.stderr.line(
    `skilldock: ${catalog.skills.length} skills, ${errors} errors, catalog ${catalog.digest.slice(0, 19)}`,
  );
}

/** Prints diagnostics on stderr, one a line, in the form that editors can follow. */
export function printDiagnostics(terminal: Terminal, diagnostics: readonly Diagnostic[]): void {
  const { stderr } = terminal;
  for (const { path, line, column, level, code, message } of diagnostics) {
    const label = stderr.style(level === "error" ? "red" : "yellow", level);
    stderr.line(`${printableLine(path, 500)}:${line}:${column}: ${label} ${code}: ${printableLine(message, 500)}`);
  }
}

function toLine(terminal: Terminal, skill: Skill, width: number): string {
  const { stdout } = terminal;
  const digest = stdout.style("dim", skill.digest.slice("sha256:".length, "sha256:".length + 12));
  const size = `${formatCount(skill.bytes)} B`.padStart(11);
  const room = stdout.isTerminal ? Math.max(20, stdout.columns - width - 30) : 200;
  return `${stdout.style("bold", skill.ref.padEnd(width))}  ${digest}  ${size}  ${printableLine(skill.description, room)}`;
}

function toAnswer(skill: Skill): SkillAnswer {
  const { frontmatter } = skill;
  const hint = frontmatter["argument-hint"];
  const { paths, version } = frontmatter;
  return {
    ref: skill.ref,
    digest: skill.digest,
    name: skill.name,
    description: skill.description,
    ...(typeof hint === "string" ? { argumentHint: hint } : {}),
    ...(paths === undefined ? {} : { paths }),
    ...(typeof version === "string" || typeof version === "number" ? { version: String(version) } : {}),
    files: skill.manifest.length + 1,
    bytes: skill.bytes,
  };
}
