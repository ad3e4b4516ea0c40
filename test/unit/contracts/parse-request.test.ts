import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Problem } from "../../../src/shared/contracts/problem.ts";
import { MAX_TEXT_BYTES } from "../../../src/shared/contracts/request.ts";
import { parseRunRequest } from "../../../src/shared/contracts/validate.ts";
import { RunError } from "../../../src/shared/errors.ts";

const RUN_ID = "run-00000001";
const smallest = { tenantId: "acme", skill: "refund" } as const;

const parse = (input: unknown): ReturnType<typeof parseRunRequest> => parseRunRequest(input, { runId: RUN_ID });

function refusalOf(input: unknown): RunError {
  try {
    parse(input);
  } catch (error) {
    if (error instanceof RunError) return error;
    throw error;
  }
  throw new Error("the request was accepted");
}

const problemsOf = (input: unknown): readonly Problem[] => refusalOf(input).details?.["problems"] as readonly Problem[];
const pointersOf = (input: unknown): readonly string[] => problemsOf(input).map(({ pointer }) => pointer);

describe("a valid request", () => {
  test("comes back with every default, and frozen to its leaves", () => {
    const request = parse(smallest);
    expect(request).toEqual({
      ...smallest,
      runId: RUN_ID,
      discover: "none",
      query: "",
      allowedCapabilities: [],
      limits: {
        maxTurns: 16,
        maxToolCalls: 64,
        wallClockMs: 300_000,
        maxOutputBytes: 200_000,
        maxAttempts: 3,
        maxQueueWaitMs: 86_400_000,
      },
      onWorkerLoss: "fail",
      workspacePolicy: {
        maxFiles: 100,
        maxTotalBytes: 10_000_000,
        maxFileBytes: 1_000_000,
        commandTimeoutMs: 20_000,
        maxCommandOutputBytes: 100_000,
        environment: {},
        network: "disabled",
      },
      priority: 0,
    });
    expect(Object.isFrozen(request.limits)).toBe(true);
    expect(Object.isFrozen(request.workspacePolicy.environment)).toBe(true);
  });

  test("keeps the run id that it brings", () => {
    expect(parse({ ...smallest, runId: "mine-0001" }).runId).toBe("mine-0001");
  });

  test("is copied: neither the input nor a later request sees a change", () => {
    const limits = { maxTurns: 4 };
    const request = parse({ ...smallest, limits });
    limits.maxTurns = 5;
    expect(request.limits.maxTurns).toBe(4);
    expect(limits).toEqual({ maxTurns: 5 });
    expect(parse(smallest).limits).not.toBe(parse(smallest).limits);
  });

  test("may leave a field undefined, which means absent", () => {
    expect(parse({ ...smallest, threadId: undefined })).toEqual(parse(smallest));
  });

  test("parsed again is the same", () => {
    const request = parse({ ...smallest, query: "é".repeat(MAX_TEXT_BYTES / 2), limits: { maxTurns: 3 } });
    expect(parse(request)).toEqual(request);
  });

  test("may name a label constructor or toString", () => {
    expect(parse({ ...smallest, metadata: { constructor: "a", toString: "b" } }).metadata).toEqual({
      constructor: "a",
      toString: "b",
    });
  });
});

