import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { WorkerProcessOptions } from "../fixtures/worker-process.ts";

/** What the process says: `ready`, tool calls, and how its close went. */
export interface WorkerLine {
  readonly ready?: string;
  readonly metricsPort?: number;
  readonly tool?: string;
  readonly runId?: string;
  readonly callId?: string;
  readonly handedOver?: number;
}

export interface WorkerProcess extends AsyncDisposable {
  readonly name: string;
  readonly pid: number;
  readonly metricsPort: number | undefined;
  /** All lines so far. */
  readonly lines: readonly WorkerLine[];
  readonly stderr: () => string;
  /** Resolves with the first line, past or to come, that matches. */
  line(match: (line: WorkerLine) => boolean): Promise<WorkerLine>;
  signal(signal: NodeJS.Signals): void;
  readonly exited: Promise<number | null>;
}

const FIXTURE = fileURLToPath(new URL("../fixtures/worker-process.ts", import.meta.url));
const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts a worker in its own process, with locks short enough for tests. Killed at the end of the scope. */
export async function startWorkerProcess(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const settings: WorkerProcessOptions = { lockDurationMs: 1_000, stalledIntervalMs: 500, metricsPort: 0, ...options };
  const child = spawn(process.execPath, [FIXTURE, JSON.stringify(settings)], { stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const lines: WorkerLine[] = [];
  const waiting = new Set<() => void>();
  createInterface({ input: child.stdout }).on("line", (text) => {
    lines.push(JSON.parse(text) as WorkerLine); // our own fixture's lines
    for (const look of waiting) look();
  });
  const exited = once(child, "exit").then(([code]) => {
    children.delete(child);
    for (const look of waiting) look();
    return code as number | null; // as Node documents it
  });
  const line = async (match: (line: WorkerLine) => boolean): Promise<WorkerLine> => {
    const { promise, resolve, reject } = Promise.withResolvers<WorkerLine>();
    const look = (): void => {
      const found = lines.find(match);
      if (found !== undefined) resolve(found);
      else if (child.exitCode !== null || child.signalCode !== null)
        reject(new Error(`worker process ended: ${stderr}`));
    };
    waiting.add(look);
    look();
    try {
      return await promise;
    } finally {
      waiting.delete(look);
    }
  };
  const ready = await line((one) => one.ready !== undefined);
  return {
    name: ready.ready ?? "",
    pid: child.pid ?? 0,
    metricsPort: ready.metricsPort,
    lines,
    stderr: () => stderr,
    line,
    signal: (signal) => void child.kill(signal),
    exited,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGCONT");
      child.kill("SIGKILL");
      await exited;
    },
  };
}
