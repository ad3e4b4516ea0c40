import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";
import { CONTRACTS, type ContractName, contractText } from "../../../scripts/contract-files.ts";
import { eventDataSchemas } from "../../../src/shared/contracts/event.ts";
import { toProblems } from "../../../src/shared/contracts/schema-problems.ts";
import {
  parseRunRequest,
  validateEvent,
  validateReceipt,
  validateResult,
} from "../../../src/shared/contracts/validate.ts";
import { REPOSITORY } from "../../support/imports.ts";

interface InvalidExample {
  readonly why: string;
  readonly pointer: string;
  readonly document: unknown;
}

const NAMES = Object.keys(CONTRACTS) as ContractName[];
const folder = join(REPOSITORY, "contracts");
const readText = (path: string): string => readFileSync(join(folder, path), "utf8");
const readJson = (path: string): unknown => JSON.parse(readText(path));

const compiled = new Map<ContractName, ValidateFunction>();

/** Reads the published file as any other language would: the schema alone, nothing of our code. */
function check(name: ContractName, document: unknown): readonly string[] {
  const ajv = new Ajv2020({ strict: false, allErrors: true, verbose: true });
  const validate = compiled.get(name) ?? ajv.compile(readJson(`${name}.schema.json`) as object);
  compiled.set(name, validate);
  return validate(document) ? [] : toProblems(validate.errors).map(({ pointer }) => pointer);
}

const valid = NAMES.flatMap((name) =>
  globSync(`examples/${name}/*.json`, { cwd: folder })
    .filter((path) => basename(path) !== "invalid.json")
    .map((path) => ({ name, path })),
);
const invalid = NAMES.flatMap((name) =>
  (readJson(`examples/${name}/invalid.json`) as InvalidExample[]).map((example) => ({ name, ...example })),
);

describe("the published contract", () => {
  test.each(NAMES)("contracts/%s.schema.json says what the code says (npm run contracts)", (name) => {
    expect(readText(`${name}.schema.json`)).toBe(contractText(name));
  });

  test("no other file claims to be a schema", () => {
    const published = globSync("*.json", { cwd: folder }).map((path) => path.replace(".schema.json", ""));
    expect(published.toSorted()).toEqual(NAMES.toSorted());
  });

  test.each(valid)("$path is valid", ({ name, path }) => {
    expect(check(name, readJson(path))).toEqual([]);
  });

  test.each(invalid)("$name: $why", ({ name, pointer, document }) => {
    expect(check(name, document)).toEqual([pointer]);
  });

  test("every event type has an example", () => {
    const shown = valid.filter(({ name }) => name === "run-event").map(({ path }) => basename(path, ".json"));
    expect(Object.keys(eventDataSchemas).filter((type) => !shown.includes(type))).toEqual([]);
  });

  test("the examples of requests show every field that is served", () => {
    const shown = valid.filter(({ name }) => name === "run-request").map(({ path }) => readJson(path) as object);
    const seen = new Set(shown.flatMap((document) => Object.keys(document)));
    const unseen = Object.keys(CONTRACTS["run-request"].properties).filter((field) => !seen.has(field));
    expect(unseen.toSorted()).toEqual(["discover", "priority", "startAfter", "threadId"]);
  });
});

describe("the validators of the code", () => {
  const checks = { "run-event": validateEvent, "run-result": validateResult, receipt: validateReceipt } as const;
  type Checked = keyof typeof checks;
  const isChecked = <E extends { readonly name: ContractName }>(e: E): e is E & { readonly name: Checked } =>
    e.name in checks;

  test.each(valid.filter(isChecked))("accept $path", ({ name, path }) => {
    expect(checks[name](readJson(path))).toEqual([]);
  });

  test.each(invalid.filter(isChecked))("refuse, $name: $why", ({ name, pointer, document }) => {
    expect(checks[name](document).map((problem) => problem.pointer)).toEqual([pointer]);
  });

  test.each(valid.filter(({ name }) => name === "run-request"))("parse $path", ({ path }) => {
    const request = parseRunRequest(readJson(path), { runId: "run-00000001" });
    expect(request.limits.maxAttempts).toBe(3);
  });
});
