/**
 * JSON Schemas written by strangers: a request's `responseSchema`, the schemas of caller tools.
 *
 * Compiling and checking are bounded in size, depth, steps and matched text, and patterns run in linear
 * time, so that neither a schema nor a value can hold a process for more than about a second.
 */
import { Ajv2020, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { RunError } from "../errors.ts";
import { canonicalJson } from "./digest.ts";
import { inspectSchema, STEP_KEYWORD } from "./foreign-schema-shape.ts";
import { compileLinearPattern, type LinearPattern } from "./linear-pattern.ts";
import { mustBe, type Problem } from "./problem.ts";
import { toProblems } from "./schema-problems.ts";
import { screenDocument, type ScreenedDocument } from "./screen.ts";

/** What one check may cost: places visited × values, and characters tried against patterns. */
const MAX_STEPS = 500_000;
const MAX_MATCHED_CHARACTERS = 500_000;
/** Values up to this many characters of JSON have all their problems listed, larger ones the first. */
const MAX_LISTED_JSON_CHARACTERS = 20_000;
const MAX_PROBLEMS = 20;

/** Says what is wrong with a value. Empty: nothing. Never throws. */
export type ForeignCheck = (value: unknown) => readonly Problem[];

class BudgetSpent extends Error {
  override readonly name = "BudgetSpent";
}

/** What the check that runs now has used. Checks are synchronous, so that one counter serves all of one schema. */
interface Budget {
  steps: number;
  matchedCharacters: number;
}

const compiledByFrozenSchema = new WeakMap<object, ForeignCheck>();
let metaSchemas: Ajv2020 | undefined;

/**
 * Compiles a stranger's schema. A frozen schema is compiled once in a process.
 *
 * Draft 2020-12; unknown keywords and `format` are annotations. Values are never changed: no coercion, no
 * defaults.
 *
 * @param options.what The name of the schema in messages: "responseSchema".
 * @throws {RunError} `invalid_request` with `details.problems`, pointers from the schema's root: larger than
 *   32 KiB, deeper than 16 levels, more than 200 properties in an object, references out of the document,
 *   patterns with look-around or back-references, or no valid JSON Schema.
 */
export function compileForeignSchema(schema: unknown, options: { readonly what: string }): ForeignCheck {
  const key = typeof schema === "object" && schema !== null && Object.isFrozen(schema) ? schema : undefined;
  const known = key === undefined ? undefined : compiledByFrozenSchema.get(key);
  if (known !== undefined) return known;
  const check = compile(schema, options.what);
  if (key !== undefined) compiledByFrozenSchema.set(key, check);
  return check;
}

function compile(input: unknown, what: string): ForeignCheck {
  const screened = screen(input, what);
  const { value } = screened;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw refusal(what, [mustBe("", "an object")]);
  const document: Readonly<Record<string, unknown>> = { ...value };
  const { schema, problems } = inspectSchema(document);
  const found = [...screened.problems, ...problems];
  if (found.length > 0) throw refusal(what, found);
  try {
    metaSchemas ??= new Ajv2020({ ...BASE_OPTIONS, allErrors: true, verbose: true });
    if (metaSchemas.validateSchema(schema) !== true) throw refusal(what, toProblems(metaSchemas.errors));
    const budget: Budget = { steps: 0, matchedCharacters: 0 };
    const first = createAjv(budget, { allErrors: false }).compile(schema);
    let all: ValidateFunction | undefined;
    const compileAll = (): ValidateFunction => (all ??= createAjv(budget, { allErrors: true }).compile(schema));
    return (candidate) => runCheck(candidate, { budget, first, compileAll });
  } catch (error) {
    if (error instanceof RunError) throw error;
    throw refusal(what, [mustBe("", "a JSON Schema that compiles")], error);
  }
}

function screen(input: unknown, what: string): ScreenedDocument {
  try {
    return screenDocument(input);
  } catch (error) {
    throw refusal(what, problemsOf(error), error);
  }
}

/** The problems that `screenDocument` threw. */
function problemsOf(error: unknown): readonly Problem[] {
  const problems = error instanceof RunError ? error.details?.["problems"] : undefined;
  return Array.isArray(problems) ? problems : [mustBe("", "readable")];
}

const BASE_OPTIONS = {
  strict: false,
  validateFormats: false,
  logger: false,
  inlineRefs: false,
  ownProperties: true,
} as const satisfies Options;

function createAjv(budget: Budget, options: { readonly allErrors: boolean }): Ajv2020 {
  const ajv = new Ajv2020({
    ...BASE_OPTIONS,
    ...options,
    verbose: true,
    meta: false,
    validateSchema: false,
    code: { regExp: Object.assign((pattern: string) => budgetedPattern(pattern, budget), { code: "linearPattern" }) },
  });
  ajv.addKeyword({ keyword: STEP_KEYWORD, schema: false, errors: false, validate: () => takeSteps(budget, 1) });
  ajv.removeKeyword("uniqueItems");
  ajv.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    validate: (unique: boolean, items: readonly unknown[]) => !unique || areUnique(items, budget),
  });
  return ajv;
}

/** ajv keeps patterns by their `toString`: it must tell them apart. */
function budgetedPattern(pattern: string, budget: Budget): LinearPattern & { readonly toString: () => string } {
  const compiled = compileLinearPattern(pattern);
  return {
    test(text) {
      budget.matchedCharacters += text.length;
      if (budget.matchedCharacters > MAX_MATCHED_CHARACTERS) throw new BudgetSpent();
      return compiled.test(text);
    },
    toString: () => `linear:${pattern}`,
  };
}

function takeSteps(budget: Budget, steps: number): boolean {
  budget.steps += steps;
  if (budget.steps > MAX_STEPS) throw new BudgetSpent();
  return true;
}

/** Linear where ajv's own compares every pair. */
function areUnique(items: readonly unknown[], budget: Budget): boolean {
  const seen = new Set<string>();
  for (const item of items) {
    const text = canonicalJson(item);
    takeSteps(budget, 1 + Math.ceil(text.length / 64));
    seen.add(text);
  }
  return seen.size === items.length;
}

interface CompiledCheck {
  readonly budget: Budget;
  readonly first: ValidateFunction;
  readonly compileAll: () => ValidateFunction;
}

function runCheck(candidate: unknown, compiled: CompiledCheck): readonly Problem[] {
  const { budget, first } = compiled;
  try {
    const { value, problems } = screenDocument(candidate);
    if (problems.length > 0) return problems.slice(0, MAX_PROBLEMS);
    Object.assign(budget, { steps: 0, matchedCharacters: 0 });
    if (first(value)) return [];
    const isSmall = JSON.stringify(value).length <= MAX_LISTED_JSON_CHARACTERS;
    const { errors } = isSmall ? runAll(value, compiled) : first;
    return toProblems(errors).slice(0, MAX_PROBLEMS);
  } catch (error) {
    if (error instanceof RunError) return problemsOf(error);
    if (error instanceof BudgetSpent || error instanceof RangeError) return [mustBe("", "small enough to be checked")];
    return [mustBe("", "a value that its schema can check")];
  }
}

function runAll(value: unknown, compiled: CompiledCheck): ValidateFunction {
  const all = compiled.compileAll();
  Object.assign(compiled.budget, { steps: 0, matchedCharacters: 0 });
  all(value);
  return all;
}

function refusal(what: string, problems: readonly Problem[], cause?: unknown): RunError {
  const [first] = problems;
  const message = `${what}${first === undefined ? " is not a JSON Schema." : `: ${first.message}`}`;
  return new RunError("invalid_request", { message, details: { problems }, cause });
}
