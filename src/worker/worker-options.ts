import type { Logger } from "pino";
import { RunError } from "../shared/errors.ts";
import type { SandboxBackend } from "../sandbox/backend.ts";
import type { Audit } from "./executor/audit.ts";
import type { ModelRouter } from "./model/model.ts";
import type { CallerTool } from "./tools/tool.ts";

export interface WorkerOptions {
  /** Directories of skills, or skills: paths and `file://` URLs. Read once, now. */
  readonly skillsDirs: readonly (string | URL)[];
  readonly models: ModelRouter;
  /** `redis://` or `rediss://`. */
  readonly redis: string;
  readonly tools?: readonly CallerTool[];
  /** Called once, at the first admitted workspace call. Absent: workspace capabilities are denied. */
  readonly sandbox?: () => SandboxBackend | Promise<SandboxBackend>;
  readonly audit?: Audit;
  readonly logger?: Logger;
  /** Runs at a time, 1–1,000. Default 32. */
  readonly concurrency?: number;
  /** Port of `/metrics`, `/healthz`, `/readyz`; 0: a free one. Absent: none is opened. */
  readonly metricsPort?: number;
  /** Default 127.0.0.1. */
  readonly metricsHost?: string;
  /** Also what the Node process uses. For the one worker that a process is for. Default `omit`. */
  readonly processMetrics?: "include" | "omit";
  /** How long `close` lets runs finish before it hands them over. Default 20,000. */
  readonly graceMs?: number;
  /** BullMQ's lock: a worker that is silent for so long loses its runs. Default 10,000. */
  readonly lockDurationMs?: number;
  /** How often lost jobs are looked for. Default 5,000. */
  readonly stalledIntervalMs?: number;
  /** Which installation sandboxes belong to: their sweep stays inside it. Default `default`. */
  readonly installation?: string;
  /** Life of a run's record and stream after its end. Default 24 h. */
  readonly retentionMs?: number;
}

/** Options with every default filled in. */
export type WorkerSettings = WorkerOptions & Required<Pick<WorkerOptions, (typeof FILLED)[number]>>;
const FILLED = ["concurrency", "graceMs", "lockDurationMs", "stalledIntervalMs", "installation"] as const;

/** @throws {RunError} `invalid_configuration`: a number out of its range. */
export function fillIn(options: WorkerOptions): WorkerSettings {
  for (const field of ["skillsDirs", "models", "redis"] as const) {
    if (options?.[field] === undefined)
      throw new RunError("invalid_configuration", { message: `startWorker needs ${field}.` });
  }
  const settings = {
    ...options,
    concurrency: options.concurrency ?? 32,
    graceMs: options.graceMs ?? 20_000,
    lockDurationMs: options.lockDurationMs ?? 10_000,
    stalledIntervalMs: options.stalledIntervalMs ?? 5_000,
    installation: options.installation ?? "default",
  };
  checkRange(settings, "concurrency", { least: 1, most: 1_000 });
  checkRange(settings, "graceMs", { least: 0, most: 3_600_000 });
  checkRange(settings, "lockDurationMs", { least: 500, most: 600_000 });
  checkRange(settings, "stalledIntervalMs", { least: 100, most: 600_000 });
  if (settings.retentionMs !== undefined) checkRange(settings, "retentionMs", { least: 1_000, most: 31_536_000_000 });
  return settings;
}

function checkRange(
  settings: WorkerSettings,
  field: Exclude<(typeof FILLED)[number], "installation"> | "retentionMs",
  range: { readonly least: number; readonly most: number },
): void {
  const value = settings[field];
  if (value !== undefined && Number.isInteger(value) && value >= range.least && value <= range.most) return;
  throw new RunError("invalid_configuration", {
    message: `${field} must be a whole number from ${range.least} to ${range.most}.`,
  });
}
