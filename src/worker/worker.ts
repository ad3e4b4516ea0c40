import { hostname } from "node:os";
import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { RunRequest } from "../shared/contracts/request.ts";
import { systemClock } from "../shared/clock.ts";
import { RunError } from "../shared/errors.ts";
import { newNonce } from "../shared/ids.ts";
import { createLogger } from "../shared/logging/logger.ts";
import { startHealthServer, type HealthServer } from "../shared/metrics/http.ts";
import { createMetrics, type Metrics } from "../shared/metrics/metrics.ts";
import { closeRedis, connectRedis } from "../shared/redis/connection.ts";
import { DEFAULT_LANE } from "../shared/redis/keys.ts";
import { RedisRunLog } from "../shared/run-log/redis-run-log.ts";
import type { Catalog } from "./catalog/catalog.ts";
import { loadCatalog } from "./catalog/load-catalog.ts";
import { SharedBackend } from "./executor/shared-backend.ts";
import { drainWorker, type Loop } from "./drain.ts";
import { LeaseKeeper } from "./lease-keeper.ts";
import { meteredBackend } from "./metered-backend.ts";
import type { ModelRouter } from "./model/model.ts";
import { openRunQueue, type RunQueue } from "./queue.ts";
import { Reconciler } from "./reconciler.ts";
import { RunObserver } from "./run-observer.ts";
import { onceASecond } from "./once-a-second.ts";
import { RunWorker } from "./run-worker.ts";
import { StuckWatch } from "./stuck-watch.ts";
import { createToolRegistry, type ToolRegistry } from "./tools/registry.ts";
import { fillIn, type WorkerOptions, type WorkerSettings } from "./worker-options.ts";

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
/** A confirmed lock is trusted for its duration less this share; it is looked at ten times in its duration. */
const LOCK_MARGIN = 0.2;

/** What a worker is made of, opened in this order. */
interface Core {
  readonly name: string;
  readonly logger: Logger;
  readonly catalog: Catalog;
  readonly tools: ToolRegistry;
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
  const watch = new StuckWatch({ concurrency: settings.concurrency, active: runs.active, clock: systemClock });
  let draining = false;
  const health = await openHealth(settings, core, { watch, isDraining: () => draining });
  if (health !== undefined) opened.defer(() => health.close());
  const queue = opened.use(await openQueue(settings, core, { runs, watch }));
  const loops = startLoops(settings, core, { runs, queue, watch });
  for (const loop of Object.values(loops)) opened.defer(async () => loop.stop());
  const { promise: failed, resolve: fail } = Promise.withResolvers<RunError>();
  watch.onStuck = ({ again }) => {
    if (again) fail(new RunError("internal", { message: "The worker takes no runs although some wait." }));
    else queue.rebuild();
  };
  const parts = opened.move();
  core.logger.info(
    { worker: core.name, skills: core.catalog.skills.length, catalogDigest: core.catalog.digest },
    "worker ready",
  );
  let closing: Promise<{ readonly handedOver: number }> | undefined;
  const close = async (): Promise<{ readonly handedOver: number }> => {
    draining = true;
    closing ??= drainWorker({ graceMs: settings.graceMs, runs, queue, loops, parts, logger: core.logger });
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

async function openCore(settings: WorkerSettings, parts: AsyncDisposableStack): Promise<Core> {
  const name = `${hostname().slice(0, 40)}-${process.pid}-${newNonce().slice(0, 8)}`;
  const logger = settings.logger ?? createLogger({ level: "info" });
  const catalog = await loadCatalog({ directories: settings.skillsDirs });
  for (const diagnostic of catalog.diagnostics) {
    logger[diagnostic.level === "error" ? "error" : "warn"]({ diagnostic }, "skill diagnostic");
  }
  const tools = createToolRegistry(settings.tools);
  const metrics = createMetrics({
    skills: catalog.skills.map((skill) => skill.ref),
    capabilities: [...tools.keys()],
    models: settings.models.routes.map((route) => route.id),
    defaultMetrics: settings.processMetrics ?? "omit",
  });
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
  return { name, logger, catalog, tools, metrics, redis, workerRedis, log, backend };
}

function makeRunWorker(settings: WorkerSettings, core: Core): RunWorker {
  const { backend, catalog, logger, log, metrics, name } = core;
  return new RunWorker({
    log,
    logger,
    lockMs: Math.floor(settings.lockDurationMs * (1 - LOCK_MARGIN)),
    observe: (request) => new RunObserver(metrics, routeOf(request, settings.models)),
    ...(settings.audit === undefined ? {} : { audit: settings.audit }),
    dependencies: {
      catalog,
      models: settings.models,
      tools: core.tools,
      ...(backend === undefined ? {} : { sandbox: () => backend.open() }),
      clock: systemClock,
      worker: name,
      installation: settings.installation,
    },
  });
}

/** The route that a request names, for metrics; what no route serves is counted as other. */
function routeOf(request: RunRequest, models: ModelRouter): string {
  try {
    return models.resolve(request.model).route.id;
  } catch {
    return "";
  }
}

async function openQueue(
  settings: WorkerSettings,
  core: Core,
  own: { readonly runs: RunWorker; readonly watch: StuckWatch },
): Promise<RunQueue> {
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
      for (const job of jobs) runs.active.byJob(job)?.lockRenewed(now);
    },
    onLocksLost: (jobs) => {
      for (const job of jobs) runs.active.byJob(job)?.loseLock();
    },
    onError: onceASecond((error, more) => core.logger.warn({ err: error, more }, "queue error")),
  });
  return queue;
}

function startLoops(
  settings: WorkerSettings,
  core: Core,
  own: { readonly runs: RunWorker; readonly queue: RunQueue; readonly watch: StuckWatch },
): { readonly reconciler: Loop; readonly leases: Loop; readonly containers: Loop } {
  const { log, logger, metrics, backend } = core;
  metrics.runsActive(() => own.runs.active.size);
  const leases = new LeaseKeeper({
    log,
    logger,
    active: own.runs.active,
    checkMs: Math.min(1_000, Math.floor(settings.lockDurationMs / 10)),
    renewMs: Math.min(1_000, Math.floor(settings.lockDurationMs / 4)),
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
    onExpired: () => metrics.runEnded({ status: "timed_out", skill: undefined }),
  });
  leases.start();
  reconciler.start();
  return { leases, reconciler, containers: sweepContainers(backend, logger) };
}

/** Once a minute removes what dead owners of this installation left behind, once the backend is in use. */
function sweepContainers(backend: SharedBackend | undefined, logger: Logger): Loop {
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
  settings: WorkerSettings,
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
