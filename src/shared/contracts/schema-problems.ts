import type { ErrorObject } from "ajv/dist/2020.js";
import { childPointer, mustBe, place, type Problem } from "./problem.ts";

/** Keywords whose error only says that another error, listed beside it, exists. */
const ECHOES: ReadonlySet<string> = new Set(["if", "propertyNames"]);
const MAX_LISTED_VALUES = 12;

/** The parts of a schema that its own description in words needs. */
interface DescribedSchema {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly DescribedSchema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly maxProperties?: number;
}

/**
 * Turns ajv's errors (made with `verbose: true`) into problems that a person can act on: one a place,
 * the branches of a failed `anyOf` folded into one.
 */
export function toProblems(errors: readonly ErrorObject[] | null | undefined): readonly Problem[] {
  const all = errors ?? [];
  const choices = all.filter((error) => error.keyword === "anyOf" || error.keyword === "oneOf");
  const problems = new Map<string, Problem>();
  for (const error of all) {
    if (ECHOES.has(error.keyword) || choices.some((choice) => isBranchOf(error, choice))) continue;
    const problem = toProblem(error);
    if (!problems.has(problem.pointer)) problems.set(problem.pointer, problem);
  }
  return [...problems.values()];
}

function isBranchOf(error: ErrorObject, choice: ErrorObject): boolean {
  return error !== choice && error.schemaPath.startsWith(`${choice.schemaPath}/`);
}

function toProblem(error: ErrorObject): Problem {
  const params: Readonly<Record<string, unknown>> = error.params;
  switch (error.keyword) {
    case "required":
    case "dependentRequired": {
      const pointer = childPointer(error.instancePath, String(params["missingProperty"]));
      return { pointer, expected: "present", message: `${pointer} is missing.` };
    }
    case "additionalProperties":
    case "unevaluatedProperties": {
      const name = params["additionalProperty"] ?? params["unevaluatedProperty"];
      const pointer = childPointer(error.instancePath, String(name));
      return { pointer, expected: "absent", message: `${pointer} is not a field that exists here.` };
    }
    default:
      return error.propertyName === undefined ? toValueProblem(error) : toNameProblem(error, error.propertyName);
  }
}

function toNameProblem(error: ErrorObject, propertyName: string): Problem {
  const expected = `a name that is ${describe(schemaOf(error))}`;
  const pointer = childPointer(error.instancePath, propertyName);
  return { pointer, expected, message: `${pointer} must have ${expected}.` };
}

function toValueProblem(error: ErrorObject): Problem {
  const expected = error.keyword === "uniqueItems" ? "a list of different items" : describe(schemaOf(error));
  if (expected !== "") return mustBe(error.instancePath, expected);
  const said = error.message ?? "must satisfy its schema";
  return {
    pointer: error.instancePath,
    expected: said.replace(/^must (be )?/, ""),
    message: `${place(error.instancePath)} ${said}.`,
  };
}

function schemaOf(error: ErrorObject): DescribedSchema | undefined {
  // The keywords of a schema that ajv has compiled have the types that its meta-schema demands.
  return typeof error.parentSchema === "object" ? (error.parentSchema as DescribedSchema) : undefined;
}

/** A schema in words: "an integer from 1 to 1000". Empty where it says nothing that words can carry. */
function describe(schema: DescribedSchema | undefined): string {
  if (schema === undefined) return "";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return describeValues(schema.enum);
  if (schema.anyOf !== undefined) return schema.anyOf.map(describe).filter(Boolean).join(", or ");
  const types = schema.type === undefined ? [] : [schema.type].flat();
  const words = types.map((type) => describeType(type, schema)).join(" or ");
  return words === "" && schema.pattern !== undefined ? `text that matches ${schema.pattern}` : words;
}

function describeValues(values: readonly unknown[]): string {
  const listed = values.slice(0, MAX_LISTED_VALUES).map((value) => JSON.stringify(value));
  return `one of ${listed.join(", ")}${values.length > listed.length ? ", …" : ""}`;
}

function describeType(type: string, schema: DescribedSchema): string {
  switch (type) {
    case "integer":
    case "number":
      return `${type === "integer" ? "an integer" : "a number"}${describeRange(schema)}`;
    case "string": {
      const length = describeSpan(schema.minLength, schema.maxLength, "characters");
      return `text${length}${schema.pattern === undefined ? "" : ` that matches ${schema.pattern}`}`;
    }
    case "array":
      return `a list${describeSpan(schema.minItems, schema.maxItems, schema.uniqueItems === true ? "different items" : "items")}`;
    case "object":
      return `an object${describeSpan(undefined, schema.maxProperties, "members")}`;
    case "boolean":
      return "true or false";
    default:
      return type;
  }
}

function describeRange(schema: DescribedSchema): string {
  if (schema.exclusiveMinimum !== undefined) return ` greater than ${schema.exclusiveMinimum}`;
  if (schema.minimum !== undefined && schema.maximum !== undefined)
    return ` from ${schema.minimum} to ${schema.maximum}`;
  if (schema.minimum !== undefined) return `, at least ${schema.minimum}`;
  return schema.maximum === undefined ? "" : `, at most ${schema.maximum}`;
}

function describeSpan(least: number | undefined, most: number | undefined, unit: string): string {
  if (least !== undefined && most !== undefined) return ` of ${least} to ${most} ${unit}`;
  if (most !== undefined) return ` of at most ${most} ${unit}`;
  return least === undefined || least === 0 ? "" : ` of at least ${least} ${unit}`;
}
