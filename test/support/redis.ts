import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis, type RedisOptions } from "ioredis";
import { auditRuns } from "./audit.ts";

/**
 * A real Redis for one test: its own `redis-server` on a free loopback port.
 *
 *     await using redis = await startRedis();
 *
 * At the end of the scope every run stream in it is audited against the contract (see `audit.ts`),
 * then the server is killed. It never outlives the test process.
 */

const HOST = "127.0.0.1";
const START_TIMEOUT_MS = 10_000;
const MAX_PORT_TRIES = 5;

/** Replies keep the shapes of RESP2, whatever is asked for. */
export type ClientOptions = Omit<RedisOptions, "replyMapping">;

export interface StartRedisOptions {
  /** Keep every write in an append-only file, so that `restart` brings it back. Default: nothing is kept. */
  readonly appendonly?: boolean;
  /** Default: a free one. */
  readonly port?: number;
  /** Default: a temporary one, removed at the end. */
  readonly dir?: string;
  /** `false` for tests that write what breaks the contract. Default: true. */
  readonly audit?: boolean;
  /** More arguments of `redis-server`, such as `["--maxclients", "5000"]`. */
  readonly args?: readonly string[];
}

export interface TestRedis extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly dir: string;
  /** Of the server that runs now. */
  readonly pid: number;
  /** A connection that is closed with the server. */
  client(options?: ClientOptions): Redis;
  /** Stops the server's process without ending it (SIGSTOP): connections stay, nothing answers. */
  pause(): void;
  resume(): void;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Kills it where it still runs and starts it again on the same port and directory. */
  restart(): Promise<void>;
  /** Throws an Error that lists what breaks the contract. Runs by itself at the end. */
  audit(): Promise<void>;
}

const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts a Redis and waits until it answers. */
export async function startRedis(options: StartRedisOptions = {}): Promise<TestRedis> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), "skilldock-redis-"));
  const removeDirectory = (): void => {
    if (options.dir === undefined) rmSync(dir, { recursive: true, force: true });
  };
  const { child, port } = await startOnFreePort(dir, options).catch((error: unknown) => {
    removeDirectory();
    throw error;
  });
  const clients = new Set<Redis>();
  let server = child;

  function client(clientOptions: ClientOptions = {}): Redis {
    const redis = connect(port, clientOptions);
    clients.add(redis);
    redis.once("end", () => clients.delete(redis));
    return redis;
  }

  async function audit(): Promise<void> {
    await using probe = disposable(connect(port, {}));
    await auditRuns(probe.redis);
  }

  return {
    url: `redis://${HOST}:${port}`,
    host: HOST,
    port,
    dir,
    get pid() {
      return server.pid ?? 0;
    },
    client,
    pause: () => void server.kill("SIGSTOP"),
    resume: () => void server.kill("SIGCONT"),
    kill: () => killServer(server),
    async restart() {
      await killServer(server);
      server = await startServer(port, dir, options);
    },
    audit,
    async [Symbol.asyncDispose]() {
      try {
        server.kill("SIGCONT");
        if (options.audit !== false && isAlive(server)) await audit();
      } finally {
        for (const redis of clients) redis.disconnect();
        await killServer(server);
        removeDirectory();
      }
    },
  };
}

async function startOnFreePort(
  dir: string,
  options: StartRedisOptions,
): Promise<{ child: ChildProcess; port: number }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = options.port ?? (await findFreePort());
    try {
      return { child: await startServer(port, dir, options), port };
    } catch (error) {
      // Between the look for a free port and the start somebody else may have taken it.
      if (options.port !== undefined || attempt === MAX_PORT_TRIES) throw error;
    }
  }
}

async function startServer(port: number, dir: string, options: StartRedisOptions): Promise<ChildProcess> {
  const args = [
    ["--bind", HOST, "--port", String(port), "--dir", dir],
    ["--save", "", "--appendonly", options.appendonly === true ? "yes" : "no"],
    ["--maxmemory-policy", "noeviction", "--loglevel", "warning", "--daemonize", "no"],
    options.args ?? [],
  ].flat();
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  const watchdog = killWithUs(child, options.dir === undefined ? dir : undefined);
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const gone = new Promise<never>((_resolve, reject) => {
    child.once("error", (error) => reject(new Error(`redis-server cannot be started: ${error.message}`)));
    child.once("exit", (code) => {
      children.delete(child);
      watchdog?.kill("SIGKILL");
      reject(new Error(`redis-server ended with code ${code}: ${output}`));
    });
  });
  gone.catch(() => undefined);
  try {
    await Promise.race([waitUntilItAnswers(port, child), gone]);
    return child;
  } catch (error) {
    await killServer(child);
    throw error;
  }
}

/**
 * A killed test process runs no code of its own any more, but its end of a pipe closes: a shell that waits at the other
 * end kills the server then, and removes its directory.
 */
function killWithUs(child: ChildProcess, temporary: string | undefined): ChildProcess | undefined {
  if (child.pid === undefined) return undefined;
  const script = 'read -r _; kill -9 "$1"; [ -z "$2" ] || rm -rf "$2"';
  const watchdog = spawn("sh", ["-c", script, "sh", String(child.pid), temporary ?? ""], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchdog.on("error", () => undefined);
  watchdog.unref();
  return watchdog;
}

/** It must be our server that answers, not another one that took the port. */
async function waitUntilItAnswers(port: number, child: ChildProcess): Promise<void> {
  await using probe = disposable(connect(port, { retryStrategy: () => 10 }));
  const signal = AbortSignal.timeout(START_TIMEOUT_MS);
  while (!signal.aborted && isAlive(child)) {
    try {
      const info = await probe.redis.info();
      if (info.includes("loading:1")) continue;
      if (info.includes(`process_id:${child.pid}\r`)) return;
      throw new Error(`port ${port} belongs to another server`);
    } catch (error) {
      if (error instanceof Error && error.message.includes("belongs to another")) throw error;
    }
  }
  throw new Error(`redis-server on port ${port} did not answer in ${START_TIMEOUT_MS} ms`);
}

function connect(port: number, options: ClientOptions): Redis {
  const all: ClientOptions = { retryStrategy: () => 50, ...options, port, host: HOST };
  const redis = new Redis(all);
  // Without a listener ioredis prints every refused connection.
  redis.on("error", () => undefined);
  return redis;
}

function disposable(redis: Redis): AsyncDisposable & { readonly redis: Redis } {
  return { redis, [Symbol.asyncDispose]: async () => redis.disconnect() };
}

function isAlive(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

async function killServer(child: ChildProcess): Promise<void> {
  if (!isAlive(child)) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}

/** A loopback port that nobody listened on a moment ago. */
export async function findFreePort(): Promise<number> {
  const server = createServer();
  server.listen(0, HOST);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port was given");
  return address.port;
}
