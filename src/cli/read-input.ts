import { createReadStream } from "node:fs";
import { basename } from "node:path";
import type { Readable } from "node:stream";
import { RunError } from "../shared/errors.ts";

/** More than any valid request: what is larger is not read to its end. */
const MAX_INPUT_BYTES = 8 * 1024 * 1024;

/**
 * Reads UTF-8 text from a file, or from `stdin` where the source is `-`.
 *
 * @throws {RunError} `invalid_request`: not there, not readable, not UTF-8, larger than 8 MiB.
 */
export async function readText(source: string, stdin: Readable): Promise<string> {
  const name = source === "-" ? "stdin" : basename(source);
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of source === "-" ? stdin : createReadStream(source)) {
      const buffer = Buffer.from(chunk as Buffer); // neither stream has an encoding set: chunks are buffers
      bytes += buffer.length;
      if (bytes > MAX_INPUT_BYTES) throw refuse(name, `it is larger than ${MAX_INPUT_BYTES} bytes`);
      chunks.push(buffer);
    }
  } catch (error) {
    throw error instanceof RunError ? error : refuse(name, systemCodeOf(error), error);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks));
  } catch (error) {
    throw refuse(name, "it is not UTF-8", error);
  }
}

/** As {@link readText}, for a JSON object. @throws {RunError} `invalid_request`. */
export async function readJsonObject(source: string, stdin: Readable): Promise<Readonly<Record<string, unknown>>> {
  const text = await readText(source, stdin);
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    throw refuse(source === "-" ? "stdin" : basename(source), "it is not JSON", error);
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>; // just checked
  throw refuse(source === "-" ? "stdin" : basename(source), "it is not a JSON object");
}

function refuse(name: string, why: string, cause?: unknown): RunError {
  return new RunError("invalid_request", { message: `Cannot read ${name}: ${why}.`, cause });
}

function systemCodeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "it cannot be read";
}
