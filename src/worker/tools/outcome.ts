import { createHash } from "node:crypto";
import type { Receipt, ReceiptStatus } from "../../shared/contracts/receipt.ts";
import { ERROR_TABLE, type ReceiptCode } from "../../shared/errors.ts";

/** The most that a model sees of one tool's output, in UTF-8 bytes. */
export const MAX_OUTPUT_BYTES = 262_144;

/** What one call came to, and the text that the model sees of it. */
export interface ToolOutcome {
  readonly status: ReceiptStatus;
  readonly code?: ReceiptCode;
  /** Well-formed Unicode, at most `MAX_OUTPUT_BYTES`. */
  readonly output: string;
  readonly truncated: boolean;
  /** The resource that a read brought: evidence. */
  readonly resource?: { readonly path: string; readonly digest: string };
}

/** A success: text as it is, anything else as JSON. */
export function succeeded(value: unknown): ToolOutcome {
  return { status: "succeeded", ...bounded(typeof value === "string" ? value : JSON.stringify(value ?? null)) };
}

/** A failure, told to the model as `{"error": {code, message}}` with whatever facts it may use. */
export function failed(
  code: ReceiptCode,
  options: {
    readonly message?: string;
    readonly facts?: Readonly<Record<string, unknown>>;
    readonly status?: Exclude<ReceiptStatus, "succeeded">;
  } = {},
): ToolOutcome {
  const error = { code, message: options.message ?? ERROR_TABLE[code].message };
  return { status: options.status ?? "failed", code, ...bounded(JSON.stringify({ error, ...options.facts })) };
}

/** The facts of a call that its receipt repeats. */
export interface CallFacts {
  readonly callId: string;
  readonly capabilityId: string;
  readonly modelName: string;
  readonly effects: Receipt["effects"];
  readonly argumentsText: string;
  readonly argumentsDigest: string;
  readonly attempt: number;
  readonly policyDigest?: string;
}

export function toReceipt(
  facts: CallFacts,
  outcome: ToolOutcome,
  times: { readonly startedAt: string; readonly durationMs: number },
): Receipt {
  return {
    callId: facts.callId,
    capabilityId: facts.capabilityId,
    modelName: facts.modelName.slice(0, 128).toWellFormed(),
    status: outcome.status,
    ...(outcome.code === undefined ? {} : { code: outcome.code }),
    effects: facts.effects,
    argumentsDigest: facts.argumentsDigest,
    resultDigest: textDigest(outcome.output),
    startedAt: times.startedAt,
    durationMs: Math.round(times.durationMs),
    bytesIn: Buffer.byteLength(facts.argumentsText),
    bytesOut: Buffer.byteLength(outcome.output),
    truncated: outcome.truncated,
    attempt: facts.attempt,
    ...(outcome.resource === undefined ? {} : { resource: outcome.resource }),
    ...(facts.policyDigest === undefined ? {} : { policyDigest: facts.policyDigest }),
  };
}

export function textDigest(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

function bounded(text: string): { readonly output: string; readonly truncated: boolean } {
  const wellFormed = text.toWellFormed();
  if (Buffer.byteLength(wellFormed) <= MAX_OUTPUT_BYTES) return { output: wellFormed, truncated: false };
  const note = `\n[cut: the output is longer than ${MAX_OUTPUT_BYTES} bytes]`;
  const kept = Buffer.from(wellFormed).subarray(0, MAX_OUTPUT_BYTES - Buffer.byteLength(note));
  // A character that the cut went through is dropped: the decoder holds it back as unfinished.
  return { output: new TextDecoder().decode(kept, { stream: true }) + note, truncated: true };
}
