import type { Duplex } from "node:stream";
import type Docker from "dockerode";
import { withDeadline } from "./engine.ts";
import { OutputCollector } from "./output.ts";

/** A process to be started in a container. */
export interface ExecSpec {
  /** Exact vector; its first entry is looked up by the runtime. */
  readonly command: readonly string[];
  readonly user: string;
  readonly directory: string;
  /** Absent: at its end from the start. */
  readonly stdin?: Uint8Array;
  /** Of both outputs together. */
  readonly maxOutputBytes: number;
}

/** How a process ended, as the engine tells it. `pid` 0: it never ran. */
export interface ExecExit {
  readonly exitCode: number;
  readonly pid: number;
}

const FIRST_POLL_MS = 20;
const SLOWEST_POLL_MS = 200;

/**
 * One process in a container, from its start to the end of its streams.
 *
 * X1 The stream is read to its end whatever happens: one that is not read wedges the whole container.
 * X2 Whether the process has ended is asked of the engine; the end of the stream is a hint to ask at once.
 * X3 Whether the output is complete only the end of the stream tells.
 */
export class EngineExec {
  readonly output: OutputCollector;
  /** Resolves at the first byte of output too many; never otherwise. */
  readonly exceeded: Promise<void>;
  /** Resolves when the process has ended. Rejects where the engine cannot tell (the container is gone). */
  readonly exit: Promise<ExecExit>;
  /** Resolves when the stream has ended, well or not. */
  readonly drained: Promise<void>;
  readonly #exec: Docker.Exec;
  #hasEnded = false;

  private constructor(exec: Docker.Exec, stream: Duplex, spec: ExecSpec) {
    const exceeded = Promise.withResolvers<void>();
    const drained = Promise.withResolvers<void>();
    this.#exec = exec;
    this.exceeded = exceeded.promise;
    this.drained = drained.promise;
    this.output = new OutputCollector({ maxBytes: spec.maxOutputBytes, onExceeded: () => exceeded.resolve() });
    stream.on("data", (chunk: Uint8Array) => this.output.push(chunk));
    stream.on("end", () => {
      this.#hasEnded = true;
      drained.resolve();
    });
    stream.on("close", () => drained.resolve());
    stream.on("error", () => drained.resolve());
    if (spec.stdin !== undefined) stream.end(spec.stdin);
    this.exit = this.#pollExit();
    this.exit.catch(() => undefined);
  }

  /**
   * Whether `output` is all that there was, once the stream is drained: it was not over its limit, and the connection
   * did not break. A process that leaves its stdin unread breaks it too, but after the end.
   */
  get isWhole(): boolean {
    return this.#hasEnded && !this.output.exceeded;
  }

  /** @throws What the engine throws. */
  static async start(container: Docker.Container, spec: ExecSpec): Promise<EngineExec> {
    const hasStdin = spec.stdin !== undefined;
    const exec = await withDeadline((abortSignal) =>
      container.exec({
        Cmd: [...spec.command],
        User: spec.user,
        WorkingDir: spec.directory,
        AttachStdin: hasStdin,
        AttachStdout: true,
        AttachStderr: true,
        Tty: false,
        abortSignal,
      }),
    );
    const stream = await withDeadline(() => exec.start({ hijack: true, stdin: hasStdin }), {
      tooLate: (late) => late.destroy(),
    });
    return new EngineExec(exec, stream, spec);
  }

  async #pollExit(): Promise<ExecExit> {
    let waitMs = FIRST_POLL_MS;
    let isDrained = false;
    const drained = this.drained.then(() => {
      isDrained = true;
    });
    for (;;) {
      const state = await withDeadline((abortSignal) => this.#exec.inspect({ abortSignal }));
      if (!state.Running && state.ExitCode !== null) return { exitCode: state.ExitCode, pid: state.Pid };
      await (isDrained ? delay(FIRST_POLL_MS) : Promise.race([drained, delay(waitMs)]));
      waitMs = Math.min(SLOWEST_POLL_MS, waitMs * 1.5);
    }
  }
}

/** Waits, for polls and for retries only. */
export async function delay(ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, ms);
  });
}
