import { type Clock, systemClock } from "../../shared/clock.ts";
import { RunError } from "../../shared/errors.ts";

/** What the sandbox says to its operator; a pino logger fits. */
export interface SandboxLogger {
  warn(facts: Readonly<Record<string, unknown>>, message: string): void;
}

/** How sandboxes are made. Every run's policy comes on top of it, and no run can change it. */
export interface DockerSandboxOptions {
  /** Image of every sandbox. Default `skilldock-sandbox:1`, which `deploy/sandbox/build` makes. */
  readonly image?: string;
  /** Default: `DOCKER_HOST`, else `/var/run/docker.sock`. Whoever holds it is root on the engine's host. */
  readonly socketPath?: string;
  /** OCI runtime such as `runsc`. Default: the engine's own default. */
  readonly runtime?: string;
  /** Memory for the processes of one sandbox, in bytes; the workspace's own size comes on top. Default 256 MiB. */
  readonly memoryBytes?: number;
  /** Processor cores, fractions allowed. Default 1. */
  readonly cpus?: number;
  /** Processes and threads alive at a time. Default 64; at least 16. */
  readonly pidsLimit?: number;
  /** Whose left-over containers `sweep` removes: the one of the labels given to `create`. Default `default`. */
  readonly installation?: string;
  readonly logger?: SandboxLogger;
  readonly clock?: Clock;
}

/** {@link DockerSandboxOptions} with every default filled in. */
export interface DockerSettings {
  readonly image: string;
  readonly socketPath: string | undefined;
  readonly runtime: string | undefined;
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly pidsLimit: number;
  readonly installation: string;
  readonly logger: SandboxLogger;
  readonly clock: Clock;
}

const MIN_MEMORY_BYTES = 16 * 1024 * 1024;
const MIN_PIDS = 16;

/** @throws {RunError} `invalid_configuration`. */
export function toDockerSettings(options: DockerSandboxOptions): DockerSettings {
  const settings: DockerSettings = {
    image: options.image ?? "skilldock-sandbox:1",
    socketPath: options.socketPath,
    runtime: options.runtime,
    memoryBytes: options.memoryBytes ?? 256 * 1024 * 1024,
    cpus: options.cpus ?? 1,
    pidsLimit: options.pidsLimit ?? 64,
    installation: options.installation ?? "default",
    logger: options.logger ?? { warn: () => {} },
    clock: options.clock ?? systemClock,
  };
  if (settings.image === "") throw invalid("image is empty.");
  if (!Number.isSafeInteger(settings.memoryBytes) || settings.memoryBytes < MIN_MEMORY_BYTES) {
    throw invalid(`memoryBytes must be an integer of at least ${MIN_MEMORY_BYTES}.`);
  }
  if (!(settings.cpus >= 0.01 && settings.cpus <= 1_024)) throw invalid("cpus must be between 0.01 and 1024.");
  if (!Number.isSafeInteger(settings.pidsLimit) || settings.pidsLimit < MIN_PIDS) {
    throw invalid(`pidsLimit must be an integer of at least ${MIN_PIDS}.`);
  }
  return settings;
}

function invalid(problem: string): RunError {
  return new RunError("invalid_configuration", { message: `The Docker sandbox cannot be set up: ${problem}` });
}
