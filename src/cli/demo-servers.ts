import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { closeRedis, connectRedis } from "../shared/redis/connection.ts";
import { RunError } from "../shared/errors.ts";
import type { Environment } from "./terminal.ts";

/** The processes that the demonstration starts for itself, and ends by itself. */

const HOST = "127.0.0.1";
const REDIS_START_MS = 10_000;
const STOP_MS = 15_000;
const KEPT_STDERR = 4_000;

/** A process of ours. Disposing it asks it to end, and makes it end after 15 s. */
interface OwnProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The end of what it wrote to stderr. */
  readonly stderr: () => string;
}

export interface DemoRedis extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
}

export interface DemoWorker extends AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  readonly metricsPort: number;
  readonly skills: readonly string[];
}

/**
 * Starts a Redis on a free loopback port, which keeps nothing.
 *
 * @throws {RunError} `redis_unavailable`: no `redis-server` here, or it does not come up.
 */
export async function startDemoRedis(environment: Environment): Promise<DemoRedis> {
  const port = await findFreePort();
  const directory = mkdtempSync(join(tmpdir(), "skilldock-demo-"));
  const argv = ["--bind", HOST, "--port", String(port), "--dir", directory, "--save", "", "--appendonly", "no"];
  const own = startProcess(
    "redis-server",
    [...argv, "--maxmemory-policy", "noeviction", "--loglevel", "warning"],
    environment,
  );
  const redis: DemoRedis = {
    url: `redis://${HOST}:${port}`,
    pid: own.pid,
    async [Symbol.asyncDispose]() {
      await own[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  try {
    if (own.pid === 0)
      throw new RunError("redis_unavailable", {
        message: "redis-server is not installed. Run bin/setup, or set REDIS_URL.",
      });
    const probe = await connectRedis(redis.url, {
      role: "request",
      name: "skilldock-demo",
      connectTimeoutMs: REDIS_START_MS,
    });
    await closeRedis(probe);
    return redis;
  } catch (error) {
    await redis[Symbol.asyncDispose]();
    throw error;
  }
}

export interface DemoWorkerOptions {
  /** The command and its first arguments that run `skilldock`. */
  readonly command: readonly [string, ...string[]];
  readonly argv: readonly string[];
  readonly environment: Environment;
  readonly signal: AbortSignal;
}

/**
 * Starts `skilldock worker --json` as a process of its own and waits until it is ready.
 *
 * @throws {RunError} What the worker said before it ended.
 */
export async function startDemoWorker(options: DemoWorkerOptions): Promise<DemoWorker> {
  const [program, ...first] = options.command;
  const own = startProcess(program, [...first, "worker", "--json", ...options.argv], options.environment);
  try {
    const line = await firstLine(own, options.signal);
    const ready = JSON.parse(line) as ReadyLine; // written by our own command
    if (ready.error !== undefined) throw new RunError(ready.error.code, ready.error);
    if (ready.worker === undefined)
      throw new RunError("internal", { message: "The worker did not say that it is ready." });
    return {
      name: ready.worker,
      pid: own.pid,
      metricsPort: ready.metricsPort ?? 0,
      skills: ready.skills ?? [],
      [Symbol.asyncDispose]: () => own[Symbol.asyncDispose](),
    };
  } catch (error) {
    await own[Symbol.asyncDispose]();
    throw error;
  }
}

interface ReadyLine {
  readonly worker?: string;
  readonly metricsPort?: number;
  readonly skills?: readonly string[];
  readonly error?: { readonly code: RunError["code"]; readonly message: string };
}

async function firstLine(own: OwnProcess, signal: AbortSignal): Promise<string> {
  const { stdout } = own.child;
  if (stdout === null) throw new RunError("internal");
  const { promise: given, resolve } = Promise.withResolvers<string | undefined>();
  createInterface({ input: stdout })
    .once("line", resolve)
    .once("close", () => resolve(undefined));
  const onAbort = (): void => resolve(undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  const line = await given;
  signal.removeEventListener("abort", onAbort);
  if (line !== undefined) return line;
  throw new RunError("internal", { message: `The worker did not start. ${own.stderr().trim()}` });
}

function startProcess(program: string, argv: readonly string[], environment: Environment): OwnProcess {
  // Its own process group: Ctrl-C reaches the demonstration alone, which then ends what it has started, in order.
  const child = spawn(program, argv, { stdio: ["ignore", "pipe", "pipe"], detached: true, env: { ...environment } });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-KEPT_STDERR)));
  child.stdout.resume();
  child.once("error", (error) => (stderr += error.message));
  return { child, pid: child.pid ?? 0, stderr: () => stderr, [Symbol.asyncDispose]: () => stopProcess(child) };
}

async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  await exited;
  clearTimeout(timer);
}

async function findFreePort(): Promise<number> {
  const server = createServer();
  server.listen(0, HOST);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new RunError("internal");
  return address.port;
}