describe("an invalid request", () => {
  test("lists all problems, and its message is the first one's", () => {
    const input = {
      tenantId: "*",
      skill: "../x",
      foo: 1,
      limits: { maxTurns: 0 },
      workspacePolicy: { network: "enabled" },
    };
    const error = refusalOf(input);
    expect(error.code).toBe("invalid_request");
    expect(pointersOf(input).toSorted()).toEqual([
      "/foo",
      "/limits/maxTurns",
      "/skill",
      "/tenantId",
      "/workspacePolicy/network",
    ]);
    expect(error.message).toBe("/foo is not a field that exists here.");
    expect(problemsOf(input)).toContainEqual({
      pointer: "/limits/maxTurns",
      expected: "an integer from 1 to 1000",
      message: "/limits/maxTurns must be an integer from 1 to 1000.",
    });
  });

  test.each<[what: string, input: unknown, pointer: string]>([
    ["nothing", undefined, ""],
    ["a list", [], ""],
    ["JSON text instead of an object", '{"tenantId":"acme"}', ""],
    ["a number in quotes", { ...smallest, limits: { maxTurns: "3" } }, "/limits/maxTurns"],
    ["null for a text", { ...smallest, runId: null }, "/runId"],
    ["null for a choice", { ...smallest, discover: null }, "/discover"],
    [
      "a capability without a version",
      { ...smallest, allowedCapabilities: ["workspace.read"] },
      "/allowedCapabilities/0",
    ],
    ["the same capability twice", { ...smallest, allowedCapabilities: ["a@1", "a@1"] }, "/allowedCapabilities"],
    [
      "two versions of one caller tool",
      { ...smallest, allowedCapabilities: ["caller.x@1", "caller.x@2"] },
      "/allowedCapabilities/1",
    ],
    ["300 kB of query", { ...smallest, query: "x".repeat(300_000) }, "/query"],
    ["a query whose bytes, not characters, are too many", { ...smallest, query: "é".repeat(150_000) }, "/query"],
    ["arguments one byte too long", { ...smallest, arguments: `${"x".repeat(MAX_TEXT_BYTES - 1)}é` }, "/arguments"],
    ["a lone surrogate", { ...smallest, query: "a\ud800b" }, "/query"],
    ["a lone surrogate in a name", { ...smallest, metadata: { "\udfff": "x" } }, "/metadata/\ufffd"],
    ["a zero character", { ...smallest, correlationId: "a\0b" }, "/correlationId"],
    [
      "a variable that is no name",
      { ...smallest, workspacePolicy: { environment: { "A=B": "x" } } },
      "/workspacePolicy/environment/A=B",
    ],
    ["a slash and a tilde in an unknown field", { ...smallest, "a/b~c": 1 }, "/a~1b~0c"],
    ["a month that does not exist", { ...smallest, startAfter: "2026-13-01T00:00:00Z" }, "/startAfter"],
    [
      "a start time in a conversation",
      { ...smallest, threadId: "thread-01", startAfter: "2026-12-01T00:00:00Z" },
      "/startAfter",
    ],
    ["a function", { ...smallest, query: () => "x" }, "/query"],
    ["a date", { ...smallest, startAfter: new Date() }, "/startAfter"],
    ["not a number", { ...smallest, limits: { maxCostUsd: Number.NaN } }, "/limits/maxCostUsd"],
    ["a big integer", { ...smallest, limits: { maxTurns: 3n } }, "/limits/maxTurns"],
    ["a response schema of no known type", { ...smallest, responseSchema: { type: "wat" } }, "/responseSchema/type"],
    [
      "a remote reference",
      { ...smallest, responseSchema: { $ref: "https://example.com/s.json" } },
      "/responseSchema/$ref",
    ],
  ])("%s is refused where it stands", (_what, input, pointer) => {
    expect(pointersOf(input)).toEqual([pointer]);
    expect(refusalOf(input).code).toBe("invalid_request");
  });

  test("__proto__ is refused at every depth", () => {
    const input: unknown = JSON.parse('{"tenantId":"acme","__proto__":{"x":1},"metadata":{"__proto__":"y"}}');
    expect(pointersOf(input)).toEqual(["/__proto__", "/metadata/__proto__"]);
  });

  test("a request that contains itself is refused", () => {
    const input: Record<string, unknown> = { ...smallest };
    input["metadata"] = input;
    expect(pointersOf(input)).toEqual(["/metadata"]);
  });

  test("a million levels, a million values and a list without an end are refused quickly", () => {
    let deep: unknown = 1;
    for (let level = 0; level < 1_000_000; level++) deep = [deep];
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`field${index}`, 1]));
    const startedAt = performance.now();
    expect(problemsOf({ ...smallest, metadata: deep })[0]?.expected).toBe("nested at most 32 levels deep");
    expect(pointersOf({ ...smallest, metadata: wide })).toEqual([""]);
    expect(pointersOf({ ...smallest, allowedCapabilities: Array.from({ length: 4_000_000 }) })).toEqual([
      "/allowedCapabilities",
    ]);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("thousands of unknown fields are counted, not all listed", () => {
    const error = refusalOf({
      ...smallest,
      ...Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`f${index}`, 1])),
    });
    expect(error.details?.["problems"]).toHaveLength(100);
    expect(error.details?.["more"]).toBe(4_900);
  });

  test("an input whose members throw is refused without their text", () => {
    const hostile = {
      get tenantId(): string {
        throw new Error("/home/secret");
      },
    };
    expect(JSON.stringify(refusalOf(hostile).toBody())).not.toContain("secret");
    expect(JSON.stringify(refusalOf(new Proxy({}, { ownKeys: () => [1] as never })).toBody())).not.toContain("Proxy");
  });

  test("a very long field name is cut in the answer", () => {
    const error = refusalOf({ ...smallest, [`a${"b".repeat(100_000)}`]: 1 });
    expect(JSON.stringify(error.toBody()).length).toBeLessThan(2_000);
  });
});

