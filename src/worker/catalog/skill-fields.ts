import type { AllowedTool } from "./catalog.ts";
import { parseAllowedTools } from "./allowed-tools.ts";
import { declaredArguments } from "./declared-arguments.ts";
import { printable } from "./file-names.ts";
import { fault, warning, WHOLE_FILE, type Finding, type Position } from "./finding.ts";
import type { Frontmatter } from "./frontmatter.ts";
import { TOOL_ALIASES } from "./narrowing.ts";
import { strictFindings } from "./strict-rules.ts";

/** The fields of a skill that the worker acts on. */
export interface SkillFields {
  readonly name: string;
  readonly description: string;
  readonly allowedTools?: readonly AllowedTool[];
}

export interface FieldsRead {
  /** Usable only where no finding is an error. */
  readonly fields: SkillFields;
  readonly findings: readonly Finding[];
}

const MAX_NAME_CHARACTERS = 64;
const MAX_DESCRIPTION_CHARACTERS = 1_024;
const CAPABILITY_LIKE = /^(?:workspace|caller|skill)[._][a-z0-9_]+(?:@[1-9][0-9]*)?$/;
/** Characters that reorder text or carry hidden text. */
const HIDDEN_TEXT = /[\u202a-\u202e\u2066-\u2069\u200b\u2060\u{e0000}-\u{e007f}]/u;

/**
 * Judges the fields. A missing description, an unreadable `allowed-tools`, or a field that was meant as one but is
 * spelled otherwise keeps the skill out: its restrictions are not known then.
 *
 * @param options.profile `strict` also holds the fields to the format's reference rules, as errors.
 */
export function readSkillFields(
  frontmatter: Frontmatter,
  options: { readonly ref: string; readonly profile: "lenient" | "strict" },
): FieldsRead {
  const findings: Finding[] = [];
  const { fields } = frontmatter;
  const at = (field: string): Position => frontmatter.positions.get(field) ?? WHOLE_FILE;
  const description = readDescription(fields["description"], at("description"), findings);
  const name = readName(fields["name"], options.ref, { at: at("name"), findings });
  const allowed = parseAllowedTools(fields["allowed-tools"]);
  if (allowed.problem !== undefined)
    findings.push(fault("allowed-tools-invalid", allowed.problem, at("allowed-tools")));
  for (const tool of allowed.tools ?? []) warnAboutTool(tool, at("allowed-tools"), findings);
  for (const field of Object.keys(fields)) warnAboutField(field, at(field), findings);
  for (const unusable of declaredArguments(fields).unusable) {
    findings.push(
      warning(
        "argument-name-unusable",
        `${printable(unusable)} cannot be inserted: argument names are letters, digits and underscores.`,
        at("arguments"),
      ),
    );
  }
  if (options.profile === "strict") findings.push(...strictFindings(frontmatter, options.ref));
  return {
    fields: { name, description, ...(allowed.tools === undefined ? {} : { allowedTools: allowed.tools }) },
    findings,
  };
}

function readDescription(value: unknown, at: Position, findings: Finding[]): string {
  if (value === undefined || value === null || (typeof value === "string" && value.trim() === "")) {
    findings.push(
      fault(
        "description-missing",
        "There is no description. Say in a sentence what the skill does and when to use it: description: ….",
        at,
      ),
    );
    return "";
  }
  if (typeof value !== "string") {
    findings.push(fault("description-not-text", "The description is not text. Put it in quotes.", at));
    return "";
  }
  const description = value.trim();
  if (description.length > MAX_DESCRIPTION_CHARACTERS) {
    findings.push(
      warning(
        "description-long",
        `The description has ${description.length} characters, more than ${MAX_DESCRIPTION_CHARACTERS}. Listings cut it: shorten it.`,
        at,
      ),
    );
  }
  if (HIDDEN_TEXT.test(description)) {
    findings.push(
      warning("hidden-characters", "The description holds characters that hide or reorder text. Remove them.", at),
    );
  }
  return description;
}

function readName(
  value: unknown,
  ref: string,
  { at, findings }: { readonly at: Position; readonly findings: Finding[] },
): string {
  if (value === undefined || value === null) return ref;
  if (typeof value !== "string" || value.trim() === "") {
    findings.push(warning("name-not-text", `The name is not text, so ${ref} is shown. Put it in quotes.`, at));
    return ref;
  }
  const name = value.trim();
  if (name.length > MAX_NAME_CHARACTERS) {
    findings.push(
      warning("name-long", `The name has ${name.length} characters, more than ${MAX_NAME_CHARACTERS}. Shorten it.`, at),
    );
  }
  if (HIDDEN_TEXT.test(name))
    findings.push(
      warning("hidden-characters", "The name holds characters that hide or reorder text. Remove them.", at),
    );
  if (name !== ref) {
    findings.push(
      warning(
        "name-differs",
        `The name ${printable(name)} is only shown; requests name this skill ${ref}, after its directory. Make them equal.`,
        at,
      ),
    );
  }
  return name;
}

function warnAboutTool(tool: AllowedTool, at: Position, findings: Finding[]): void {
  const name = printable(tool.name);
  if (tool.scope !== undefined) {
    findings.push(
      warning(
        "allowed-tools-scope",
        `${name}(${printable(tool.scope)}) has a scope, and scoped entries match nothing in this version. Write ${name} to allow the whole tool.`,
        at,
      ),
    );
  } else if (!TOOL_ALIASES.has(tool.name) && !CAPABILITY_LIKE.test(tool.name)) {
    findings.push(
      warning(
        "allowed-tools-unknown",
        `${name} names no tool here and matches nothing. Write ${[...TOOL_ALIASES.keys()].join(", ")}, or a capability such as caller.lookup_order.`,
        at,
      ),
    );
  }
}

function warnAboutField(field: string, at: Position, findings: Finding[]): void {
  const plain = field.toLowerCase().replaceAll(/[^a-z]/g, "");
  if (plain === "allowedtools" && field !== "allowed-tools") {
    findings.push(
      fault(
        "allowed-tools-misspelled",
        `${printable(field)} is not a field, and the restriction that it means would be lost. Write allowed-tools.`,
        at,
      ),
    );
  } else if (plain === "disallowedtools") {
    findings.push(
      warning("field-not-enforced", `${printable(field)} is not enforced. Name what is allowed in allowed-tools.`, at),
    );
  }
}
