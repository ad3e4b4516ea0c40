import { RunError, toRunError } from "../../shared/errors.ts";
import type { ModelUsage } from "./model.ts";

const MAX_PROVIDER_MESSAGE = 300;
const MAX_PROVIDER_CODE = 64;

/** Error codes and types by which providers say that a request or an answer was refused for its content. */
const REFUSALS: ReadonlySet<string> = new Set([
  "content_filter",
  "content_policy_violation",
  "ResponsibleAIPolicyViolation",
  "invalid_prompt",
]);
const UNKNOWN_MODEL: ReadonlySet<string> = new Set(["model_not_found", "not_found_error", "NotFoundError"]);
const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 409, 429]);

/** What went wrong with one attempt of a model call. */
export interface ChatFailure {
  readonly error: RunError;
  /** The same request may be sent again now. */
  readonly retry: boolean;
  /** How long the server asks to wait first. */
  readonly retryAfterMs?: number;
}

/** An `error` object as servers send it, in a body or within a stream. */
export interface ProviderError {
  readonly status?: number;
  readonly code?: string;
  readonly type?: string;
  readonly param?: string;
  readonly message?: string;
}

/** Reads an `error` object of any shape; what is not a text is left out. */
export function readProviderError(value: unknown, status?: number): ProviderError {
  const fields: Record<string, unknown> =
    typeof value === "object" && value !== null ? { ...value } : { message: value };
  const text = (name: string): Record<string, string> => {
    const field = fields[name];
    return typeof field === "string" && field !== "" ? { [name]: field } : {};
  };
  const numeric = fields["code"];
  const given = status ?? (typeof numeric === "number" ? numeric : undefined);
  return {
    ...(given === undefined ? {} : { status: given }),
    ...text("code"),
    ...text("type"),
    ...text("param"),
    ...text("message"),
  };
}

/**
 * Sorts what ended an attempt: the client's status errors, or an error of ours. Anything else is `internal`.
 *
 * @param context.secret The key, to be kept out of what the provider says.
 * @param context.now Epoch ms, for a `Retry-After` that is a date.
 */
export function failureOf(
  caught: unknown,
  context: { readonly secret: string | undefined; readonly now: number },
): ChatFailure {
  if (caught instanceof RunError) return { error: caught, retry: caught.details?.["reason"] === "connection_lost" };
  const { secret, now } = context;
  const { status, headers, error } = httpParts(caught);
  if (status === undefined) return { error: toRunError(caught), retry: false };
  const failure = providerFailure(readProviderError(error, status), secret, caught);
  const asked = headers?.get("x-should-retry");
  const retryAfterMs = readRetryAfter(headers, now);
  return {
    error: retryAfterMs === undefined ? failure.error : withDetails(failure.error, { retryAfterMs }),
    retry: asked === "true" || (failure.retry && asked !== "false"),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** Sorts an error that a server reports, by status or within its stream. */
export function providerFailure(provider: ProviderError, secret: string | undefined, cause?: unknown): ChatFailure {
  const { status, code, type } = provider;
  const said = [code, type].filter((word) => word !== undefined);
  const details = {
    ...(code === undefined ? {} : { providerCode: scrub(code, secret).slice(0, MAX_PROVIDER_CODE) }),
    ...(provider.message === undefined ? {} : { providerMessage: scrub(provider.message, secret) }),
  };
  if (said.some((word) => REFUSALS.has(word))) {
    return {
      error: new RunError("model_refused", { details: { reason: "content_policy", ...details }, cause }),
      retry: false,
    };
  }
  if (status === 404 && (provider.param === "model" || said.some((word) => UNKNOWN_MODEL.has(word)))) {
    const message = "The provider does not know the model.";
    return {
      error: new RunError("unknown_model", { message, details: { reason: "http_404", ...details }, cause }),
      retry: false,
    };
  }
  const retry =
    (status === undefined || status >= 500 || RETRIED_STATUSES.has(status)) && code !== "insufficient_quota";
  const error = new RunError("model_unavailable", {
    details: { reason: reasonOf(status), ...(retry ? {} : { permanent: true }), ...details },
    cause,
  });
  return { error, retry };
}

/** Whether the client threw because of a status, not because of the connection. */
export function hasStatus(caught: unknown): boolean {
  return httpParts(caught).status !== undefined;
}

/** The error for a connection that broke. */
export function connectionLost(cause: unknown): RunError {
  return new RunError("model_unavailable", { details: { reason: "connection_lost" }, cause });
}

/** The error for an answer that breaks the protocol. */
export function protocolError(reason: string, details: Readonly<Record<string, unknown>> = {}): RunError {
  return new RunError("model_protocol", { details: { reason, ...details } });
}

/** The same error, saying also what the broken call has probably used. */
export function withUsage(error: RunError, usage: ModelUsage): RunError {
  return withDetails(error, { usage });
}

/**
 * A provider's text, safe to show: without key, tokens and control characters, at most 300 characters.
 *
 * @param secret Removed wherever it stands.
 */
export function scrub(text: string, secret: string | undefined): string {
  const known = secret === undefined || secret === "" ? text : text.replaceAll(secret, "[removed]");
  const clean = known
    .slice(0, 4 * MAX_PROVIDER_MESSAGE)
    .replaceAll(/\bbearer\s+\S+/giu, "Bearer [removed]")
    .replaceAll(/\b(?:sk|pk|key|rk)-[\w*.-]{4,}/giu, "[removed]")
    .replaceAll(/\b(api[-_ ]?key|token|secret|password)(["']?\s*[:=]\s*["']?)[^\s"',;]+/giu, "$1$2[removed]")
    .replaceAll(/[\p{Cc}\p{Cf}]+/gu, " ");
  return clean.slice(0, MAX_PROVIDER_MESSAGE).toWellFormed();
}

function reasonOf(status: number | undefined): string {
  if (status === 429) return "rate_limited";
  return status === undefined || status >= 500 ? "server_error" : `http_${status}`;
}

function withDetails(error: RunError, more: Readonly<Record<string, unknown>>): RunError {
  return new RunError(error.code, {
    message: error.message,
    details: { ...error.details, ...more },
    cause: error.cause,
  });
}

interface HttpParts {
  readonly status?: number;
  readonly headers?: { readonly get: (name: string) => string | null };
  readonly error?: unknown;
}

/** The parts of the client's status error, known by its shape: the client is loaded late. */
function httpParts(caught: unknown): HttpParts {
  if (typeof caught !== "object" || caught === null || !("status" in caught) || typeof caught.status !== "number")
    return {};
  const { headers } = caught as HttpParts; // the client's errors with a status have the response's headers
  const error = "error" in caught ? caught.error : undefined;
  return { status: caught.status, ...(headers === undefined ? {} : { headers }), error };
}

function readRetryAfter(headers: HttpParts["headers"], now: number): number | undefined {
  const inMs = Number.parseFloat(headers?.get("retry-after-ms") ?? "");
  if (inMs >= 0) return Math.ceil(inMs);
  const value = headers?.get("retry-after") ?? "";
  const seconds = Number.parseFloat(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - now : seconds * 1000;
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : undefined;
}
