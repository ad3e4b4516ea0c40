import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

/** Both ends of a process that is measured: the one that starts it, and the one that runs in it. */

export interface Peer<Ready = undefined> extends AsyncDisposable {
  readonly pid: number;
  /** What it said when it was ready. */
  readonly ready: Ready;
  /** Has it do one thing. @throws What that failed with. */
  call<Reply>(command: object): Promise<Reply>;
}

type Message = { readonly value: unknown } | { readonly failure: string };

const CLOCK_TICK_MS = 10;

/**
 * Starts a process from a file beside this one and waits until it is ready. It ends with its scope, and with us.
 *
 * @param options.nodeArgs More arguments of node, such as `--cpu-prof`.
 */
export async function startPeer<Ready = undefined>(
  file: URL,
  options: object,
  nodeArgs: readonly string[] = [],
): Promise<Peer<Ready>> {
  const child = fork(fileURLToPath(file), [JSON.stringify(options)], {
    execArgv: ["--conditions=skilldock-source", ...nodeArgs, ...profileArgs(file)],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const ready = await reply<Ready>(child);
  return {
    pid: child.pid ?? 0,
    ready,
    call(command) {
      child.send(command);
      return reply(child);
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exit = once(child, "exit");
      child.disconnect();
      await exit;
    },
  };
}

/** For the process itself: says that it is ready, then obeys one command after the other until its starter is gone. */
export function servePeer(ready: unknown, obey: (command: never) => Promise<unknown>): void {
  process.once("disconnect", () => process.exit(0));
  process.on("message", (command) => {
    obey(command as never).then(
      (value) => say({ value }),
      (error: unknown) => say({ failure: error instanceof Error ? (error.stack ?? error.message) : String(error) }),
    );
  });
  say({ value: ready });
}

/** The options that {@link startPeer} was given. */
export function peerOptions<Options>(): Options {
  return JSON.parse(process.argv[2] ?? "{}") as Options; // our own JSON
}

/** CPU that a process has used so far, user and system, in steps of 10 ms. Linux only. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * CLOCK_TICK_MS;
}

/** `BENCH_PROFILE=<directory>` writes a CPU profile of each process there. */
function profileArgs(file: URL): readonly string[] {
  const directory = process.env["BENCH_PROFILE"];
  if (directory === undefined) return [];
  const name = file.pathname.split("/").at(-1)?.replace(".ts", "") ?? "peer";
  return ["--cpu-prof", `--cpu-prof-dir=${directory}`, `--cpu-prof-name=${name}-${Date.now()}.cpuprofile`];
}

async function reply<T>(child: ChildProcess): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<Message>();
  const onMessage = (message: unknown): void => resolve(message as Message); // only our own peers speak here
  const onExit = (): void => reject(new Error(`${child.spawnfile}: ended without an answer`));
  child.once("message", onMessage);
  child.once("exit", onExit);
  child.once("error", reject);
  try {
    const message = await promise;
    if ("failure" in message) throw new Error(message.failure);
    return message.value as T;
  } finally {
    child.off("message", onMessage);
    child.off("exit", onExit);
    child.off("error", reject);
  }
}

function say(message: Message): void {
  process.send?.(message);
}