describe("a valid field that is not served yet", () => {
  test.each<[field: string, input: object]>([
    ["/skill", { tenantId: "acme" }],
    ["/discover", { ...smallest, discover: "all" }],
    ["/discover", { ...smallest, discover: ["shipping"] }],
    ["/threadId", { ...smallest, threadId: "thread-01" }],
    ["/startAfter", { ...smallest, startAfter: "2026-12-01T00:00:00Z" }],
    ["/priority", { ...smallest, priority: 9 }],
  ])("%s is refused as not supported", (pointer, input) => {
    const error = refusalOf(input);
    expect(error.code).toBe("not_supported");
    expect(error.details?.["pointer"]).toBe(pointer);
    expect(error.message).toContain(pointer);
  });
});

/** Any JSON, and what JavaScript callers hand in beside JSON. */
const anything = fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, maxDepth: 4 });
const fieldName = fc.constantFrom(
  "tenantId",
  "runId",
  "idempotencyKey",
  "correlationId",
  "caller",
  "skill",
  "discover",
  "arguments",
  "query",
  "threadId",
  "model",
  "allowedCapabilities",
  "limits",
  "onWorkerLoss",
  "workspacePolicy",
  "responseSchema",
  "priority",
  "startAfter",
  "metadata",
  "__proto__",
  "constructor",
  "unknown",
);

describe("properties", () => {
  test("whatever is handed in, the answer is a request or a RunError with problems", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          anything,
          fc.dictionary(fieldName, anything).map((fields) => ({ ...smallest, ...fields })),
        ),
        (input) => {
          try {
            expect(Object.isFrozen(parse(input))).toBe(true);
          } catch (error) {
            if (!(error instanceof RunError)) throw error;
            const problems = error.details?.["problems"] as readonly Problem[];
            expect(problems.length).toBeGreaterThan(0);
            expect(["invalid_request", "not_supported"]).toContain(error.code);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test("a valid request survives JSON and a second parse", () => {
    const text = fc.string({ unit: "binary", maxLength: 200 }).filter((value) => !value.includes("\0"));
    const request = fc.record(
      {
        tenantId: fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,62}$/),
        skill: fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,63}$/),
        query: text,
        arguments: text,
        limits: fc.record({ maxTurns: fc.integer({ min: 1, max: 1_000 }) }, { requiredKeys: [] }),
        metadata: fc.dictionary(fc.stringMatching(/^[a-z]{1,20}$/), text, { maxKeys: 16 }),
      },
      { requiredKeys: ["tenantId", "skill"] },
    );
    fc.assert(
      fc.property(request, (input) => {
        const parsed = parse(input);
        expect(parse(JSON.parse(JSON.stringify(parsed)))).toEqual(parsed);
        expect(parsed).toMatchObject(input);
      }),
      { numRuns: 200 },
    );
  });
});
