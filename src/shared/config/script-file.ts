import { basename } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { isNode, LineCounter, parseDocument, type Document } from "yaml";
import { PatternRefusal } from "../contracts/linear-pattern.ts";
import type { Problem } from "../contracts/problem.ts";
import { toProblems } from "../contracts/schema-problems.ts";
import type { SchemaType } from "../contracts/schema-type.ts";
import { RunError } from "../errors.ts";
import { deepFreeze } from "../freeze.ts";
import { readSmallFile, whyUnreadable } from "./config-file.ts";
import { parseQueryCondition } from "./query-condition.ts";

const MAX_SCRIPT_BYTES = 4_000_000;
const MAX_REPORTED = 20;
const delay = { type: "integer", minimum: 0, maximum: 600_000 } as const;

const TOOL_CALL_SCHEMA = {
  type: "object",
  required: ["name", "arguments"],
  additionalProperties: false,
  properties: {
    name: { type: "string", minLength: 1, maxLength: 64, description: "The model-visible name of the tool." },
    arguments: {
      anyOf: [{ type: "object", additionalProperties: true }, { type: "string" }],
      description: "An object, or text that is passed on as it is.",
    },
  },
} as const;

const STEP_SCHEMA = {
  type: "object",
  additionalProperties: false,
  properties: {
    text: { type: "string", description: "What the model says, streamed word by word." },
    toolCalls: { type: "array", maxItems: 128, items: TOOL_CALL_SCHEMA },
    delayMs: { ...delay, description: "Silence before the first word. Default 0." },
    chunkDelayMs: { ...delay, description: "Silence between two words. Default 0." },
  },
} as const;

/** The script of a `scripted` model route: a list of entries, of which the first that matches a run answers it. */
export const SCRIPT_FILE_SCHEMA = {
  type: "array",
  minItems: 1,
  items: {
    type: "object",
    required: ["steps"],
    additionalProperties: false,
    properties: {
      when: {
        type: "object",
        additionalProperties: false,
        description: "Absent or empty: every run.",
        properties: {
          skill: { type: "string", minLength: 1, description: "The ref of the run's skill." },
          query: {
            type: "string",
            minLength: 1,
            description: "Text that the query contains in any case, or `/pattern/`, `/pattern/i`.",
          },
        },
      },
      steps: { type: "array", minItems: 1, items: STEP_SCHEMA, description: "One answer for each call of the run." },
    },
  },
} as const;

export type ScriptFileEntry = SchemaType<typeof SCRIPT_FILE_SCHEMA>[number];

/** One thing wrong in a script, where it stands: line and column from 1. */
export interface ScriptProblem {
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/**
 * Reads a script file.
 *
 * @returns The entries, frozen.
 * @throws {RunError} `invalid_configuration`; `details.problems` holds up to 20 problems with line and column.
 */
export function loadScript(path: string): readonly ScriptFileEntry[] {
  const name = basename(path);
  let text: string | undefined;
  try {
    text = readSmallFile(path);
    if (text === undefined) throw new RunError("invalid_configuration", { message: "it does not exist" });
  } catch (error) {
    throw new RunError("invalid_configuration", {
      message: `The script ${name} cannot be read: ${whyUnreadable(error)}.`,
      details: { file: name },
      cause: error,
    });
  }
  return parseScript(text, { name });
}

/**
 * Reads the text of a script, YAML 1.2 or JSON.
 *
 * @param options.name What the file is called in errors.
 * @throws {RunError} As {@link loadScript}.
 */
export function parseScript(text: string, options: { readonly name: string }): readonly ScriptFileEntry[] {
  if (Buffer.byteLength(text) > MAX_SCRIPT_BYTES) {
    const message = `The script ${options.name} is larger than ${MAX_SCRIPT_BYTES} bytes.`;
    throw new RunError("invalid_configuration", { message, details: { file: options.name } });
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, strict: true, uniqueKeys: true });
  const at = (offset: number, message: string): ScriptProblem => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col), message };
  };
  const broken = [...document.errors, ...document.warnings].map((error) => at(error.pos[0], error.message));
  if (broken.length > 0) throw refusal(options.name, broken);
  const value: unknown = toPlainValue(document, (message) => refusal(options.name, [at(0, message)]));
  const check = validator();
  if (!check(value)) {
    const problems = toProblems(check.errors).map((problem) =>
      at(offsetOf(document, problem.pointer), problem.message),
    );
    throw refusal(options.name, problems);
  }
  const badPatterns = patternProblems(value).map((problem) => at(offsetOf(document, problem.pointer), problem.message));
  if (badPatterns.length > 0) throw refusal(options.name, badPatterns);
  return deepFreeze(value);
}

function toPlainValue(document: Document, fail: (message: string) => RunError): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    throw fail("The script refers to its own parts too often.");
  }
}

function validator(): {
  (value: unknown): value is readonly ScriptFileEntry[];
  errors?: Parameters<typeof toProblems>[0];
} {
  return new Ajv2020({ allErrors: true, verbose: true, strict: true, strictTypes: false }).compile<
    readonly ScriptFileEntry[]
  >(SCRIPT_FILE_SCHEMA);
}

function patternProblems(entries: readonly ScriptFileEntry[]): readonly Problem[] {
  const problems: Problem[] = [];
  for (const [index, { when }] of entries.entries()) {
    if (when?.query === undefined) continue;
    try {
      parseQueryCondition(when.query);
    } catch (error) {
      if (!(error instanceof PatternRefusal)) throw error;
      const pointer = `/${index}/when/query`;
      problems.push({ pointer, expected: error.message, message: `${pointer} must be ${error.message}.` });
    }
  }
  return problems;
}

/** Where the value, or the nearest one around it, begins in the text. */
function offsetOf(document: Document, pointer: string): number {
  const keys = pointer
    .split("/")
    .slice(1)
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  for (let length = keys.length; length > 0; length--) {
    const path = keys.slice(0, length).map((key) => (/^\d+$/u.test(key) ? Number(key) : key));
    const node = document.getIn(path, true);
    if (isNode(node) && node.range) return node.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function refusal(name: string, problems: readonly ScriptProblem[]): RunError {
  const [first] = problems;
  const where = first === undefined ? "" : ` Line ${first.line}, column ${first.column}: ${first.message}`;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new RunError("invalid_configuration", {
    message: `The script ${name} is not valid.${where}${more}`,
    details: { file: name, problems: problems.slice(0, MAX_REPORTED) },
  });
}
