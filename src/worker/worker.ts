import { hostname } from "node:os";
import type { Redis } from "ioredis";
import type { Logger } from "pino";
import { systemClock } from "../shared/clock.ts";
import { RunError } from "../shared/errors.ts";
import { newNonce } from "../shared/ids.ts";
import { createLogger } from "../shared/logging/logger.ts";
import { startHealthServer, type HealthServer } from "../shared/metrics/http.ts";
import { createMetrics, type Metrics } from "../shared/metrics/metrics.ts";
import { closeRedis, connectRedis } from "../shared/redis/connection.ts";
import { DEFAULT_LANE } from "../shared/redis/keys.ts";
import { RedisRunLog } from "../shared/run-log/redis-run-log.ts";
import type { SandboxBackend } from "../sandbox/backend.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { loadCatalog } from "./catalog/load-catalog.ts";
import type { Audit } from "./executor/audit.ts";
import { SharedBackend } from "./executor/shared-backend.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { meteredBackend } from "./metered-backend.ts";
import type { ModelRouter } from "./model/model.ts";
import { openRunQueue, type RunQueue } from "./queue.ts";
import { Reconciler } from "./reconciler.ts";
import { RunObserver } from "./run-observer.ts";
import { RunWorker } from "./run-worker.ts";
import { StuckWatch } from "./stuck-watch.ts";
import { createToolRegistry } from "./tools/registry.ts";
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

export interface RunningWorker extends AsyncDisposable {
  /** Unique for each start. */
  readonly name: string;
  readonly metricsPort: number | undefined;
  readonly catalog: Catalog;
  /** Resolves with the reason when the worker cannot go on by itself: its process should end. */
  readonly failed: Promise<RunError>;
  /**
   * Takes no more runs, lets those it has finish within the grace, hands the others over, lets go of everything.
   * Ends within the grace and ten seconds, also while Redis is away. Safe to call again.
   */
  close(): Promise<{ readonly handedOver: number }>;
}

const SWEEP_CONTAINERS_MS = 60_000;
/** A confirmed lock is trusted for its duration less this share. */
const LOCK_MARGIN = 0.2;
const CLOSE_STEP_MS = 2_000;
const HAND_OVER_MS = 4_000;

/** Options with every default filled in. */
type Settings = WorkerOptions & Required<Pick<WorkerOptions, (typeof FILLED)[number]>>;
const FILLED = ["concurrency", "graceMs", "lockDurationMs", "stalledIntervalMs", "installation"] as const;

/** What a worker is made of, opened in this order. */
interface Core {
  readonly name: string;
  readonly logger: Logger;
  readonly catalog: Catalog;
  readonly metrics: Metrics;
  readonly redis: Redis;
  readonly workerRedis: Redis;
  readonly log: RedisRunLog;
  readonly backend: SharedBackend | undefined;
}

/**
 * Loads the catalog, connects, and begins to take runs.
 *
 * @throws {RunError} `redis_unavailable`; `invalid_configuration`: skills directories, tools, options, port taken.
 */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const settings = fillIn(options);
  await using opened = new AsyncDisposableStack();
  const core = await openCore(settings, opened);
  const runs = makeRunWorker(settings, core);
  const watch = new StuckWatch({ concurrency: settings.concurrency, active: runs.active });
  const queue = opened.use(await openQueue(settings, core, { runs, watch }));
  const loops = startLoops(settings, core, { runs, queue, watch });
  const { promise: failed, resolve: fail } = Promise.withResolvers<RunError>();
  watch.onStuck = ({ again }) => {
    if (again) fail(new RunError("internal", { message: "The worker takes no runs although some wait." }));
    else queue.rebuild();
  };
  let draining = false;
  const health = await openHealth(settings, core, { watch, isDraining: () => draining });
  const parts = opened.move();
  if (health !== undefined) parts.defer(() => health.close());
  core.logger.info({ worker: core.name, skills: core.catalog.skills.length, catalogDigest: core.catalog.digest }, "worker ready");
  let closing: Promise<{ readonly handedOver: number }> | undefined;
  const close = async (): Promise<{ readonly handedOver: number }> => {
    draining = true;
    closing ??= drain({ graceMs: settings.graceMs, runs, queue, loops, parts, logger: core.logger });
    return closing;
  };
  return {
    name: core.name,
    catalog: core.catalog,
    metricsPort: health?.port,
    failed,
    close,
    async [Symbol.asyncDispose]() {
      await close();
    },
  };
}

