import { deepFreeze } from "../../shared/freeze.ts";

/** Bounds on what a model may hand to a tool. */
const MAX_ARGUMENT_BYTES = 1_500_000;
const MAX_DEPTH = 32;

export type ParsedArguments =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string };

/**
 * Parses the arguments of a call as the model wrote them.
 *
 * Nothing is repaired: half a document, another type than an object, more than 1,500,000 bytes or 32 levels,
 * and a key `__proto__` are problems to tell the model. An empty text means no arguments.
 *
 * @returns A frozen object, or one sentence.
 */
export function parseArguments(text: string): ParsedArguments {
  if (text.trim() === "") return { ok: true, value: Object.freeze({}) };
  if (Buffer.byteLength(text) > MAX_ARGUMENT_BYTES)
    return problem(`The arguments are longer than ${MAX_ARGUMENT_BYTES} bytes.`);
  if (depthOf(text) > MAX_DEPTH) return problem(`The arguments are nested deeper than ${MAX_DEPTH} levels.`);
  let value: unknown;
  let hostileKey = false;
  try {
    value = JSON.parse(text, (key, inner: unknown) => {
      if (key === "__proto__") hostileKey = true;
      return inner;
    });
  } catch {
    return problem("The arguments are not valid JSON.");
  }
  if (hostileKey) return problem("The arguments use the key __proto__.");
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return problem("The arguments are not a JSON object.");
  return { ok: true, value: deepFreeze(value as Record<string, unknown>) }; // an object by the line above
}

function problem(text: string): ParsedArguments {
  return { ok: false, problem: text };
}

/** Nesting of a JSON text, found without building anything. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x7d || code === 0x5d) depth--;
  }
  return deepest;
}
