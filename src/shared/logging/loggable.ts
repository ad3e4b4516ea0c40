import { RunError } from "../errors.ts";
import { isSecretField, REDACTED, type Scrubber } from "./scrubber.ts";

/**
 * Turns anything into a small tree of plain JSON that may be logged: bounded in depth, breadth and
 * size, without cycles, with every string scrubbed. Getters and proxies that throw do no harm.
 */

const MAX_DEPTH = 6;
const MAX_ENTRIES = 50;
const MAX_NODES = 500;
const MAX_TEXT = 8_192;
const MAX_RAW_TEXT = 16_384;
const MAX_TOTAL_TEXT = 65_536;
const MAX_CAUSES = 5;
const MAX_KEY = 128;

export interface LoggableOptions {
  readonly scrubber: Scrubber;
  /** Whether errors keep their stack: `omit` outside debugging. */
  readonly stacks: "keep" | "omit";
}

/** What is left of the budget of one value. */
interface Walk extends LoggableOptions {
  readonly seen: Set<object>;
  nodes: number;
  text: number;
}

/** A field of a log line, ready to be written. */
export type Loggable = string | number | boolean | null | readonly Loggable[] | { readonly [name: string]: Loggable };

/** @returns A copy that is safe to log. Never throws. */
export function toLoggable(value: unknown, options: LoggableOptions): Loggable {
  return copy(value, 0, { ...options, seen: new Set(), nodes: MAX_NODES, text: MAX_TOTAL_TEXT });
}

/** @returns The text scrubbed and cut to at most 8,192 characters; a secret on the cut is not half shown. */
export function toLoggableText(text: string, scrubber: Scrubber): string {
  if (text.length <= MAX_RAW_TEXT) return cut(scrubber.scrubText(text), MAX_TEXT);
  // What straddles the raw cut may be the first half of a secret: it goes too.
  const scrubbed = scrubber.scrubText(text.slice(0, MAX_RAW_TEXT));
  return `${scrubbed.slice(0, Math.max(0, Math.min(MAX_TEXT, scrubbed.length - scrubber.longestSecret)))}…`;
}

function copy(value: unknown, depth: number, walk: Walk): Loggable {
  walk.nodes -= 1;
  if (walk.nodes < 0 || walk.text < 0) return "[too large]";
  switch (typeof value) {
    case "string":
      return copyText(value, walk);
    case "number":
      return Number.isFinite(value) ? value : String(value);
    case "boolean":
      return value;
    case "bigint":
      return copyText(value.toString(), walk);
    case "object":
      return value === null ? null : copyObject(value, depth, walk);
    case "undefined":
      return null;
    default:
      return `[${typeof value}]`;
  }
}

function copyText(text: string, walk: Walk): string {
  const clean = toLoggableText(text, walk.scrubber);
  walk.text -= clean.length;
  return clean;
}

function copyObject(value: object, depth: number, walk: Walk): Loggable {
  if (walk.seen.has(value)) return "[circular]";
  if (depth >= MAX_DEPTH) return "[too deep]";
  walk.seen.add(value);
  try {
    if (value instanceof Error) return copyError(value, depth, walk);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? "[invalid date]" : value.toISOString();
    if (value instanceof URL) return copyText(value.href, walk);
    if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
    if (Array.isArray(value)) return copyList(value, depth, walk);
    if (value instanceof Set) return copyList([...value].slice(0, MAX_ENTRIES + 1), depth, walk);
    if (value instanceof Map)
      return copyFields(
        [...value].slice(0, MAX_ENTRIES + 1).map(([key, item]) => [String(key), () => item]),
        depth,
        walk,
      );
    // A getter that throws costs its field, not the line.
    return copyFields(
      Object.keys(value)
        .slice(0, MAX_ENTRIES + 1)
        .map((key) => [key, () => Reflect.get(value, key)]),
      depth,
      walk,
    );
  } catch {
    return "[unreadable]";
  } finally {
    walk.seen.delete(value);
  }
}

function copyList(items: readonly unknown[], depth: number, walk: Walk): Loggable {
  const kept: Loggable[] = [];
  for (let index = 0; index < Math.min(items.length, MAX_ENTRIES); index += 1)
    kept.push(copy(items[index], depth + 1, walk));
  if (items.length > MAX_ENTRIES) kept.push("[more]");
  return kept;
}

function copyFields(fields: readonly (readonly [string, () => unknown])[], depth: number, walk: Walk): Loggable {
  const kept: [string, Loggable][] = [];
  for (const [name, read] of fields.slice(0, MAX_ENTRIES))
    kept.push([copyText(cut(name, MAX_KEY), walk), copyField(name, read, { depth, walk })]);
  if (fields.length > MAX_ENTRIES) kept.push(["…", "[more]"]);
  // From entries, so that a field named __proto__ is a field.
  return Object.fromEntries(kept);
}

function copyField(name: string, read: () => unknown, at: { readonly depth: number; readonly walk: Walk }): Loggable {
  try {
    const value = read();
    if (isSecretField(name) && value !== undefined && value !== null) return REDACTED;
    return copy(value, at.depth + 1, at.walk);
  } catch {
    return "[unreadable]";
  }
}

/** Name, code, message, causes; the stack only while debugging. Nothing else that a library hung on it. */
function copyError(error: Error, depth: number, walk: Walk): Loggable {
  const code: unknown = "code" in error ? error.code : undefined;
  return {
    name: copyText(
      readText(() => error.name),
      walk,
    ),
    ...(typeof code === "string" || typeof code === "number" ? { code: copy(code, depth + 1, walk) } : {}),
    message: copyText(
      readText(() => error.message),
      walk,
    ),
    ...(error instanceof RunError && error.details !== undefined
      ? { details: copy(error.details, depth + 1, walk) }
      : {}),
    ...(walk.stacks === "keep"
      ? {
          stack: copyText(
            readText(() => error.stack),
            walk,
          ),
        }
      : {}),
    ...(error.cause === undefined ? {} : { cause: copy(error.cause, depth + 1, walk) }),
    ...(error instanceof AggregateError ? { errors: copy(error.errors.slice(0, MAX_CAUSES), depth + 1, walk) } : {}),
  };
}

function readText(read: () => unknown): string {
  const text = read();
  return typeof text === "string" ? text : "";
}

function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max)}…`;
}
