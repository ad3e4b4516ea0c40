import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunRequestInput } from "../shared/contracts/request.ts";
import type { RunResult, TerminalState } from "../shared/contracts/result.ts";
import { loadConfig } from "../shared/config/load-config.ts";
import type { Config } from "../shared/config/config.ts";
import { RunError } from "../shared/errors.ts";
import { closeRedis, connectRedis } from "../shared/redis/connection.ts";
import { DEFAULT_LANE, runKeys } from "../shared/redis/keys.ts";
import { Producer } from "../producer/index.ts";
import { DemoPrinter } from "./demo-print.ts";
import { startDemoRedis, startDemoWorker } from "./demo-servers.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { formatDuration } from "./figures.ts";
import { onInterrupt } from "./interrupts.ts";
import type { Terminal } from "./terminal.ts";

const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const TENANT = "demo";
const SCRIPTED_BOUND_MS = 60_000;
const PAID_BOUND_MS = 300_000;

export interface DemoOptions {
  /** A model route, or `<route>:<model>`. Absent: the configuration's default. */
  readonly model?: string;
}

interface DemoRun {
  readonly title: string;
  readonly request: Omit<RunRequestInput, "tenantId">;
  readonly expected: TerminalState;
  /** Cancelled by the demonstration as soon as its first text has come. */
  readonly cancelAtFirstText?: boolean;
}

const RUNS: readonly DemoRun[] = [
  {
    title: "commit-message: instructions only",
    request: {
      skill: "commit-message",
      query:
        "The importer sent orders without a currency; we now validate it when an order is accepted. Write the commit message.",
    },
    expected: "succeeded",
  },
  {
    title: "invoice-check: calculates with a script, in a Docker sandbox of its own",
    request: {
      skill: "invoice-check",
      query: "Show me how the check works on your example invoice, as of 2026-03-20.",
      allowedCapabilities: ["workspace.list@1", "workspace.read@1", "workspace.write@1", "workspace.execute_command@1"],
    },
    expected: "succeeded",
  },
  {
    title: "commit-message once more: slow, and cancelled at its first text",
    request: { skill: "commit-message", query: "Take your time." },
    expected: "cancelled",
    cancelAtFirstText: true,
  },
];

interface Stage {
  readonly terminal: Terminal;
  readonly producer: Producer;
  readonly signal: AbortSignal;
  readonly model: string | undefined;
}

/**
 * The main job, for real: a Redis, a worker in a process of its own, and three runs through the queue, shown live.
 *
 * Everything it starts it ends. Bounded to a minute with the scripted model.
 *
 * @returns 0 where the three runs ended as they should, else 1.
 * @throws {RunError} `invalid_configuration`, `redis_unavailable`, `sandbox_unavailable`: what it needs is not there.
 */