function fillIn(options: WorkerOptions): Settings {
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
  return settings;
}

function checkRange(
  settings: Settings,
  field: Exclude<(typeof FILLED)[number], "installation">,
  range: { readonly least: number; readonly most: number },
): void {
  const value = settings[field];
  if (Number.isInteger(value) && value >= range.least && value <= range.most) return;
  throw new RunError("invalid_configuration", {
    message: `${field} must be a whole number from ${range.least} to ${range.most}.`,
  });
}

async function openCore(settings: Settings, parts: AsyncDisposableStack): Promise<Core> {
  const name = `${hostname().slice(0, 40)}-${process.pid}-${newNonce().slice(0, 8)}`;
  const logger = settings.logger ?? createLogger({ level: "info" });
  const catalog = await loadCatalog({ directories: settings.skillsDirs });
  for (const diagnostic of catalog.diagnostics) {
    logger[diagnostic.level === "error" ? "error" : "warn"]({ diagnostic }, "skill diagnostic");
  }
  const metrics = createMetrics({ skills: catalog.skills.map((skill) => skill.ref) });
  const redis = await connectRedis(settings.redis, { role: "request", name: "skilldock-worker" });
  parts.defer(() => closeRedis(redis));
  const workerRedis = await connectRedis(settings.redis, { role: "blocking", name: "skilldock-jobs" });
  parts.defer(() => closeRedis(workerRedis));
  const log = new RedisRunLog({
    redis,
    lane: DEFAULT_LANE,
    ...(settings.retentionMs === undefined ? {} : { retention: { ttlMs: settings.retentionMs } }),
  });
  const { sandbox } = settings;
  const backend = sandbox && parts.use(new SharedBackend(async () => meteredBackend(await sandbox(), metrics)));
  return { name, logger, catalog, metrics, redis, workerRedis, log, backend };
}

function makeRunWorker(settings: Settings, core: Core): RunWorker {
  const { backend, catalog, logger, log, metrics, name } = core;
  return new RunWorker({
    log,
    logger,
    lockMs: Math.floor(settings.lockDurationMs * (1 - LOCK_MARGIN)),
    observe: () => new RunObserver(metrics),
    ...(settings.audit === undefined ? {} : { audit: settings.audit }),
    dependencies: {
      catalog,
      models: settings.models,
      tools: createToolRegistry(settings.tools),
      ...(backend === undefined ? {} : { sandbox: () => backend.open() }),
      clock: systemClock,
      worker: name,
      installation: settings.installation,
    },
  });
}

async function openQueue(settings: Settings, core: Core, own: { readonly runs: RunWorker; readonly watch: StuckWatch }): Promise<RunQueue> {
  const { runs, watch } = own;
  const queue: RunQueue = await openRunQueue({
    lane: DEFAULT_LANE,
    redis: core.redis,
    workerRedis: core.workerRedis,
    concurrency: settings.concurrency,
    lockDurationMs: settings.lockDurationMs,
    stalledIntervalMs: settings.stalledIntervalMs,
    async deliver(grant, job) {
      watch.tookOne();
      const delivery = await runs.deliver(grant, job);
      if (delivery.kind === "done") await queue.add(delivery.grants);
      return delivery.kind === "put_back" ? "put_back" : "done";
    },
    onLocksRenewed: (jobs) => {
      const now = performance.now();
      for (const job of jobs) runs.active.get(job)?.lockRenewed(now);
    },
    onLocksLost: (jobs) => {
      for (const job of jobs) runs.active.get(job)?.loseLock();
    },
    onError: (error) => core.logger.warn({ err: error }, "queue error"),
  });
  return queue;
}

