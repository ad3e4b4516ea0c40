/** The contract as code: what a stranger hands in is parsed here, once, and trusted inside. */
import { Ajv2020, type AnySchema, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { RunError } from "../errors.ts";
import { deepFreeze } from "../freeze.ts";
import { runEventSchema } from "./event.ts";
import { compileForeignSchema } from "./foreign-schema.ts";
import { childPointer, mustBe, type Problem } from "./problem.ts";
import { receiptSchema } from "./receipt.ts";
import { MAX_TEXT_BYTES, type RunRequest, runRequestSchema } from "./request.ts";
import { runResultSchema } from "./result.ts";
import { toProblems } from "./schema-problems.ts";
import { screenDocument } from "./screen.ts";

/** A refusal lists this many problems at most. */
const MAX_PROBLEMS = 100;

const OPTIONS = {
  strict: true,
  strictRequired: false,
  strictTypes: false,
  allErrors: true,
  verbose: true,
  useDefaults: true,
  coerceTypes: false,
  removeAdditional: false,
  ownProperties: true,
  validateSchema: false,
} as const satisfies Options;

/** Says what is wrong with a document. Empty: nothing. */
type DocumentCheck = (value: unknown) => readonly Problem[];

const checkRequest = lazyCheck(runRequestSchema);

/** What is wrong with one event of a run, envelope and data. Unknown types and fields are allowed. Empty: nothing. */
export const validateEvent: DocumentCheck = lazyCheck(runEventSchema);

/** What is wrong with the result of a run. Unknown fields are allowed. Empty: nothing. */
export const validateResult: DocumentCheck = lazyCheck(runResultSchema);

/** What is wrong with a receipt. Unknown fields are allowed. Empty: nothing. */
export const validateReceipt: DocumentCheck = lazyCheck(receiptSchema);

function lazyCheck(schema: AnySchema): DocumentCheck {
  let compiled: ValidateFunction | undefined;
  return (value) => {
    compiled ??= new Ajv2020(OPTIONS).compile(schema);
    return compiled(value) ? [] : toProblems(compiled.errors);
  };
}

export interface ParseRequestOptions {
  /** The run's id where the request brings none. */
  readonly runId: string;
}

/**
 * Parses a run request. The input is copied, never changed.
 *
 * @returns The request, deep frozen, every default filled in: `discover` is `"none"` with a `skill` and
 *   `"all"` without.
 * @throws {RunError} `invalid_request`: `details.problems` lists all problems (at most 100), the message is
 *   the first one's. `not_supported`: a valid field of the contract that this version does not serve;
 *   `details.pointer` names it.
 */
export function parseRunRequest(input: unknown, options: ParseRequestOptions): RunRequest {
  const screened = screenDocument(input);
  const document = screened.value;
  const problems: Problem[] = [...screened.problems];
  if (isRecord(document)) {
    if (document["runId"] === undefined) document["runId"] = options.runId;
    if (document["discover"] === undefined) document["discover"] = document["skill"] === undefined ? "all" : "none";
    // What this project says of a place is more exact than what the schema can say of it.
    problems.push(...findBeyondSchema(document), ...checkRequest(document));
  } else {
    problems.push(mustBe("", "an object"));
  }
  if (problems.length > 0) throw refuse("invalid_request", oneAPlace(problems));
  const request = document as RunRequest; // by checkRequest: what its schema says, defaults filled in
  const unsupported = findUnsupported(request);
  if (unsupported.length > 0) throw refuse("not_supported", unsupported);
  return deepFreeze(request);
}

function refuse(code: "invalid_request" | "not_supported", problems: readonly Problem[]): RunError {
  const listed = problems.slice(0, MAX_PROBLEMS);
  const [first] = listed;
  const more = problems.length - listed.length;
  return new RunError(code, {
    ...(first === undefined ? {} : { message: first.message }),
    details: { pointer: first?.pointer ?? "", problems: listed, ...(more === 0 ? {} : { more }) },
  });
}

/** The first problem of each place: later ones there mostly follow from it. */
function oneAPlace(problems: readonly Problem[]): readonly Problem[] {
  const places = new Map<string, Problem>();
  for (const problem of problems) if (!places.has(problem.pointer)) places.set(problem.pointer, problem);
  return [...places.values()];
}

/** The rules of a request that JSON Schema cannot say. */
function findBeyondSchema(document: Readonly<Record<string, unknown>>): readonly Problem[] {
  return [
    ...findNothingToRun(document),
    ...findLongTexts(document),
    ...findTwoVersions(document["allowedCapabilities"]),
    ...findBadSchema(document["responseSchema"]),
    ...findBadTimes(document),
  ];
}

/** `discover: "none"` leaves the skill as the only thing to run. */
function findNothingToRun({ discover, skill }: Readonly<Record<string, unknown>>): readonly Problem[] {
  return skill === undefined && discover === "none" ? [mustBe("/skill", 'present where /discover is "none"')] : [];
}

function findLongTexts(document: Readonly<Record<string, unknown>>): readonly Problem[] {
  return ["query", "arguments"].flatMap((field) => {
    const text = document[field];
    const isLong = typeof text === "string" && Buffer.byteLength(text) > MAX_TEXT_BYTES;
    return isLong ? [mustBe(`/${field}`, `text of at most ${MAX_TEXT_BYTES} bytes in UTF-8`)] : [];
  });
}

function findTwoVersions(capabilities: unknown): readonly Problem[] {
  if (!Array.isArray(capabilities)) return [];
  const names = new Set<string>();
  const problems: Problem[] = [];
  for (const [index, id] of capabilities.entries()) {
    const name = typeof id === "string" ? /^(caller\..+)@/.exec(id)?.[1] : undefined;
    if (name === undefined) continue;
    const pointer = childPointer("/allowedCapabilities", index);
    if (names.has(name)) problems.push(mustBe(pointer, `the only version of ${name} in the list`));
    names.add(name);
  }
  return problems;
}

function findBadSchema(schema: unknown): readonly Problem[] {
  if (!isRecord(schema)) return [];
  try {
    compileForeignSchema(schema, { what: "/responseSchema" });
    return [];
  } catch (error) {
    const inner = error instanceof RunError ? error.details?.["problems"] : undefined;
    if (!Array.isArray(inner)) throw error;
    return (inner as readonly Problem[]).map(({ pointer, expected }) => mustBe(`/responseSchema${pointer}`, expected)); // by compileForeignSchema
  }
}

function findBadTimes(document: Readonly<Record<string, unknown>>): readonly Problem[] {
  const startAfter = document["startAfter"];
  if (startAfter === undefined) return [];
  if (document["threadId"] !== undefined) return [mustBe("/startAfter", "absent where threadId is given")];
  const isTime = typeof startAfter !== "string" || !Number.isNaN(Date.parse(startAfter));
  return isTime ? [] : [mustBe("/startAfter", "a date and time that exist")];
}

/** Valid fields that are not served yet: refused, never ignored. */
function findUnsupported(request: RunRequest): readonly Problem[] {
  const problems: Problem[] = [];
  const say = (pointer: string, expected: string, message: string): unknown =>
    problems.push({ pointer, expected, message: `${message} This version does not support it.` });
  if (request.skill === undefined)
    say("/skill", "present", "/skill is missing: the model would choose among all skills.");
  else if (request.discover !== "none")
    say("/discover", '"none"', "/discover lets the model find and activate skills.");
  if (request.threadId !== undefined) say("/threadId", "absent", "/threadId continues a conversation.");
  if (request.startAfter !== undefined) say("/startAfter", "absent", "/startAfter delays a run.");
  if (request.priority !== 0) say("/priority", "0", "/priority orders the runs of a tenant.");
  return problems;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
