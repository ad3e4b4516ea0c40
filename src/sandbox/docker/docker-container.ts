import { randomUUID } from "node:crypto";
import type { Duplex } from "node:stream";
import type Docker from "dockerode";
import type { Clock } from "../../shared/clock.ts";
import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";
import { RunError } from "../../shared/errors.ts";
import { checkArgv } from "../argv.ts";
import type { ExecOptions, ExecResult, Sandbox, WorkspaceEntry } from "../backend.ts";
import { parseWorkspacePath, toAbsolutePath, WORKSPACE_ROOT } from "../workspace-path.ts";
import { entriesAfterWrite, requireFile } from "../workspace-rules.ts";
import { type ArchiveFile, buildArchive, toBatches } from "./archive.ts";
import { searchPath, toCommandLine } from "./command-line.ts";
import { WORKLOAD_USER } from "./create-body.ts";
import { isContainerGone, toFailed, withDeadline } from "./engine.ts";
import { delay, EngineExec } from "./engine-exec.ts";
import { awaitEnd, runHelper, toListing } from "./helper.ts";
import { Mutex } from "./mutex.ts";
import { removeContainer } from "./remove-container.ts";
import {
  type Listing,
  NOT_REGULAR,
  NOT_WRITTEN,
  READ_SCRIPT,
  RUNNABLE_SCRIPT,
  SETTLE_SCRIPT,
  WRITE_SCRIPT,
} from "./scripts.ts";

const MAX_LISTING_BYTES = 32_000_000;
const SETTLE_ATTEMPTS = 8;
/** All attempts together: a workload may stop each of our helpers as it appears. */
const SETTLE_MS = 15_000;
/** After so many failed attempts the container gets room for more processes, once. */
const ATTEMPTS_BEFORE_ROOM = 3;

/** A started container, and what is needed to work in it. */
export interface DockerContainerOptions {
  readonly container: Docker.Container;
  /** PID 1's stdin. While it is held the container lives. */
  readonly tether: Duplex;
  readonly policy: WorkspacePolicy;
  readonly pidsLimit: number;
  readonly clock: Clock;
  /** Called once, when the removal has settled. */
  readonly onEnded: (confirmed: boolean) => void;
}

/** How the wait for a command came to its end. */
type Ending = "exited" | "timed_out" | "output_limit" | "aborted";

/**
 * A sandbox in one container.
 *
 * States: open → broken | ended. `#listing` is what the workspace holds.
 *
 * D1 One operation at a time; the others wait.
 * D2 Between operations no process of the workload is alive: what helpers see then is what there is, so the listing
 *    that the last operation made stays true until the next command or write.
 * D3 An operation after which D2 cannot be proven removes the container: broken.
 * D4 `destroy` waits for nobody; an operation that is under way fails.
 */
export class DockerContainer implements Sandbox {
  readonly id: string;
  readonly executesCommands = true;
  readonly #options: DockerContainerOptions;
  readonly #mutex = new Mutex();
  #listing: Listing = { entries: [], oomKills: 0 };
  #removal: Promise<{ readonly confirmed: boolean }> | undefined;
  #hasMoreRoom = false;

  constructor(options: DockerContainerOptions) {
    this.#options = options;
    this.id = options.container.id;
  }

