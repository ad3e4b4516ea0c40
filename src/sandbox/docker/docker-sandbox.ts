import { randomUUID } from "node:crypto";
import type { Duplex } from "node:stream";
import type Docker from "dockerode";
import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";
import { RunError } from "../../shared/errors.ts";
import type { Sandbox, SandboxBackend, SandboxLabels } from "../backend.ts";
import { createBody, LABELS } from "./create-body.ts";
import { DockerContainer } from "./docker-container.ts";
import { engineStatus, imageMissing, openEngine, toUnavailable, withDeadline } from "./engine.ts";
import { removeContainer } from "./remove-container.ts";
import { type DockerSandboxOptions, type DockerSettings, toDockerSettings } from "./settings.ts";

/** A container younger than this may be on its way to life in another process. */
const UNSTARTED_GRACE_MS = 60_000;
/** Starting a container may take long on a loaded machine. */
const START_TIMEOUT_MS = 30_000;

/**
 * Opens the Docker engine as a sandbox backend: one container for each sandbox, without network, gone with it.
 *
 * Nothing is asked of the engine yet; `check` does.
 *
 * @throws {RunError} `invalid_configuration`.
 */
export async function createDockerSandbox(options: DockerSandboxOptions = {}): Promise<SandboxBackend> {
  const settings = toDockerSettings(options);
  return new DockerBackend(await openEngine(settings), settings);
}

class DockerBackend implements SandboxBackend {
  readonly name = "docker";
  readonly #docker: Docker;
  readonly #settings: DockerSettings;
  readonly #alive = new Set<Sandbox>();
  readonly #creating = new Set<Promise<unknown>>();
  readonly #disposal = new AbortController();
  #limitsKept: Promise<void> | undefined;

  constructor(docker: Docker, settings: DockerSettings) {
    this.#docker = docker;
    this.#settings = settings;
  }

