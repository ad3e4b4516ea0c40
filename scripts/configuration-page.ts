import { CONFIG_SCHEMA } from "../src/shared/config/config-schema.ts";
import { MODEL_ROUTE_SCHEMA } from "../src/shared/config/model-routes.ts";

/** What a table shows of a field, whatever else its schema says. */
interface Field {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly default?: unknown;
  readonly description?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, Field>>;
  readonly "x-env"?: string;
  readonly "x-unit"?: string;
}

const HEAD = `# Configuration

Flags come before environment variables, those before \`skilldock.yaml\` (\`--config <file>\`), that before the defaults. Unknown
fields and variables are refused; all problems are reported at once. Durations take \`30s\`, \`5m\` or milliseconds, sizes
\`10MB\` or bytes. Every secret (\`REDIS_URL\`, API keys) may also come from the file that \`<NAME>_FILE\` names. No \`.env\` is read.

This page is written from the schema by \`npm run docs\`.
`;

const TAIL = `
## Other variables

| variable | meaning |
|---|---|
| \`OPENAI_API_KEY\` | the key of \`chat\` routes that name no other variable and no other server |
| \`OPENAI_BASE_URL\` | server of \`chat\` routes without \`baseUrl\` |
| \`SKILLDOCK_CONFIG\` | the configuration file, where \`--config\` names none |
| \`SKILLDOCK_TENANT\` | the tenant of a command, where \`--tenant\` names none. Default \`default\` |
| \`NO_COLOR\` | no colour, also on a terminal |
`;

/** The text of `docs/configuration.md`. */
export function configurationPage(): string {
  const sections = Object.entries<Field>(CONFIG_SCHEMA.properties).map(([name, section]) => sectionOf(name, section));
  return `${HEAD}\n${sections.join("\n")}${TAIL}`;
}

function sectionOf(name: string, section: Field): string {
  const intro = section.description === undefined ? "" : `${section.description}\n\n`;
  if (name === "models") {
    const route = table(MODEL_ROUTE_SCHEMA.properties, "route.");
    return `## \`models\`\n\n${intro}\`default\` names the default route; every other member is a route:\n\n${route}`;
  }
  if (name === "tenants") {
    return `## \`tenants\`\n\n${intro}A record has no fields yet: \`{}\`. Fields that are planned are refused as \`not_supported\`.\n`;
  }
  return `## \`${name}\`\n\n${intro}${table(section.properties ?? {}, `${name}.`)}`;
}

function table(fields: Readonly<Record<string, Field>>, prefix: string): string {
  const rows = Object.entries(fields).map(([name, field]) => {
    const variable = field["x-env"] === undefined ? "" : `\`${field["x-env"]}\``;
    return `| \`${prefix}${name}\` | ${variable} | ${kindOf(field)} | ${defaultOf(field)} | ${field.description ?? ""} |`;
  });
  return `| field | variable | value | default | meaning |\n|---|---|---|---|---|\n${rows.join("\n")}\n`;
}

function kindOf(field: Field): string {
  if (field.enum !== undefined) return field.enum.map((value) => `\`${String(value)}\``).join(", ");
  const unit = field["x-unit"] ?? field.type ?? "";
  const { minimum, maximum } = field;
  return minimum === undefined || maximum === undefined ? unit : `${unit}, ${grouped(minimum)}–${grouped(maximum)}`;
}

function defaultOf(field: Field): string {
  if (field.default === undefined) return "";
  return `\`${JSON.stringify(field.default)}\``;
}

function grouped(value: number): string {
  return value.toLocaleString("en-US");
}
