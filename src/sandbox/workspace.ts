import { createHash } from "node:crypto";
import type { WorkspacePolicy } from "../shared/contracts/policy.ts";
import { ERROR_TABLE, type ReceiptCode, RunError } from "../shared/errors.ts";
import { checkArgv } from "./argv.ts";
import type { ExecResult, Sandbox, WorkspaceEntry } from "./backend.ts";
import { decodeExactly, decodeLossy, trimToCharacter } from "./text.ts";
import { parseWorkspacePath, toAbsolutePath } from "./workspace-path.ts";
import { entriesAfterWrite, findBreach, findSizeBreach, type PolicyBreach } from "./workspace-rules.ts";

/** Bytes that a read brings where the caller names no length. */
const DEFAULT_READ_BYTES = 100_000;
/** What a shell reports of a program that the file size limit killed (128 + SIGXFSZ). */
const FILE_SIZE_EXIT_CODE = 153;

/** JSON for the model. */
type Facts = Readonly<Record<string, unknown>>;

/** What a workspace operation came to. A failure is a value: the model is told, the run goes on. */
export type WorkspaceOutcome =
  | { readonly ok: true; readonly value: Facts }
  | { readonly ok: false; readonly code: ReceiptCode; readonly message: string; readonly value?: Facts };

/** A file that is laid into the workspace before the model sees it. */
export interface StagedFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly executable: boolean;
  /** `sha256:<hex>` of the bytes. */
  readonly digest: string;
}

/** Arguments of `workspace.read@1`. */
export interface ReadArguments {
  readonly path: string;
  /** First byte. Default 0. */
  readonly offset?: number;
  /** Bytes at most. Default 100,000; never more than the policy's `maxFileBytes`. */
  readonly length?: number;
}

/** Arguments of `workspace.write@1`. */
export interface WriteArguments {
  readonly path: string;
  readonly content: string;
  /** How `content` is to be understood. Default `utf8`. */
  readonly encoding?: "utf8" | "base64";
}

/** Arguments of `workspace.execute_command@1`. */
export interface ExecuteArguments {
  readonly argv: readonly string[];
  /** Text for the program's standard input; it is closed after it. */
  readonly stdin?: string;
  /** At most the policy's `commandTimeoutMs`, which is also the default. */
  readonly timeoutMs?: number;
}

/**
 * The workspace of one run: four operations over a sandbox, held to the policy exactly, the same on every backend.
 *
 * Operations throw only where the sandbox itself broke (`sandbox_failed`) or the signal aborted (`signal.reason`).
 */
export class Workspace {
  readonly #sandbox: Sandbox;
  readonly #policy: WorkspacePolicy;

  constructor(options: { readonly sandbox: Sandbox; readonly policy: WorkspacePolicy }) {
    this.#sandbox = options.sandbox;
    this.#policy = options.policy;
  }