  async exec(argv: readonly string[], options: ExecOptions): Promise<ExecResult> {
    checkArgv(argv, this.#options.policy.environment);
    return this.#operate(options.signal, () => this.#runCommand(argv, options));
  }

  async list(signal?: AbortSignal): Promise<readonly WorkspaceEntry[]> {
    return this.#operate(signal, async () => this.#listing.entries);
  }

  async readFile(
    path: string,
    range: { readonly offset: number; readonly length: number },
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: Uint8Array; readonly size: number }> {
    return this.#operate(signal, async () => {
      const relative = parseWorkspacePath(path);
      const { size } = requireFile(this.#listing.entries, relative);
      const length = Math.max(0, Math.min(range.length, size - range.offset));
      if (length === 0) return { bytes: new Uint8Array(), size };
      const args = [toAbsolutePath(relative), String(range.offset + 1), String(length)];
      const read = await runHelper(this.#options.container, READ_SCRIPT, { args, maxOutputBytes: length });
      if (read.exitCode === NOT_REGULAR) throw new RunError("path_refused");
      if (read.stdout.byteLength !== length)
        throw new RunError("sandbox_failed", { message: "The file could not be read." });
      return { bytes: read.stdout, size };
    });
  }

  async writeFiles(
    files: readonly { readonly path: string; readonly bytes: Uint8Array; readonly executable?: boolean }[],
    signal?: AbortSignal,
  ): Promise<void> {
    await this.#operate(signal, async () => {
      const named = files.map((file) => ({ ...file, path: parseWorkspacePath(file.path) }));
      entriesAfterWrite(this.#listing.entries, named);
      for (const batch of toBatches(named)) {
        signal?.throwIfAborted();
        await this.#writeBatch(batch);
      }
    });
  }

  async destroy(): Promise<{ readonly confirmed: boolean }> {
    this.#removal ??= this.#remove();
    return this.#removal;
  }

