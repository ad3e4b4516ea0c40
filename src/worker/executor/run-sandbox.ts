import { systemClock, type Clock } from "../../shared/clock.ts";
import type { RunRequest } from "../../shared/contracts/request.ts";
import { RunError } from "../../shared/errors.ts";
import { untilAborted } from "../../shared/until-aborted.ts";
import type { Sandbox, SandboxBackend } from "../../sandbox/backend.ts";
import { Workspace } from "../../sandbox/workspace.ts";
import type { Skill } from "../catalog/catalog.ts";

export interface RunSandboxOptions {
  readonly backend: () => SandboxBackend | Promise<SandboxBackend>;
  readonly request: RunRequest;
  readonly attempt: number;
  readonly owner: string;
  readonly installation: string;
  /** Epoch ms at which the run's wall clock ends. */
  readonly endsAt: number;
  /** Its files are staged; absent: an empty workspace. */
  readonly skill: Skill | undefined;
  readonly clock: Clock;
}

/** Slack after the run's end before a sweeper may take the container of a live worker. */
const SWEEP_SLACK_MS = 60_000;

/**
 * The one sandbox of a run: made at the first admitted workspace call, staged once, ended once.
 *
 * W1 `workspace` creates at most one sandbox. W2 After `close` none is created any more.
 * W3 Only `close` ends it, called by the executor or by the run's abort; a create that was aborted has left nothing
 *    behind (the backend's rule).
 */
export class RunSandbox {
  readonly #options: RunSandboxOptions;
  #workspace: Workspace | undefined;
  #sandbox: Sandbox | undefined;
  #createdAt = 0;
  #lifeMs = 0;
  readonly #onAbort = (): void => void this.close();
  #releaseSignal = (): void => undefined;
  #closing: Promise<{ readonly confirmed: boolean }> | undefined;

  constructor(options: RunSandboxOptions) {
    this.#options = options;
  }

  /** Milliseconds that the sandbox lived; known once it is closed. */
  get lifeMs(): number {
    return this.#lifeMs;
  }

  /** @throws {RunError} `sandbox_unavailable`, `sandbox_failed`; `signal.reason` after an abort. */
  async workspace(signal: AbortSignal): Promise<Workspace> {
    signal.throwIfAborted();
    if (this.#closing !== undefined) throw new RunError("sandbox_failed", { message: "The run's sandbox is closed." });
    if (this.#workspace !== undefined) return this.#workspace;
    const { request, skill, clock } = this.#options;
    const backend = await untilAborted(signal, async () => this.#options.backend());
    this.#createdAt = clock.monotonic();
    this.#sandbox = await backend.create(request.workspacePolicy, this.#labels(), signal);
    // An interrupted run has no use for it: ending it ends whatever runs in it, however that resists.
    signal.addEventListener("abort", this.#onAbort, { once: true });
    if (signal.aborted) this.#onAbort();
    this.#releaseSignal = () => signal.removeEventListener("abort", this.#onAbort);
    const workspace = new Workspace({ sandbox: this.#sandbox, policy: request.workspacePolicy });
    if (skill !== undefined) await workspace.stage(stagedFiles(skill), signal);
    this.#workspace = workspace;
    return workspace;
  }

  /** Ends the sandbox, if there is one. Safe to call again. @returns Whether its removal was confirmed within 10 s. */
  async close(): Promise<{ readonly confirmed: boolean }> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async #end(): Promise<{ readonly confirmed: boolean }> {
    this.#releaseSignal();
    if (this.#sandbox === undefined) return { confirmed: true };
    try {
      return await this.#sandbox.destroy();
    } catch {
      // Against the port's rule; whether it is gone is not known then, and a sweeper looks after it.
      return { confirmed: false };
    } finally {
      this.#lifeMs = Math.round(this.#options.clock.monotonic() - this.#createdAt);
    }
  }

  #labels(): Parameters<SandboxBackend["create"]>[1] {
    const { request, attempt, owner, installation, endsAt, clock } = this.#options;
    return {
      installation,
      owner,
      runId: request.runId,
      tenantId: request.tenantId,
      attempt,
      // Engines and sweepers go by this machine's time, whatever clock the run goes by.
      deadline: systemClock.now() + endsAt - clock.now() + SWEEP_SLACK_MS,
    };
  }
}

/** Where a skill's files stand, relative to the workspace. */
export function skillDirectory(ref: string): string {
  return `skills/${ref}`;
}

function stagedFiles(skill: Skill): Parameters<Workspace["stage"]>[0] {
  return skill.manifest.map((entry) => ({
    path: `${skillDirectory(skill.ref)}/${entry.path}`,
    bytes: skill.read(entry.path),
    executable: entry.executable,
    digest: entry.digest,
  }));
}