interface Loops {
  stop(): Promise<void>;
}

function startLoops(
  settings: Settings,
  core: Core,
  own: { readonly runs: RunWorker; readonly queue: RunQueue; readonly watch: StuckWatch },
): { readonly reconciler: Loops; readonly leases: Loops; readonly containers: Loops } {
  const { log, logger, metrics, backend } = core;
  metrics.runsActive(() => own.runs.active.size);
  const leases = new LeaseKeeper({
    log,
    logger,
    active: own.runs.active,
    intervalMs: Math.min(1_000, Math.floor(settings.lockDurationMs / 4)),
  });
  const reconciler = new Reconciler({
    log,
    logger,
    queue: own.queue,
    intervalMs: settings.stalledIntervalMs,
    onSwept: (swept) => {
      metrics.backlogRuns(swept.waiting);
      own.watch.sawWaiting(swept.waiting);
    },
  });
  leases.start();
  reconciler.start();
  return { leases, reconciler, containers: sweepContainers(backend, logger) };
}

/** Once a minute removes what dead owners of this installation left behind, once the backend is in use. */
function sweepContainers(backend: SharedBackend | undefined, logger: Logger): Loops {
  const timer = setInterval(() => {
    void (async () => {
      const swept = (await (await backend?.opened())?.sweep()) ?? 0;
      if (swept > 0) logger.warn({ swept }, "removed sandboxes of dead owners");
    })().catch((error: unknown) => logger.warn({ err: error }, "sandbox sweep failed"));
  }, SWEEP_CONTAINERS_MS);
  return {
    async stop() {
      clearInterval(timer);
    },
  };
}

async function openHealth(
  settings: Settings,
  core: Core,
  state: { readonly watch: StuckWatch; readonly isDraining: () => boolean },
): Promise<HealthServer | undefined> {
  if (settings.metricsPort === undefined) return undefined;
  return startHealthServer({
    port: settings.metricsPort,
    ...(settings.metricsHost === undefined ? {} : { host: settings.metricsHost }),
    metrics: core.metrics,
    ready: () => {
      const reasons: string[] = [];
      if (state.isDraining()) reasons.push("draining");
      if (core.redis.status !== "ready") reasons.push("redis_unavailable");
      if (state.watch.stuck) reasons.push("takes_no_runs");
      return { ready: reasons.length === 0, reasons };
    },
  });
}

async function drain(own: {
  readonly graceMs: number;
  readonly runs: RunWorker;
  readonly queue: RunQueue;
  readonly loops: ReturnType<typeof startLoops>;
  readonly parts: AsyncDisposableStack;
  readonly logger: Logger;
}): Promise<{ readonly handedOver: number }> {
  const { runs, queue, loops, parts, logger } = own;
  await Promise.all([within(CLOSE_STEP_MS, loops.reconciler.stop()), loops.containers.stop()]);
  const drained = queue.drain().catch((error: unknown) => logger.warn({ err: error }, "queue did not close cleanly"));
  await within(own.graceMs, drained);
  const left = [...runs.active.values()];
  for (const run of left) run.handOver();
  if (left.length > 0) {
    logger.warn({ runs: left.length }, "grace is over: handing runs over");
    await within(HAND_OVER_MS, Promise.all([drained, ...left.map((run) => run.settled)]));
  }
  await within(CLOSE_STEP_MS, loops.leases.stop());
  await within(CLOSE_STEP_MS, parts.disposeAsync());
  return { handedOver: left.length };
}

/** Waits for `work`, but no longer than `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([work, late]);
  } catch {
    // Whoever began the work reports its failure.
  } finally {
    clearTimeout(timer);
  }
}