export async function runDemo(terminal: Terminal, options: DemoOptions): Promise<ExitCode> {
  const config = loadConfig({ file: join(ROOT, "skilldock.yaml"), env: terminal.environment });
  const paid = checkModel(config, options.model);
  const interrupted = new AbortController();
  using _ = onInterrupt(terminal, () => interrupted.abort());
  const signal = AbortSignal.any([
    interrupted.signal,
    terminal.outputClosed,
    AbortSignal.timeout(paid ? PAID_BOUND_MS : SCRIPTED_BOUND_MS),
  ]);
  const { stdout } = terminal;
  await using stack = new AsyncDisposableStack();
  const redisUrl = await openRedis(terminal, stack);
  const worker = stack.use(
    await startDemoWorker({
      command: [join(ROOT, "bin", "skilldock")],
      argv: [
        "--config",
        join(ROOT, "skilldock.yaml"),
        "--skills",
        join(ROOT, "skills"),
        "--metrics-port",
        "0",
        "--log-level",
        "warn",
      ],
      environment: { ...terminal.environment, REDIS_URL: redisUrl },
      signal,
    }),
  );
  stdout.line(
    `worker   ${worker.name} (process ${worker.pid}), ${worker.skills.length} skills: ${worker.skills.join(", ")}`,
  );
  stdout.line(`metrics  http://127.0.0.1:${worker.metricsPort}/metrics`);
  stdout.line(
    `model    ${options.model ?? `${config.models?.default ?? ""} (the configuration's default: no key, no cost)`}`,
  );
  const producer = stack.use(
    new Producer({ redis: redisUrl, tenants: config.tenants, retentionMs: config.retention.ttlMs }),
  );
  const results = await showRuns({ terminal, producer, signal, model: options.model });
  if (interrupted.signal.aborted) return EXIT.interrupted;
  const [first] = results;
  if (first !== undefined) await showStream(terminal, redisUrl, first);
  return conclude(terminal, results);
}

/** @returns Whether runs may cost money. @throws {RunError} `invalid_configuration`: no such route, or no key for it. */
function checkModel(config: Config, model: string | undefined): boolean {
  const [id = ""] = (model ?? config.models?.default ?? "").split(":");
  const route = config.models !== undefined && Object.hasOwn(config.models, id) ? config.models[id] : undefined;
  if (route === undefined || typeof route === "string") {
    throw new RunError("invalid_configuration", {
      message: `The configuration has no model route named ${JSON.stringify(id)}.`,
    });
  }
  if (route.api === "scripted") return false;
  const variable = route.apiKeyEnv ?? (route.baseUrl === undefined ? "OPENAI_API_KEY" : undefined);
  if (variable !== undefined && config.readSecret(variable) === undefined) {
    throw new RunError("invalid_configuration", {
      message: `--model ${id} needs a key in ${variable}. Without --model nothing is paid.`,
    });
  }
  return true;
}

async function openRedis(terminal: Terminal, stack: AsyncDisposableStack): Promise<string> {
  const given = terminal.environment["REDIS_URL"];
  if (given !== undefined && given !== "") {
    terminal.stdout.line("redis    the one in REDIS_URL");
    return given;
  }
  const redis = stack.use(await startDemoRedis(terminal.environment));
  terminal.stdout.line(`redis    ${redis.url} (process ${redis.pid}, started for this demonstration)`);
  return redis.url;
}

async function showRuns(stage: Stage): Promise<readonly RunResult[]> {
  const results: RunResult[] = [];
  for (const [index, run] of RUNS.entries()) {
    const printer = new DemoPrinter(stage.terminal.stdout);
    printer.heading(index + 1, run.title);
    const result = await showRun(stage, run, printer);
    if (result === undefined) break;
    results.push(result);
    printer.result(result);
  }
  return results;
}

async function showRun(stage: Stage, run: DemoRun, printer: DemoPrinter): Promise<RunResult | undefined> {
  const { producer, signal, model } = stage;
  const tenantId = TENANT;
  const { runId } = await producer.enqueue({ ...run.request, tenantId, ...(model === undefined ? {} : { model }) });
  let cancelledAt: number | undefined;
  for await (const item of producer.follow({ tenantId, runId, signal })) {
    if (item.type === "result") return item;
    printer.event(item);
    if (run.cancelAtFirstText === true && item.type === "model.delta" && cancelledAt === undefined) {
      cancelledAt = performance.now();
      await producer.cancel({ tenantId, runId, reason: "enough seen" });
      printer.note("asked for its end");
    }
    if (item.terminal && cancelledAt !== undefined) {
      printer.note(`its end was here ${formatDuration(performance.now() - cancelledAt)} after it was asked for`);
    }
  }
  // Interrupted, or out of time: what goes on is ended with everything else.
  await producer.cancel({ tenantId, runId, reason: "the demonstration ended" }).catch(() => undefined);
  return undefined;
}

/** The stream of a run as any client sees it. */
async function showStream(terminal: Terminal, redisUrl: string, result: RunResult): Promise<void> {
  const { events } = runKeys(DEFAULT_LANE, result.tenantId, result.runId);
  const redis = await connectRedis(redisUrl, { role: "request", name: "skilldock-demo" });
  const entries = await redis.xrange(events, "-", "+");
  await closeRedis(redis);
  const { stdout } = terminal;
  stdout.line("");
  stdout.line(stdout.style("bold", "The first run once more, as plain Redis has it"));
  stdout.line(`  redis-cli -u ${redisUrl.replace(/\/\/[^@/]*@/, "//…@")} XRANGE '${events}' - +`);
  stdout.line(`  ${entries.map(([id]) => id).join("  ")}`);
}

function conclude(terminal: Terminal, results: readonly RunResult[]): ExitCode {
  const { stdout } = terminal;
  const asExpected =
    results.length === RUNS.length && RUNS.every((run, index) => run.expected === results[index]?.status);
  const ends = RUNS.map(
    (run, index) =>
      `${results[index]?.status ?? "not ended"}${run.expected === results[index]?.status ? "" : ` (expected ${run.expected})`}`,
  );
  stdout.line("");
  stdout.line(stdout.style(asExpected ? "green" : "red", `${asExpected ? "ok" : "FAILED"}: ${ends.join(", ")}`));
  if (!asExpected) return EXIT.notSucceeded;
  stdout.line("");
  stdout.line("Next:");
  stdout.line("  redis-server --port 6379 --daemonize yes");
  stdout.line("  bin/skilldock worker --skills skills          # in another terminal");
  stdout.line("  bin/skilldock run --skill commit-message --query 'We now reject empty names.'");
  stdout.line("  bin/skilldock run --local --skills skills --skill commit-message --query 'Without Redis.'");
  return EXIT.ok;
}
