import type Docker from "dockerode";
import { RunError } from "../../shared/errors.ts";
import type { DockerSettings } from "./settings.ts";

/** How long one call to the engine may take. */
export const CALL_TIMEOUT_MS = 10_000;

/** Opens the engine's API; dockerode is loaded here and not before. Nothing is sent yet. */
export async function openEngine(settings: DockerSettings): Promise<Docker> {
  const { default: Dockerode } = await import("dockerode");
  return settings.socketPath === undefined ? new Dockerode() : new Dockerode({ socketPath: settings.socketPath });
}

/** The engine did not answer in time. */
class EngineTimeout extends Error {
  override readonly name = "EngineTimeout";
}

/**
 * Gives a call to the engine its own deadline.
 *
 * @param call Told by its signal to stop. Where it answers after all (a hijacked stream does), `tooLate` gets it.
 */
export async function withDeadline<T>(
  call: (signal: AbortSignal) => Promise<T>,
  options: { readonly timeoutMs?: number; readonly tooLate?: (value: T) => void } = {},
): Promise<T> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let isLate = false;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      isLate = true;
      reject(new EngineTimeout("The engine did not answer in time."));
      abort.abort();
    }, options.timeoutMs ?? CALL_TIMEOUT_MS);
  });
  const answered = call(abort.signal);
  answered.then(
    (value) => (isLate ? options.tooLate?.(value) : undefined),
    () => undefined,
  );
  try {
    return await Promise.race([answered, expired]);
  } finally {
    clearTimeout(timer);
  }
}

/** The HTTP status of an error of the engine; undefined where it gave none. */
export function engineStatus(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null || !("statusCode" in error)) return undefined;
  return typeof error.statusCode === "number" ? error.statusCode : undefined;
}

/** Whether the engine says that there is no such container, or that it does not run. */
export function isContainerGone(error: unknown): boolean {
  const status = engineStatus(error);
  return status === 404 || status === 409;
}

/** An error before a sandbox exists, with what an operator can do about it. */
export function toUnavailable(error: unknown): RunError {
  if (error instanceof RunError) return error;
  const status = engineStatus(error);
  const message =
    status === undefined
      ? `No Docker engine answers${reasonOf(error)}. Start Docker, or name its socket (DOCKER_HOST), and see that this user may use it.`
      : `The Docker engine refused (status ${status}). Its log says why.`;
  return new RunError("sandbox_unavailable", { message, cause: error });
}

/** The error of a sandbox image that the engine does not have, with what to do. */
export function imageMissing(image: string, cause?: unknown): RunError {
  return new RunError("sandbox_unavailable", {
    message: `The sandbox image ${image} is not on the Docker engine. Make it with deploy/sandbox/build, or pull it, or configure another.`,
    cause,
  });
}

/** An error of the engine while a sandbox existed. */
export function toFailed(error: unknown): RunError {
  return error instanceof RunError ? error : new RunError("sandbox_failed", { cause: error });
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: ": there is no such socket",
  ECONNREFUSED: ": nothing listens there",
  EACCES: ": this user may not use its socket",
};

function reasonOf(error: unknown): string {
  if (error instanceof EngineTimeout) return " in time";
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
  return REASONS[code] ?? "";
}
