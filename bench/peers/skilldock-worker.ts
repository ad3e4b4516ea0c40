/** A worker as it is shipped, with its log lines at level `info` thrown away. */
import { openSync, writeSync } from "node:fs";
import { createChatModel, createModelRouter, ScriptedModel, startWorker } from "skilldock/worker";
import { createLogger } from "../../src/shared/logging/logger.ts";
import { peerOptions, servePeer } from "../peer.ts";
import { lookupTool } from "../work.ts";

export interface SkilldockWorkerOptions {
  readonly redis: string;
  readonly concurrency: number;
  /** Absent: runs are answered at once, in the process. */
  readonly baseUrl?: string;
}

const { redis, concurrency, baseUrl } = peerOptions<SkilldockWorkerOptions>();
const adapter =
  baseUrl === undefined ? new ScriptedModel([{ steps: [{ text: "Done." }] }]) : createChatModel({ baseUrl });
const nowhere = openSync("/dev/null", "w");
await startWorker({
  redis,
  concurrency,
  skillsDirs: [new URL("../skills/", import.meta.url)],
  models: createModelRouter({ default: "bench", routes: [{ id: "bench", model: "fake", adapter }] }),
  tools: [lookupTool],
  logger: createLogger({ level: "info", destination: { write: (line) => void writeSync(nowhere, line) } }),
});
servePeer(undefined, () => Promise.resolve());
