import { printable } from "./file-names.ts";
import { fault, WHOLE_FILE, type Finding } from "./finding.ts";
import type { Frontmatter } from "./frontmatter.ts";

/**
 * The six fields of the open Agent Skills format.
 *
 * @see https://agentskills.io/specification
 */
const FORMAT_FIELDS: ReadonlySet<string> = new Set([
  "name",
  "description",
  "license",
  "compatibility",
  "metadata",
  "allowed-tools",
]);
const NAME = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;

/** What the format's own rules forbid and this loader tolerates otherwise. */
export function strictFindings(frontmatter: Frontmatter, ref: string): readonly Finding[] {
  const { fields, positions } = frontmatter;
  const findings: Finding[] = [];
  const complain = (field: string, message: string): void => {
    findings.push(fault(`strict-${field}`, message, positions.get(field) ?? WHOLE_FILE));
  };
  for (const field of Object.keys(fields)) {
    if (!FORMAT_FIELDS.has(field)) {
      findings.push(
        fault(
          "strict-field",
          `${printable(field)} is not a field of the format. Move it into metadata.`,
          positions.get(field),
        ),
      );
    }
  }
  const { name, description, compatibility, license, metadata } = fields;
  if (typeof name !== "string" || name.length > 64 || !NAME.test(name) || name !== ref) {
    complain(
      "name",
      `The name must equal the directory's, in at most 64 of a–z, 0–9 and single hyphens: name: ${ref}.`,
    );
  }
  if (typeof description === "string" && description.length > 1_024)
    complain("description", "The description may have at most 1,024 characters. Shorten it.");
  if (
    compatibility !== undefined &&
    (typeof compatibility !== "string" || compatibility === "" || compatibility.length > 500)
  ) {
    complain("compatibility", "The value must be a text of 1 to 500 characters.");
  }
  if (license !== undefined && typeof license !== "string") complain("license", "The value must be text.");
  if (metadata !== undefined && !isTextMap(metadata))
    complain("metadata", "The value must be a map from text to text. Put its values in quotes.");
  return findings;
}

function isTextMap(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((inner) => typeof inner === "string")
  );
}
