import type Docker from "dockerode";
import { WORKLOAD_USER } from "./create-body.ts";
import { withDeadline } from "./engine.ts";
import { EngineExec, type ExecExit } from "./engine-exec.ts";
import { type Listing, parseListing } from "./scripts.ts";

/** A helper's own work may not last longer: it moves at most the workspace. */
const HELPER_TIMEOUT_MS = 60_000;
/** The streams of a process that has ended, and has no children, end at once. */
const DRAIN_MS = 4_000;

/** What a helper works on and may say. */
export interface HelperOptions {
  /** `$1` and on. */
  readonly args?: readonly string[];
  readonly stdin?: Uint8Array;
  readonly maxOutputBytes: number;
  /** Default `/`: a command may have locked the workspace. */
  readonly directory?: string;
  /** Default 60,000. */
  readonly timeoutMs?: number;
}

/** What a helper came to. */
export interface HelperResult {
  /** -1: the script never ran, or what it said did not come whole. */
  readonly exitCode: number;
  readonly stdout: Uint8Array;
}

/**
 * Runs a script of ours as the workload user, and waits for all of its output.
 *
 * @throws What the engine throws.
 */
export async function runHelper(
  container: Docker.Container,
  script: string,
  options: HelperOptions,
): Promise<HelperResult> {
  const helper = await EngineExec.start(container, {
    command: ["sh", "-c", script, "sh", ...(options.args ?? [])],
    user: WORKLOAD_USER,
    directory: options.directory ?? "/",
    maxOutputBytes: options.maxOutputBytes,
    ...(options.stdin === undefined ? {} : { stdin: options.stdin }),
  });
  const { exitCode, pid } = await awaitEnd(helper, options.timeoutMs);
  return { exitCode: pid !== 0 && helper.isWhole ? exitCode : -1, stdout: helper.output.stdout };
}

/** Waits for a process that ends by itself or was killed, and for the rest of its output. */
export async function awaitEnd(process: EngineExec, timeoutMs: number = HELPER_TIMEOUT_MS): Promise<ExecExit> {
  const exit = await withDeadline(() => process.exit, { timeoutMs });
  await withDeadline(() => process.drained, { timeoutMs: DRAIN_MS });
  return exit;
}

/** The listing that a script printed; undefined where it failed. */
export function toListing(result: HelperResult): Listing | undefined {
  return result.exitCode === 0 ? parseListing(result.stdout) : undefined;
}
