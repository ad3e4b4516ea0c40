import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import { RunError } from "../errors.ts";
import type { RunRequest } from "./request.ts";

/**
 * Canonical JSON (RFC 8785): the same text for the same value, whatever the order of its keys.
 *
 * A lone surrogate, which that format cannot write, is read as U+FFFD, as UTF-8 does.
 *
 * @throws {RunError} `internal` for what is not JSON: `undefined`, NaN, a cycle.
 */
export function canonicalJson(value: unknown): string {
  const text = tryCanonicalize(value) ?? tryCanonicalize(toWellFormed(value, new Set()));
  if (text === undefined)
    throw new RunError("internal", { message: "A value that is not JSON has no canonical form." });
  return text;
}

/** SHA-256 of the bytes, or of the text's UTF-8, as `sha256:<64 hex digits>`. */
export function sha256Digest(content: string | Uint8Array): `sha256:${string}` {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/**
 * The digest that decides whether two requests under one idempotency key are the same: of the validated
 * request without `runId`, `idempotencyKey` and `correlationId`.
 */
export function payloadDigest(request: RunRequest): string {
  const { runId: _runId, idempotencyKey: _key, correlationId: _correlationId, ...payload } = request;
  return sha256Digest(canonicalJson(payload));
}

function tryCanonicalize(value: unknown): string | undefined {
  try {
    return canonicalize(value);
  } catch {
    return undefined;
  }
}

function toWellFormed(value: unknown, ancestors: Set<object>): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (typeof value !== "object" || value === null || ancestors.has(value)) return value;
  ancestors.add(value);
  const copy = Array.isArray(value)
    ? value.map((inner) => toWellFormed(inner, ancestors))
    : Object.fromEntries(
        Object.entries(value).map(([key, inner]) => [key.toWellFormed(), toWellFormed(inner, ancestors)]),
      );
  ancestors.delete(value);
  return copy;
}
