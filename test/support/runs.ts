import { createHash } from "node:crypto";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect } from "vitest";
import type { Producer } from "../../src/producer/index.ts";
import type { RunRef } from "../../src/shared/run-log/run-log.ts";
import { runEventSchema, type RunEvent, type EventType } from "../../src/shared/contracts/event.ts";
import { runResultSchema, type RunResult } from "../../src/shared/contracts/result.ts";
import type { Catalog, Skill } from "../../src/worker/catalog/catalog.ts";
import type { Model, ModelPrice, ModelRouter } from "../../src/worker/model/model.ts";
import { RunError } from "../../src/shared/errors.ts";

const ajv = new Ajv2020({ strict: false, allErrors: true });
const validEvent = ajv.compile(runEventSchema);
const validResult = ajv.compile(runResultSchema);

/** A run, read to its end and held against the contract. */
export interface CollectedRun {
  readonly events: readonly RunEvent[];
  readonly types: readonly EventType[];
  readonly result: RunResult;
  of<T extends EventType>(type: T): readonly Extract<RunEvent, { type: T }>[];
}

/** Reads a run's items to the end; every event and the result are valid, gapless, with one terminal event. */
export async function collect(items: AsyncIterable<RunEvent | RunResult>): Promise<CollectedRun> {
  const events: RunEvent[] = [];
  let result: RunResult | undefined;
  for await (const item of items) {
    expect(result, "nothing comes after the result").toBeUndefined();
    if (item.type === "result") result = item;
    else events.push(item);
  }
  if (result === undefined) throw new Error("the run had no result");
  checkRun(events, result);
  return {
    events,
    types: events.map((event) => event.type),
    result,
    of: (type) => events.filter((event) => event.type === type) as never,
  };
}

/** Follows a run through a producer to its result, calls `on` at each event, and checks the whole. */
export async function followRun(
  producer: Producer,
  run: RunRef,
  on: (event: RunEvent) => void = () => undefined,
): Promise<{ readonly events: readonly RunEvent[]; readonly result: RunResult }> {
  const events: RunEvent[] = [];
  for await (const item of producer.follow(run)) {
    if (item.type === "result") {
      checkRun(events, item);
      return { events, result: item };
    }
    events.push(item);
    on(item);
  }
  throw new Error("the run had no result");
}

/** Holds a complete run against the contract. */
export function checkRun(events: readonly RunEvent[], result: RunResult): void {
  for (const [index, event] of events.entries()) {
    expect(validEvent(event), JSON.stringify(validEvent.errors)).toBe(true);
    expect(event.sequence).toBe(index + 1);
    expect(event.terminal).toBe(index === events.length - 1);
  }
  expect(validResult(result), JSON.stringify(validResult.errors)).toBe(true);
  expect(events.at(-1)?.data).toEqual(result);
  expect(result.lastSequence).toBe(events.length);
  expect(new Set(result.receipts.map((receipt) => receipt.callId)).size).toBe(result.receipts.length);
}

/** A route named `test` over one model. */
export function oneModel(
  model: Model,
  options: { readonly price?: ModelPrice; readonly maxOutputTokens?: number } = {},
): ModelRouter {
  const route = {
    id: "test",
    model: "test-1",
    adapter: model,
    ...(options.price === undefined ? {} : { pricePerMillion: options.price }),
    ...(options.maxOutputTokens === undefined ? {} : { maxOutputTokens: options.maxOutputTokens }),
  };
  return {
    routes: [route],
    resolve(name) {
      if (name !== undefined && name !== "test") throw new RunError("unknown_model");
      return { route, model: route.model };
    },
  };
}

/** A skill made in memory. */
export function makeSkill(options: {
  readonly ref?: string;
  readonly body?: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly allowedTools?: Skill["allowedTools"];
}): Skill {
  const files = new Map(Object.entries(options.files ?? {}).map(([path, text]) => [path, Buffer.from(text)]));
  const body = options.body ?? "Answer the question.";
  const manifest = [...files].map(([path, bytes]) => ({
    path,
    size: bytes.length,
    digest: sha256(bytes),
    executable: false,
  }));
  return {
    ref: options.ref ?? "sample",
    digest: sha256(Buffer.from(body + JSON.stringify(manifest))),
    name: "Sample",
    description: "A sample.",
    body,
    manifest,
    ...(options.allowedTools === undefined ? {} : { allowedTools: options.allowedTools }),
    frontmatter: {},
    bytes: 100,
    read(path) {
      const bytes = files.get(path);
      if (bytes === undefined) throw new RunError("file_not_found");
      return new Uint8Array(bytes);
    },
  };
}

/** A catalog of skills made in memory. */
export function makeCatalog(...skills: readonly Skill[]): Catalog {
  return {
    digest: sha256(Buffer.from(skills.map((skill) => skill.digest).join())),
    skills,
    diagnostics: [],
    get: (ref) => skills.find((skill) => skill.ref === ref),
    invalid: () => undefined,
  };
}

function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}
