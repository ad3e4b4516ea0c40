import type { Config } from "../shared/config/config.ts";
import { RunError } from "../shared/errors.ts";
import type { Logger } from "../shared/logging/logger.ts";
import type { SandboxBackend } from "../sandbox/backend.ts";

/** Makes the parts that execute runs as the configuration says. */

/** The factory of the sandbox backend; undefined where there is none. The engine is not asked before it is called. */
export function sandboxOf(config: Config, logger?: Logger): (() => Promise<SandboxBackend>) | undefined {
  const { backend, image, runtime, memoryBytes, cpus, pids } = config.sandbox;
  if (backend === "none") return undefined;
  return async () => {
    const { createDockerSandbox } = await import("../sandbox/index.ts");
    return createDockerSandbox({
      installation: config.worker.installation,
      ...(logger === undefined ? {} : { logger }),
      ...(image === undefined ? {} : { image }),
      ...(runtime === undefined ? {} : { runtime }),
      ...(memoryBytes === undefined ? {} : { memoryBytes }),
      ...(cpus === undefined ? {} : { cpus }),
      ...(pids === undefined ? {} : { pidsLimit: pids }),
    });
  };
}

/**
 * Asks the engine whether it answers, before runs depend on it.
 *
 * @throws {RunError} `sandbox_unavailable`, saying what to do.
 */
export async function requireSandbox(open: () => Promise<SandboxBackend>): Promise<void> {
  try {
    await using backend = await open();
    await backend.check();
  } catch (error) {
    if (!(error instanceof RunError) || error.code !== "sandbox_unavailable") throw error;
    throw new RunError("sandbox_unavailable", {
      message: `${error.message} Or run the worker with --sandbox none: it then denies workspace capabilities.`,
      ...(error.details === undefined ? {} : { details: error.details }),
      cause: error,
    });
  }
}