  async create(policy: WorkspacePolicy, labels: SandboxLabels, signal: AbortSignal): Promise<Sandbox> {
    signal.throwIfAborted();
    if (this.#disposal.signal.aborted) throw closed();
    const creating = this.#create(policy, labels, AbortSignal.any([signal, this.#disposal.signal]));
    this.#creating.add(creating);
    try {
      return await creating;
    } finally {
      this.#creating.delete(creating);
    }
  }

  async #create(policy: WorkspacePolicy, labels: SandboxLabels, signal: AbortSignal): Promise<Sandbox> {
    const { clock } = this.#settings;
    await this.#requireLimits();
    const name = `skilldock-${randomUUID()}`;
    const lifeSeconds = Math.max(1, Math.ceil((labels.deadline - clock.now()) / 1_000));
    const body = createBody(policy, labels, { ...this.#settings, lifeSeconds });
    // By its name, so that it can be removed also where the engine's answer to its creation is lost.
    const container = this.#docker.getContainer(name);
    let tether: Duplex | undefined;
    try {
      signal.throwIfAborted();
      const { id } = await this.#createContainer({ name, ...body });
      signal.throwIfAborted();
      tether = await this.#attach(container);
      signal.throwIfAborted();
      await withDeadline((abortSignal) => container.start({ abortSignal }), { timeoutMs: START_TIMEOUT_MS });
      signal.throwIfAborted();
      return this.#adopt(this.#docker.getContainer(id), tether, policy);
    } catch (error) {
      const isGone = await removeContainer(container, clock);
      tether?.destroy();
      if (!isGone)
        this.#settings.logger.warn({ container: name }, "a sandbox that failed to start could not be removed");
      signal.throwIfAborted();
      throw toUnavailable(error);
    }
  }

  async #createContainer(body: Docker.ContainerCreateOptions): Promise<Docker.Container> {
    try {
      return await withDeadline((abortSignal) => this.#docker.createContainer({ ...body, abortSignal }));
    } catch (error) {
      throw engineStatus(error) === 404 ? imageMissing(this.#settings.image, error) : error;
    }
  }

  async #attach(container: Docker.Container): Promise<Duplex> {
    // The types leave it open which kind of stream it is; a hijacked one is a socket.
    const attached = withDeadline(
      async () => (await container.attach({ stream: true, stdin: true, hijack: true })) as Duplex,
      { tooLate: (late) => late.destroy() },
    );
    const tether = await attached;
    tether.on("error", () => undefined);
    tether.resume();
    return tether;
  }

  #adopt(container: Docker.Container, tether: Duplex, policy: WorkspacePolicy): Sandbox {
    const { pidsLimit, clock, logger } = this.#settings;
    const sandbox: DockerContainer = new DockerContainer({
      container,
      tether,
      policy,
      pidsLimit,
      clock,
      onEnded: (confirmed) => {
        this.#alive.delete(sandbox);
        if (!confirmed) logger.warn({ container: container.id }, "the removal of a sandbox could not be confirmed");
      },
    });
    this.#alive.add(sandbox);
    return sandbox;
  }

  async check(signal?: AbortSignal): Promise<{ readonly engine: string; readonly version: string }> {
    signal?.throwIfAborted();
    try {
      await withDeadline(() => this.#docker.ping());
      const version = await withDeadline(() => this.#docker.version());
      await this.#requireLimits();
      await this.#requireImage();
      return { engine: "docker", version: version.Version };
    } catch (error) {
      throw toUnavailable(error);
    }
  }

  async #requireImage(): Promise<void> {
    try {
      await withDeadline(() => this.#docker.getImage(this.#settings.image).inspect());
    } catch (error) {
      throw engineStatus(error) === 404 ? imageMissing(this.#settings.image, error) : error;
    }
  }

  /** An engine that would ignore a limit is refused. Asked once; asked again after a failure. */
  async #requireLimits(): Promise<void> {
    this.#limitsKept ??= this.#askLimits();
    try {
      await this.#limitsKept;
    } catch (error) {
      this.#limitsKept = undefined;
      throw toUnavailable(error);
    }
  }

  async #askLimits(): Promise<void> {
    // Not in the types as optional, but older and other engines leave them out: only a plain `false` counts.
    const info: Readonly<Record<string, unknown>> = await withDeadline(() => this.#docker.info());
    const ignored = ["MemoryLimit", "PidsLimit", "CpuCfsQuota"].filter((limit) => info[limit] === false);
    if (ignored.length === 0) return;
    throw new RunError("sandbox_unavailable", {
      message: `The Docker engine does not keep these limits: ${ignored.join(", ")}. A rootless engine needs cgroup v2 with delegation.`,
    });
  }

  async sweep(): Promise<number> {
    const { installation, clock } = this.#settings;
    const filters = { label: [`${LABELS.sandbox}=1`, `${LABELS.installation}=${installation}`] };
    let removed = 0;
    try {
      const containers = await withDeadline((abortSignal) =>
        this.#docker.listContainers({ all: true, filters, abortSignal }),
      );
      for (const info of containers.filter((found) => isLeftOver(found, clock.now()))) {
        if (await removeContainer(this.#docker.getContainer(info.Id), clock)) removed += 1;
        else this.#settings.logger.warn({ container: info.Id }, "a left-over sandbox could not be removed");
      }
    } catch (error) {
      throw toUnavailable(error);
    }
    return removed;
  }

  /** Ends every sandbox of this backend. Safe to call again. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal.abort(closed());
    await Promise.allSettled(this.#creating);
    await Promise.all([...this.#alive].map((sandbox) => sandbox.destroy()));
  }
}

/**
 * Whether nobody can be behind a container any more. A living one is ended by its own PID 1 when its owner dies, so
 * that what is left are those past their deadline and those that never started or did not go when they ended.
 */
function isLeftOver(container: Docker.ContainerInfo, now: number): boolean {
  const deadline = Number(container.Labels[LABELS.deadline]);
  if (!Number.isFinite(deadline) || deadline < now) return true;
  const isAlive = container.State === "running" || container.State === "paused" || container.State === "restarting";
  return !isAlive && container.Created * 1_000 + UNSTARTED_GRACE_MS < now;
}

function closed(): RunError {
  return new RunError("sandbox_unavailable", { message: "The sandbox backend is closed." });
}
