import type { AllowedTool } from "./catalog.ts";

/** `allowed-tools`, read. `tools` absent: the field is, and nothing is narrowed. */
export interface AllowedTools {
  readonly tools?: readonly AllowedTool[];
  /** Why the value cannot be used; `tools` is empty then, so that nothing is allowed by a mistake. */
  readonly problem?: string;
}

const WRONG_TYPE = "allowed-tools must be text such as Read, Bash or a list of such texts. Write it so.";

/**
 * Reads the value of `allowed-tools`: text with blanks or commas, or a list; split outside parentheses and quotes.
 *
 * @param value As parsed; undefined where the field is absent. An empty text, an empty list and an empty value (null)
 *   are a list with nothing in it. Any other type is a problem, and allows nothing.
 */
export function parseAllowedTools(value: unknown): AllowedTools {
  if (value === undefined) return {};
  if (value === null) return { tools: [] };
  if (typeof value === "string") return { tools: splitEntries(value).map(toAllowedTool) };
  if (!Array.isArray(value)) return { tools: [], problem: WRONG_TYPE };
  const tools: AllowedTool[] = [];
  for (const item of value) {
    if (typeof item !== "string") return { tools: [], problem: WRONG_TYPE };
    tools.push(...splitEntries(item).map(toAllowedTool));
  }
  return { tools };
}

/** An unclosed parenthesis or quote takes the rest of the text with it: one entry, which names no tool. */
function splitEntries(text: string): readonly string[] {
  const entries: string[] = [];
  let current = "";
  let depth = 0;
  let quote = "";
  for (const character of text) {
    if (quote === "" && depth === 0 && /[\s,]/u.test(character)) {
      if (current !== "") entries.push(current);
      current = "";
      continue;
    }
    current += character;
    if (quote !== "") {
      if (character === quote) quote = "";
    } else if (character === '"' || character === "'") quote = character;
    else if (character === "(") depth += 1;
    else if (character === ")" && depth > 0) depth -= 1;
  }
  if (current !== "") entries.push(current);
  return entries;
}

function toAllowedTool(entry: string): AllowedTool {
  const quoted = /^(["'])(.*)\1$/su.exec(entry)?.[2] ?? entry;
  const scoped = /^([^()\s]+)\((.*)\)$/su.exec(quoted);
  const name = scoped?.[1];
  const scope = scoped?.[2];
  return name === undefined || scope === undefined ? { name: quoted } : { name, scope };
}
