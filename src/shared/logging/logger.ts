import { format } from "node:util";
import { pino, stdTimeFunctions, type DestinationStream, type LogFn, type Logger } from "pino";
import type { LogLevel } from "./log-level.ts";
import { toLoggable, toLoggableText, type Loggable } from "./loggable.ts";
import { REDACTED, Scrubber } from "./scrubber.ts";

export type { Logger } from "pino";

export interface CreateLoggerOptions {
  /** Lines below are not written. Stacks are written from `debug` on. */
  readonly level: LogLevel;
  /** Where the lines go, one JSON object each. Default: stderr, at once. */
  readonly destination?: DestinationStream;
  /** Values that must never be seen: API keys, passwords. Shorter than 6 characters: ignored. */
  readonly secrets?: readonly string[];
}

/**
 * A pino logger whose lines hold no secret, no unbounded value, and no error but in a small shape.
 *
 * Every argument is copied and scrubbed before pino sees it; the finished line is scrubbed once more,
 * which also covers the bindings of child loggers. Logging never throws.
 */
export function createLogger(options: CreateLoggerOptions): Logger {
  const scrubber = new Scrubber(options.secrets);
  const destination = options.destination ?? pino.destination({ fd: 2, sync: true });
  return pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (value: unknown) => value },
      redact: { paths: ["authorization", "password", "apiKey", "token", "secret"], censor: REDACTED },
      hooks: {
        logMethod(args, method) {
          writeSafely(this, method, { args, scrubber });
        },
        streamWrite: (line) => scrubber.scrubJsonLine(line),
      },
    },
    destination,
  );
}

function writeSafely(
  logger: Logger,
  method: LogFn,
  call: { readonly args: readonly unknown[]; readonly scrubber: Scrubber },
): void {
  try {
    const { fields, message } = toLine(call.args, {
      scrubber: call.scrubber,
      stacks: logger.isLevelEnabled("debug") ? "keep" : "omit",
    });
    method.apply(logger, message === undefined ? [fields] : [fields, message]);
  } catch {
    // A line that cannot be written must not end the run that wrote it.
  }
}

/** pino's three ways to call a level: `(message, …)`, `(fields, message, …)`, `(error, message?, …)`. */
function toLine(
  args: readonly unknown[],
  options: { readonly scrubber: Scrubber; readonly stacks: "keep" | "omit" },
): { readonly fields: object; readonly message: string | undefined } {
  const [first, ...rest] = args;
  const { scrubber } = options;
  if (first instanceof Error) {
    const fields = { err: toLoggable(first, options) };
    return { fields, message: rest.length > 0 ? toMessage(rest, options) : toLoggableText(first.message, scrubber) };
  }
  if (typeof first === "object" && first !== null) {
    const loggable = toLoggable(first, options);
    return {
      fields: isFields(loggable) ? loggable : { value: loggable },
      message: rest.length > 0 ? toMessage(rest, options) : undefined,
    };
  }
  return { fields: {}, message: toMessage(args, options) };
}

/** Put together first and scrubbed then: the pieces may be harmless where the whole is not. */
function toMessage(
  parts: readonly unknown[],
  options: { readonly scrubber: Scrubber; readonly stacks: "keep" | "omit" },
): string {
  const texts = parts.map((part) => (typeof part === "object" ? toLoggable(part, options) : part));
  return toLoggableText(format(...texts), options.scrubber);
}

function isFields(value: Loggable): value is { readonly [name: string]: Loggable } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