  async #remove(): Promise<{ readonly confirmed: boolean }> {
    const { container, tether, clock, onEnded } = this.#options;
    const confirmed = await removeContainer(container, clock);
    tether.destroy();
    onEnded(confirmed);
    return { confirmed };
  }

  /** D1, D3, D4 for every operation. */
  async #operate<T>(signal: AbortSignal | undefined, operation: () => Promise<T>): Promise<T> {
    return this.#mutex.run(signal, async () => {
      if (this.#removal !== undefined) throw new RunError("sandbox_failed", { message: "The sandbox is gone." });
      try {
        return await operation();
      } catch (error) {
        const failure = signal?.aborted === true && error === signal.reason ? error : toFailed(error);
        const isBroken = failure instanceof RunError && failure.code === "sandbox_failed";
        if (isBroken) await this.destroy();
        // The abort's removal of the sandbox makes its operations fail: the abort is the cause to be told.
        if (isBroken && signal?.aborted === true) throw signal.reason;
        throw failure;
      }
    });
  }

  async #runCommand(argv: readonly string[], options: ExecOptions): Promise<ExecResult> {
    const { container, policy, clock } = this.#options;
    const { stdin, maxOutputBytes } = options;
    const startedAt = clock.monotonic();
    const command = await EngineExec.start(container, {
      command: toCommandLine(argv, policy),
      user: WORKLOAD_USER,
      directory: WORKSPACE_ROOT,
      maxOutputBytes,
      ...(stdin === undefined ? {} : { stdin }),
    });
    const ending = await this.#waitFor(command, options);
    const oomKillsBefore = this.#listing.oomKills;
    await this.#settle();
    const durationMs = clock.monotonic() - startedAt;
    const { exitCode, pid } = await awaitEnd(command);
    if (ending === "aborted") options.signal?.throwIfAborted();
    const isOutOfMemory = this.#listing.oomKills > oomKillsBefore && exitCode !== 0;
    const isStarted = pid !== 0 && (ending !== "exited" || (await this.#hasStarted(argv, exitCode)));
    const outcome = isStarted ? toOutcome({ ending, exceeded: command.output.exceeded, isOutOfMemory }) : "not_started";
    return {
      outcome,
      exitCode: outcome === "exited" ? exitCode : null,
      // What the runtime says of a process that it could not make is framed as the process's own output.
      stdout: pid === 0 ? new Uint8Array() : command.output.stdout,
      stderr: pid === 0 ? new Uint8Array() : command.output.stderr,
      truncated: !command.isWhole,
      durationMs,
    };
  }

  async #waitFor(command: EngineExec, options: ExecOptions): Promise<Ending> {
    const { signal, timeoutMs } = options;
    const timedOut = Promise.withResolvers<Ending>();
    const aborted = Promise.withResolvers<Ending>();
    const cancelTimer = this.#options.clock.after(timeoutMs, () => timedOut.resolve("timed_out"));
    const onAbort = (): void => aborted.resolve("aborted");
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted === true) onAbort();
    try {
      return await Promise.race([
        command.exit.then((): Ending => "exited"),
        command.exceeded.then((): Ending => "output_limit"),
        timedOut.promise,
        aborted.promise,
      ]);
    } finally {
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Restores D2: kills what is left of a command, and lists.
   *
   * Right after a fork bomb a helper may find no room for its own processes until the dead ones are reaped.
   */
  async #settle(): Promise<void> {
    const { clock } = this.#options;
    const endsAt = clock.monotonic() + SETTLE_MS;
    for (let attempt = 1; attempt <= SETTLE_ATTEMPTS; attempt += 1) {
      const timeoutMs = endsAt - clock.monotonic();
      if (timeoutMs <= 0) break;
      const listing = await this.#tryToSettle(timeoutMs);
      if (listing !== undefined) {
        this.#listing = listing;
        return;
      }
      if (this.#removal !== undefined) break;
      if (attempt === ATTEMPTS_BEFORE_ROOM) await this.#makeRoom();
      await delay(50 * attempt);
    }
    throw new RunError("sandbox_failed", {
      message: "The command's processes could not be ended; the sandbox was removed.",
    });
  }

  /** @returns undefined where it may work at the next attempt. @throws What the engine says of a container that is gone. */
  async #tryToSettle(timeoutMs: number): Promise<Listing | undefined> {
    try {
      const options = { maxOutputBytes: MAX_LISTING_BYTES, timeoutMs };
      return toListing(await runHelper(this.#options.container, SETTLE_SCRIPT, options));
    } catch (error) {
      if (isContainerGone(error)) throw error;
      return undefined;
    }
  }

  /** Newer runtimes count the process of an exec against the limit that a fork bomb has used up. */
  async #makeRoom(): Promise<void> {
    if (this.#hasMoreRoom) return;
    this.#hasMoreRoom = true;
    const { container, pidsLimit } = this.#options;
    await withDeadline(() => container.update({ PidsLimit: pidsLimit + 32 })).catch(() => undefined);
  }

  async #hasStarted(argv: readonly string[], exitCode: number): Promise<boolean> {
    // What `env` says of a program that it cannot find or run; a program may end with the same codes.
    if (exitCode !== 126 && exitCode !== 127) return true;
    const args = [argv[0] ?? "", searchPath(this.#options.policy)];
    const found = await runHelper(this.#options.container, RUNNABLE_SCRIPT, {
      args,
      maxOutputBytes: 1_000,
      directory: WORKSPACE_ROOT,
    });
    return found.exitCode === 0;
  }

  async #writeBatch(files: readonly WrittenFile[]): Promise<void> {
    const existing = new Set(this.#listing.entries.map((entry) => entry.path));
    const archive: ArchiveFile[] = [];
    const fresh: string[] = [];
    const replaced: string[] = [];
    for (const { path, bytes, executable = false } of files) {
      const isReplaced = existing.has(path);
      const target = isReplaced ? `.write-${randomUUID()}` : path;
      archive.push({ path: target, bytes, executable });
      if (isReplaced) replaced.push(target, path);
      else fresh.push(path);
    }
    const written = await runHelper(this.#options.container, WRITE_SCRIPT, {
      args: [...fresh, "//", ...replaced],
      stdin: buildArchive(archive, Math.floor(this.#options.clock.now() / 1_000)),
      maxOutputBytes: MAX_LISTING_BYTES,
    });
    const listing = toListing(written);
    if (listing !== undefined) {
      this.#listing = listing;
      return;
    }
    await this.#settle();
    if (written.exitCode === NOT_WRITTEN)
      throw new RunError("workspace_full", { message: "The workspace has no room for the files." });
    throw new RunError("sandbox_failed", { message: "The files could not be written." });
  }
}

type WrittenFile = Parameters<Sandbox["writeFiles"]>[0][number];

function toOutcome(facts: {
  readonly ending: Ending;
  readonly exceeded: boolean;
  readonly isOutOfMemory: boolean;
}): ExecResult["outcome"] {
  if (facts.ending === "timed_out") return "timed_out";
  if (facts.exceeded) return "output_limit";
  return facts.isOutOfMemory ? "out_of_memory" : "exited";
}
