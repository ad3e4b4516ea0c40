import { RunError } from "../../shared/errors.ts";
import type { Diagnostic, Skill } from "./catalog.ts";
import { skillDigest } from "./digest.ts";
import { joinShown, printable } from "./file-names.ts";
import { toDiagnostic, warning, type Finding } from "./finding.ts";
import { parseFrontmatter } from "./frontmatter.ts";
import { readManifest, type Manifest } from "./manifest.ts";
import { readRegularFile } from "./read-file.ts";
import { SKILL_FILE, type SkillDirectory } from "./scan-directories.ts";
import { readSkillFields, type SkillFields } from "./skill-fields.ts";
import { splitSkillFile } from "./skill-file.ts";

const MAX_SKILL_FILE_BYTES = 1_000_000;

export interface ReadSkillOptions {
  readonly ref: string;
  readonly profile: "lenient" | "strict";
  readonly isKnownSkill: (realPath: string) => boolean;
}

export interface SkillRead {
  /** Absent: at least one diagnostic is an error. */
  readonly skill?: Skill;
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads one skill whole, into memory. What is wrong with it is told, not thrown. */
export function readSkill(directory: SkillDirectory, options: ReadSkillOptions): SkillRead {
  const text = readSkillText(directory, options);
  const manifest = readManifest(directory, options.isKnownSkill);
  const path = joinShown(directory.shownPath, SKILL_FILE);
  const diagnostics = [...text.findings.map((finding) => toDiagnostic(path, finding)), ...manifest.diagnostics];
  const whole = text.whole;
  if (whole === undefined || diagnostics.some(({ level }) => level === "error")) return { diagnostics };
  return { skill: freezeSkill(options.ref, whole, manifest), diagnostics };
}

interface SkillText {
  readonly bytes: Uint8Array;
  readonly body: string;
  readonly fields: SkillFields;
  readonly frontmatter: Readonly<Record<string, unknown>>;
}

function readSkillText(
  directory: SkillDirectory,
  options: ReadSkillOptions,
): { readonly whole?: SkillText; readonly findings: readonly Finding[] } {
  const file = readRegularFile(`${directory.realPath}/${SKILL_FILE}`, MAX_SKILL_FILE_BYTES);
  if (!file.ok) return { findings: [file.finding] };
  const split = splitSkillFile(file.bytes);
  if (!split.ok) return { findings: [split.finding] };
  const { body, frontmatter: block, frontmatterLine } = split.parts;
  const parsed = parseFrontmatter(block, frontmatterLine);
  if (!parsed.ok) return { findings: parsed.findings };
  const read = readSkillFields(parsed.frontmatter, options);
  const findings = [...parsed.findings, ...read.findings];
  if (body.trim() === "") {
    findings.push(warning("body-empty", "There are no instructions behind the frontmatter. Write what is to be done."));
  }
  return { whole: { bytes: file.bytes, body, fields: read.fields, frontmatter: parsed.frontmatter.fields }, findings };
}

function freezeSkill(ref: string, text: SkillText, manifest: Manifest): Skill {
  const { name, description, allowedTools } = text.fields;
  const { entries, contents } = manifest;
  return Object.freeze({
    ref,
    digest: skillDigest(text.bytes, entries),
    name,
    description,
    body: text.body,
    manifest: Object.freeze([...entries]),
    ...(allowedTools === undefined
      ? {}
      : { allowedTools: Object.freeze(allowedTools.map((tool) => Object.freeze({ ...tool }))) }),
    frontmatter: text.frontmatter,
    bytes: text.bytes.length + manifest.totalBytes,
    read(path: string): Uint8Array {
      const content = contents.get(path);
      if (content === undefined)
        throw new RunError("file_not_found", { message: `The skill ${ref} has no file ${printable(path)}.` });
      // A copy: nobody can change what others read.
      return new Uint8Array(content);
    },
  });
}
