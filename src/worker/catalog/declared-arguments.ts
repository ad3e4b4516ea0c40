const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

export interface DeclaredArguments {
  /** In order: the name at index n stands for argument n. */
  readonly names: readonly string[];
  /** Whether `$0`, `$1` … are placeholders in the body: the skill declares `arguments` or `argument-hint`. */
  readonly positional: boolean;
  /** What is not an identifier and so can never be inserted. */
  readonly unusable: readonly string[];
}

/** Reads `arguments` (text with blanks, or a list of texts) and `argument-hint` from a skill's frontmatter. */
export function declaredArguments(frontmatter: Readonly<Record<string, unknown>>): DeclaredArguments {
  const value = frontmatter["arguments"];
  const listed: readonly unknown[] =
    typeof value === "string" ? value.split(/\s+/).filter((name) => name !== "") : Array.isArray(value) ? value : [];
  const isUsable = (name: unknown): name is string =>
    typeof name === "string" && IDENTIFIER.test(name) && name !== "ARGUMENTS";
  return {
    // An unusable name keeps its place, so that the names behind it keep their index.
    names: listed.map((name) => (isUsable(name) ? name : "")),
    positional: listed.length > 0 || isPresent(frontmatter["argument-hint"]),
    unusable: listed.filter((name) => !isUsable(name)).map(String),
  };
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "";
}
