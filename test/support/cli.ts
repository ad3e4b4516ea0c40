import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The command `skilldock`, as processes of their own. None outlives the test process. */

const ROOT = join(import.meta.dirname, "..", "..");
export const SKILLDOCK: string = join(ROOT, "bin", "skilldock");
export const FIXTURES: string = join(ROOT, "test", "fixtures", "cli");
export const CONFIG: string = join(FIXTURES, "skilldock.yaml");
export const SKILLS: string = join(FIXTURES, "skills");

/** No process of a test lives longer. */
const BOUND_MS = 600_000;

export interface CliOptions {
  /** Written to stdin, which is closed then. Default: nothing. */
  readonly input?: string | Buffer;
  /** Over a bare environment: PATH, HOME and no colour settings. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: an empty directory. */
  readonly cwd?: string;
}

export interface CliEnd {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves when `pattern` stands in what both streams have said so far; rejects when the process ends without it. */
  readonly says: (pattern: RegExp) => Promise<void>;
  readonly end: Promise<CliEnd>;
}

/** A directory that has no `skilldock.yaml`. */
const WITHOUT_CONFIGURATION = tmpdir();

const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts `program` with the bare environment of a test. */
export function startProgram(program: string, argv: readonly string[], options: CliOptions = {}): CliProcess {
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: process.env["HOME"] ?? "",
    TERM: "xterm",
    ...dockerHost(),
    ...options.env,
  };
  const child = spawn(program, argv, {
    cwd: options.cwd ?? WITHOUT_CONFIGURATION,
    env,
    stdio: ["pipe", "pipe", "pipe"],
  });
  children.add(child);
  child.stdin.on("error", () => undefined);
  child.stdin.end(options.input ?? "");
  let stdout = "";
  let stderr = "";
  const heard = new Set<() => void>();
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    stdout += chunk;
    for (const listener of heard) listener();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
    for (const listener of heard) listener();
  });
  const bound = setTimeout(() => child.kill("SIGKILL"), BOUND_MS);
  const end = once(child, "close").then(([status]) => {
    clearTimeout(bound);
    children.delete(child);
    for (const listener of heard) listener();
    return { status: status as number | null, stdout, stderr }; // the event's first argument
  });
  return {
    child,
    stdout: () => stdout,
    stderr: () => stderr,
    end,
    says(pattern) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const listener = (): void => {
        if (pattern.test(stdout + stderr)) resolve();
        else if (!children.has(child)) reject(new Error(`ended without ${String(pattern)}:\n${stdout}\n${stderr}`));
      };
      heard.add(listener);
      listener();
      return promise.finally(() => heard.delete(listener));
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await end;
    },
  };
}

function dockerHost(): Readonly<Record<string, string>> {
  const host = process.env["DOCKER_HOST"];
  return host === undefined ? {} : { DOCKER_HOST: host };
}

/** Starts the command. */
export function startCli(argv: readonly string[], options: CliOptions = {}): CliProcess {
  return startProgram(SKILLDOCK, argv, options);
}

/** Runs the command to its end. */
export async function runCli(argv: readonly string[], options: CliOptions = {}): Promise<CliEnd> {
  return startCli(argv, options).end;
}

export interface CliWorker extends AsyncDisposable {
  readonly process: CliProcess;
  readonly metricsPort: number;
}

/** Starts `skilldock worker` on the fixtures and waits until it is ready. Disposing it stops it by SIGTERM. */
export async function startCliWorker(redisUrl: string, argv: readonly string[] = []): Promise<CliWorker> {
  const own = ["--config", CONFIG, "--skills", SKILLS, "--metrics-port", "0", "--json", "--log-level", "warn"];
  const worker = startCli(["worker", ...own, ...argv], { env: { REDIS_URL: redisUrl } });
  const { stdout } = worker.child;
  if (stdout === null) throw new Error("no stdout");
  const line = await Promise.race([once(createInterface({ input: stdout }), "line"), worker.end]);
  if (!Array.isArray(line)) throw new Error(`the worker did not start: ${worker.stdout()} ${worker.stderr()}`);
  const ready = JSON.parse(String(line[0])) as { readonly metricsPort?: number }; // what the command promises
  if (ready.metricsPort === undefined) throw new Error(`the worker did not start: ${String(line[0])}`);
  return {
    process: worker,
    metricsPort: ready.metricsPort,
    async [Symbol.asyncDispose]() {
      worker.child.kill("SIGTERM");
      await worker.end;
    },
  };
}

/** Parses the one JSON object that `--json` prints: a single line and nothing else. */
export function onlyObject(stdout: string): Readonly<Record<string, unknown>> {
  const lines = stdout.split("\n");
  if (lines.length !== 2 || lines[1] !== "") throw new Error(`not one line: ${stdout}`);
  return JSON.parse(lines[0] ?? "") as Record<string, unknown>; // an object is asked for
}
