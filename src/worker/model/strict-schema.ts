type Schema = Readonly<Record<string, unknown>>;

/** Keywords that providers accept where they enforce a schema strictly. */
const PLAIN: ReadonlySet<string> = new Set(
  (
    "type enum const title description $ref required additionalProperties pattern format " +
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems"
  ).split(" "),
);
const MAX_DEPTH = 10;

/**
 * The schema as a provider can enforce it: an object at the top, and every object closed with all its properties required.
 *
 * @returns Without `$schema`; undefined where it uses anything else, then the provider is not told.
 * @see OpenAI, structured outputs: supported schemas.
 */
export function strictSchema(schema: Schema): Schema | undefined {
  const { $schema: _, ...rest } = schema;
  return rest["type"] === "object" && isStrict(rest, 0) ? rest : undefined;
}

function isStrict(schema: unknown, depth: number): boolean {
  if (!isRecord(schema) || depth > MAX_DEPTH) return false;
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === "items") {
      if (!isStrict(value, depth + 1)) return false;
    } else if (keyword === "anyOf") {
      if (!Array.isArray(value) || depth === 0 || !value.every((branch) => isStrict(branch, depth + 1))) return false;
    } else if (keyword === "properties" || keyword === "$defs") {
      if (!isRecord(value) || !Object.values(value).every((inner) => isStrict(inner, depth + 1))) return false;
    } else if (!PLAIN.has(keyword)) return false;
  }
  return isClosed(schema);
}

function isClosed(schema: Schema): boolean {
  const isObject = schema["type"] === "object" || (Array.isArray(schema["type"]) && schema["type"].includes("object"));
  if (!isObject) return schema["properties"] === undefined;
  const names = Object.keys(isRecord(schema["properties"]) ? schema["properties"] : {});
  const required: readonly unknown[] = Array.isArray(schema["required"]) ? schema["required"] : [];
  return schema["additionalProperties"] === false && names.every((name) => required.includes(name));
}

function isRecord(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
