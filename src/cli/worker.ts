import type { Config } from "../shared/config/config.ts";
import { RunError } from "../shared/errors.ts";
import { createLogger } from "../shared/logging/logger.ts";
import { startWorker, type RunningWorker } from "../worker/worker.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { formatPlural } from "./figures.ts";
import { onInterrupt } from "./interrupts.ts";
import { loadTools } from "./load-tools.ts";
import { modelsOf } from "../worker/model/configured-models.ts";
import { requireSandbox, sandboxOf } from "./parts.ts";
import { reportError } from "./report-error.ts";
import type { CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

/** As given on the command line; what is not given comes from the configuration. */
export interface WorkerCommandOptions extends CommonOptions {
  readonly skills?: readonly string[];
  readonly concurrency?: number;
  readonly tools?: string;
  readonly sandbox?: "docker" | "none";
  readonly metricsPort?: number;
  readonly metricsHost?: string;
  readonly grace?: number;
}

/**
 * `skilldock worker`: takes runs until SIGTERM or Ctrl-C, then lets them finish within the grace and hands over the
 * rest. With `--json` one object on stdout says that it is ready: `{worker, metricsPort, catalogDigest, skills}`.
 */
export async function workerCommand(terminal: Terminal, options: WorkerCommandOptions): Promise<ExitCode> {
  const { promise: stopped, resolve: stop } = Promise.withResolvers<"stopped">();
  using _ = onInterrupt(terminal, () => stop("stopped"));
  const config = loadSettings(terminal, options, {
    skills: { directories: options.skills },
    worker: {
      concurrency: options.concurrency,
      metricsPort: options.metricsPort,
      metricsHost: options.metricsHost,
      graceMs: options.grace,
      tools: options.tools,
    },
    sandbox: { backend: options.sandbox },
  });
  const worker = await start(config);
  announce(terminal, worker, options);
  const end = await Promise.race([worker.failed, stopped]);
  if (end === "stopped") say(terminal, options, "stopping; a second signal ends at once");
  const { handedOver } = await worker.close();
  if (end !== "stopped") return reportError(terminal, end, { logLevel: config.log.level });
  say(terminal, options, `stopped, ${formatPlural(handedOver, "run")} handed over`);
  return EXIT.ok;
}

async function start(config: Config): Promise<RunningWorker> {
  if (config.skills.directories.length === 0) {
    throw new RunError("invalid_request", { message: "A worker needs --skills <dir>…" });
  }
  const models = modelsOf(config);
  const { tools: toolsModule, ...settings } = config.worker;
  const tools = await loadTools(toolsModule);
  const logger = createLogger({ level: config.log.level, secrets: config.secretValues() });
  const sandbox = sandboxOf(config, logger);
  if (sandbox !== undefined) await requireSandbox(sandbox);
  return startWorker({
    ...settings,
    processMetrics: "include",
    skillsDirs: config.skills.directories,
    models,
    tools,
    redis: config.redis.url,
    retentionMs: config.retention.ttlMs,
    ...(sandbox === undefined ? {} : { sandbox }),
    logger,
  });
}

function announce(terminal: Terminal, worker: RunningWorker, options: WorkerCommandOptions): void {
  const { name, metricsPort, catalog } = worker;
  const skills = catalog.skills.map(({ ref }) => ref);
  if (options.json === true || options.jsonl === true) {
    terminal.stdout.line(JSON.stringify({ worker: name, metricsPort, catalogDigest: catalog.digest, skills }));
    return;
  }
  const metrics = metricsPort === undefined ? "" : `, metrics on port ${metricsPort}`;
  say(terminal, options, `worker ${name} is ready with ${formatPlural(skills.length, "skill")}${metrics}`);
}

function say(terminal: Terminal, options: WorkerCommandOptions, text: string): void {
  if (options.json !== true && options.jsonl !== true) terminal.stderr.line(`skilldock: ${text}`);
}
