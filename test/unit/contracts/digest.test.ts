import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson, payloadDigest, sha256Digest } from "../../../src/shared/contracts/digest.ts";
import { parseRunRequest } from "../../../src/shared/contracts/validate.ts";
import { RunError } from "../../../src/shared/errors.ts";
import { newNonce, newRunId } from "../../../src/shared/ids.ts";

const request = (fields: object, runId = "run-00000001"): ReturnType<typeof parseRunRequest> =>
  parseRunRequest({ tenantId: "acme", skill: "refund", ...fields }, { runId });

describe("canonical JSON", () => {
  test("is the same whatever the order of the keys", () => {
    expect(canonicalJson({ b: [1, { d: 4, c: "é" }], a: null })).toBe('{"a":null,"b":[1,{"c":"é","d":4}]}');
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue()), (value) => {
        const reversed = Object.fromEntries(Object.entries(value).toReversed());
        expect(canonicalJson(reversed)).toBe(canonicalJson(value));
        expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  test("reads a lone surrogate as U+FFFD, in values and in names", () => {
    expect(canonicalJson({ "\ud800": ["a\udc00"] })).toBe('{"\ufffd":["a\ufffd"]}');
  });

  test.each([undefined, Number.NaN, () => 1, 1n, [Number.POSITIVE_INFINITY, "\ud800"]])("refuses %s", (value) => {
    expect(() => canonicalJson(value)).toThrow(RunError);
  });

  test("refuses a cycle, also beside a lone surrogate", () => {
    const cyclic: Record<string, unknown> = { text: "\ud800" };
    cyclic["self"] = cyclic;
    expect(() => canonicalJson(cyclic)).toThrow(RunError);
  });
});

describe("digests", () => {
  test("are SHA-256 of UTF-8, with the algorithm's name", () => {
    const ofEmpty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    expect(sha256Digest("")).toBe(ofEmpty);
    expect(sha256Digest("é")).toBe(sha256Digest(new TextEncoder().encode("é")));
  });

  test("the payload's digest ignores run id, idempotency key and correlation id, and knows the defaults", () => {
    const plain = payloadDigest(request({}));
    expect(payloadDigest(request({ idempotencyKey: "a", correlationId: "b" }, "run-00000002"))).toBe(plain);
    expect(payloadDigest(request({ query: "", limits: { maxTurns: 16 }, discover: "none" }))).toBe(plain);
    expect(payloadDigest(request({ query: "x" }))).not.toBe(plain);
    expect(payloadDigest(request({ metadata: { a: "b" } }))).not.toBe(plain);
  });
});

describe("ids", () => {
  test("a new run id satisfies the contract and sorts after the one before", () => {
    const ids = Array.from({ length: 100 }, newRunId);
    expect(ids.every((id) => /^[A-Za-z0-9_-]{8,64}$/.test(id))).toBe(true);
    expect(ids.toSorted()).toEqual(ids);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test("a nonce is 128 bits", () => {
    expect(newNonce()).toMatch(/^[A-Za-z0-9_-]{22}$/);
    expect(newNonce()).not.toBe(newNonce());
  });
});