  /**
   * Writes a skill's files and has the sandbox verify every digest by its own `sha256sum`, where it runs commands.
   *
   * @throws {RunError} `skill_invalid`: they do not fit the policy, nothing was written. `sandbox_failed`: what arrived
   *   is not what was sent.
   */
  async stage(files: readonly StagedFile[], signal: AbortSignal): Promise<void> {
    if (files.length === 0) return;
    const named = this.#fitting(files, await this.#sandbox.list(signal));
    await this.#sandbox.writeFiles(named, signal);
    if (!this.#sandbox.executesCommands) return;
    const manifest = named.map((file) => `${file.digest.replace(/^sha256:/u, "")}  ${file.path}\n`).join("");
    const verified = await this.#sandbox.exec(["sha256sum", "-c"], {
      stdin: Buffer.from(manifest),
      timeoutMs: 60_000,
      maxOutputBytes: Buffer.byteLength(manifest) + 10_000,
      signal,
    });
    if (verified.outcome === "exited" && verified.exitCode === 0) return;
    throw new RunError("sandbox_failed", { message: "The staged files did not arrive as they were sent." });
  }

  #fitting(files: readonly StagedFile[], before: readonly WorkspaceEntry[]): readonly StagedFile[] {
    const named = files.map((file) => ({ ...file, path: parseWorkspacePath(file.path) }));
    const breach = findSizeBreach(entriesAfterWrite(before, named), this.#policy);
    if (breach === undefined) return named;
    throw new RunError("skill_invalid", {
      message: `The skill's files do not fit the workspace policy. With them: ${breach.message}`,
      details: { code: breach.code },
    });
  }

  /** @returns `files: [{path, bytes}]` in path order, `totalBytes`, and `refused` paths that are no regular files. */
  async list(signal: AbortSignal): Promise<WorkspaceOutcome> {
    return settle(async () => {
      const entries = (await this.#sandbox.list(signal)).toSorted((a, b) => (a.path < b.path ? -1 : 1));
      const files = entries.filter((entry) => entry.kind === "file");
      const refused = entries.filter((entry) => entry.kind === "special").map((entry) => toAbsolutePath(entry.path));
      return {
        files: files.map((file) => ({ path: toAbsolutePath(file.path), bytes: file.size })),
        totalBytes: files.reduce((sum, file) => sum + file.size, 0),
        ...(refused.length === 0 ? {} : { refused }),
      };
    });
  }

  /**
   * Reads a file or a range of it, as text where it is UTF-8 (a character cut by the range's end is left for
   * the next read), else as base64: `encoding` says which.
   *
   * @returns `path`, `encoding`, `content`, `offset`, `length` (bytes given), `size` (of the file), `truncated`
   *   (there is more after it), `digest` of the bytes given.
   */
  async read(args: ReadArguments, signal: AbortSignal): Promise<WorkspaceOutcome> {
    return settle(async () => {
      const path = parseWorkspacePath(args.path);
      const offset = args.offset ?? 0;
      const length = Math.min(args.length ?? DEFAULT_READ_BYTES, this.#policy.maxFileBytes);
      const { bytes: read, size } = await this.#sandbox.readFile(path, { offset, length }, signal);
      const trimmed = offset + read.byteLength < size ? trimToCharacter(read) : read;
      const text = trimmed.byteLength === 0 ? undefined : decodeExactly(trimmed);
      const bytes = text === undefined ? read : trimmed;
      const isText = text !== undefined || bytes.byteLength === 0;
      return {
        path: toAbsolutePath(path),
        encoding: isText ? "utf8" : "base64",
        content: isText ? (text ?? "") : Buffer.from(bytes).toString("base64"),
        offset,
        length: bytes.byteLength,
        size,
        truncated: offset + bytes.byteLength < size,
        digest: digestOf(bytes),
      };
    });
  }

  /**
   * Writes a whole file, atomically, making its directories. What would break the policy writes nothing.
   *
   * @returns `path`, `bytes`, `digest`, `created` (there was no such file).
   */
  async write(args: WriteArguments, signal: AbortSignal): Promise<WorkspaceOutcome> {
    return settle(async () => {
      const path = parseWorkspacePath(args.path);
      const bytes = decodeContent(args);
      const before = await this.#sandbox.list(signal);
      const breach = findSizeBreach(entriesAfterWrite(before, [{ path, bytes }]), this.#policy);
      if (breach !== undefined) return wouldBreak(breach);
      await this.#sandbox.writeFiles([{ path, bytes }], signal);
      const created = !before.some((entry) => entry.path === path);
      return { path: toAbsolutePath(path), bytes: bytes.byteLength, digest: digestOf(bytes), created };
    });
  }

  /**
   * Runs a program by its exact argument vector, and holds the workspace against the policy afterwards.
   *
   * @returns `exitCode`, `outcome`, `stdout`, `stderr`, `durationMs`, `truncated`. A program that ends by itself is
   *   a success, whatever its exit code; one that was killed, did not start, or left the workspace outside its
   *   policy is a failure with the same facts. The workspace stays usable.
   */
  async execute(args: ExecuteArguments, signal: AbortSignal): Promise<WorkspaceOutcome> {
    if (!this.#sandbox.executesCommands) {
      return {
        ok: false,
        code: "tool_failed",
        message: "This worker's sandbox runs no commands. Reading and writing files works.",
      };
    }
    return settle(async () => {
      checkArgv(args.argv, this.#policy.environment);
      const result = await this.#sandbox.exec(args.argv, {
        ...(args.stdin === undefined ? {} : { stdin: Buffer.from(args.stdin) }),
        timeoutMs: Math.min(args.timeoutMs ?? this.#policy.commandTimeoutMs, this.#policy.commandTimeoutMs),
        maxOutputBytes: this.#policy.maxCommandOutputBytes,
        signal,
      });
      const value = toFacts(result);
      const breach = this.#failureOf(result, args.argv) ?? findBreach(await this.#sandbox.list(signal), this.#policy);
      if (breach === undefined) return value;
      return { ok: false, code: breach.code, message: breach.message, value };
    });
  }

  #failureOf(result: ExecResult, argv: readonly string[]): PolicyBreach | undefined {
    switch (result.outcome) {
      case "exited":
        if (result.exitCode !== FILE_SIZE_EXIT_CODE) return undefined;
        return {
          code: "file_too_large",
          message: `The program was killed: a file may have ${this.#policy.maxFileBytes} bytes.`,
        };
      case "not_started": {
        const program = JSON.stringify(argv[0]?.slice(0, 200));
        return {
          code: "tool_failed",
          message: `The program ${program} does not exist in the sandbox, or cannot be run.`,
        };
      }
      case "timed_out":
        return { code: "command_timeout", message: ERROR_TABLE.command_timeout.message };
      case "output_limit":
        return { code: "output_limit", message: ERROR_TABLE.output_limit.message };
      case "out_of_memory":
        return { code: "out_of_memory", message: ERROR_TABLE.out_of_memory.message };
      default:
        return result.outcome satisfies never;
    }
  }
}

function toFacts(result: ExecResult): Facts {
  return {
    exitCode: result.exitCode,
    outcome: result.outcome,
    stdout: decodeLossy(result.stdout, { cut: result.truncated }),
    stderr: decodeLossy(result.stderr, { cut: result.truncated }),
    durationMs: Math.round(result.durationMs),
    truncated: result.truncated,
  };
}

/** Makes a failed outcome of what is the caller's doing, and lets everything else through. */
async function settle(operation: () => Promise<Facts | WorkspaceOutcome>): Promise<WorkspaceOutcome> {
  try {
    const value = await operation();
    return isOutcome(value) ? value : { ok: true, value };
  } catch (error) {
    if (error instanceof RunError && isReceiptCode(error.code)) {
      return { ok: false, code: error.code, message: error.message };
    }
    throw error;
  }
}

function isOutcome(value: Facts | WorkspaceOutcome): value is WorkspaceOutcome {
  return typeof value["ok"] === "boolean";
}

function isReceiptCode(code: RunError["code"]): code is ReceiptCode {
  return ERROR_TABLE[code].outcome === "receipt";
}

function wouldBreak(breach: PolicyBreach): WorkspaceOutcome {
  return { ok: false, code: breach.code, message: `Nothing was written. With it: ${breach.message}` };
}

function decodeContent({ content, encoding = "utf8" }: WriteArguments): Uint8Array {
  if (encoding === "utf8") {
    if (!content.isWellFormed())
      throw new RunError("invalid_arguments", { message: "content is not well-formed Unicode." });
    return Buffer.from(content);
  }
  const bytes = Buffer.from(content, "base64");
  if (bytes.toString("base64") !== content)
    throw new RunError("invalid_arguments", { message: "content is not base64." });
  return bytes;
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}
