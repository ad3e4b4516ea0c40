import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { TERMINAL_STATES, type TerminalState } from "../contracts/result.ts";
import type { ReceiptStatus } from "../contracts/receipt.ts";
import { packageVersion } from "../version.ts";
import { boundedLabel, OTHER } from "./bounded-label.ts";

/** Why an attempt began. */
export type AttemptReason = "first" | "worker_lost" | "handed_over";

/** How a model request ended: `ok`, `aborted` by us, or the code it failed with. */
export type ModelOutcome = "ok" | "aborted" | "model_unavailable" | "model_refused" | "model_protocol" | "internal";

/** Tokens of one model call. Cached ones are part of the input, reasoning ones of the output. */
export interface TokenCounts {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
}

export interface CreateMetricsOptions {
  /** Refs of the catalog: other skills are counted as `_other`. Absent: the first 64 seen. */
  readonly skills?: readonly string[];
  /** Ids of the registered capabilities. As `skills`. */
  readonly capabilities?: readonly string[];
  /** Route ids. As `skills`. */
  readonly models?: readonly string[];
  /** `include`: also what the Node process uses. Once a process: its observers are never taken back. Default `omit`. */
  readonly defaultMetrics?: "include" | "omit";
}

/** What a worker counts. Label values are bounded; there is never a tenant or a run id in one. */
export interface Metrics {
  runEnded(run: {
    readonly status: TerminalState;
    readonly skill: string | undefined;
    /** Absent where the run never started. */
    readonly durationSeconds?: number;
  }): void;
  queueWaited(seconds: number): void;
  turn(turn: { readonly model: string }): void;
  toolCall(call: { readonly capability: string | undefined; readonly status: ReceiptStatus }): void;
  tokens(call: TokenCounts & { readonly model: string }): void;
  modelRequest(request: { readonly model: string; readonly outcome: ModelOutcome; readonly seconds: number }): void;
  attempt(attempt: { readonly reason: AttemptReason }): void;
  fencedWrite(): void;
  /** Tokens that a provider billed beyond what was reserved. */
  budgetOvershoot(tokens: number): void;
  /** Time from the request for a sandbox to its readiness. */
  sandboxStarted(seconds: number): void;
  /** Sandboxes that outlived their run and were removed by a sweep. */
  sandboxesLeaked(count: number): void;
  /** @param read Asked at each scrape; the last one set counts. */
  runsActive(read: () => number): void;
  /** @param read As for `runsActive`. */
  sandboxActive(read: () => number): void;
  /** The lane's waiting runs: the same figure from every worker. */
  backlogRuns(runs: number): void;
  /** The text that Prometheus reads, and its media type. */
  expose(): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** Runs last from a tenth of a second to an hour; the usual one about a minute. */
const RUN_BUCKETS = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1_800, 3_600];
/** Milliseconds where a worker is free, up to a day where none is. */
const WAIT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400];
const MODEL_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 45, 60, 120, 300];
const SANDBOX_BUCKETS = [0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30];

const ATTEMPT_REASONS: readonly AttemptReason[] = ["first", "worker_lost", "handed_over"];
const TOKEN_KINDS = ["input", "cached_input", "output", "reasoning"] as const;
/** More skills than that start without zeros. */
const MAX_ZEROED_SKILLS = 50;
/** Gauges that prom-client names like counters. */
const MISNAMED_DEFAULTS = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** Metrics on a registry of their own: several in one process do not meet. */
export function createMetrics(options: CreateMetricsOptions = {}): Metrics {
  const registry = new Registry();
  setBuildInfo(registry);
  if (options.defaultMetrics === "include") addProcessMetrics(registry);
  return {
    ...createRunMetrics(registry, options),
    ...createModelMetrics(registry, options),
    ...createToolMetrics(registry, options),
    ...createGauges(registry),
    expose: async () => ({ contentType: registry.contentType, text: await registry.metrics() }),
  };
}

type RunMetrics = Pick<Metrics, "runEnded" | "queueWaited" | "attempt" | "fencedWrite">;

function createRunMetrics(registry: Registry, options: CreateMetricsOptions): RunMetrics {
  const registers = [registry];
  const total = new Counter({
    name: "skilldock_runs_total",
    help: "Runs that ended on this worker.",
    labelNames: ["status", "skill"],
    registers,
  });
  const duration = new Histogram({
    name: "skilldock_run_duration_seconds",
    help: "From a run's first start to its end.",
    buckets: RUN_BUCKETS,
    registers,
  });
  const wait = new Histogram({
    name: "skilldock_queue_wait_seconds",
    help: "From the acceptance of a run to its first start.",
    buckets: WAIT_BUCKETS,
    registers,
  });
  const attempts = new Counter({
    name: "skilldock_attempts_total",
    help: "Attempts that began, by what made them necessary.",
    labelNames: ["reason"],
    registers,
  });
  const fenced = new Counter({
    name: "skilldock_fenced_writes_total",
    help: "Writes refused because another attempt owns the run.",
    registers,
  });
  const skill = boundedLabel(options.skills);
  // A series that begins at zero shows its first increase.
  for (const ref of [...(options.skills ?? []).slice(0, MAX_ZEROED_SKILLS), OTHER]) {
    for (const status of TERMINAL_STATES) total.inc({ status, skill: ref }, 0);
  }
  for (const reason of ATTEMPT_REASONS) attempts.inc({ reason }, 0);
  return {
    runEnded(run) {
      total.inc({ status: run.status, skill: skill(run.skill) });
      if (run.durationSeconds !== undefined) duration.observe(run.durationSeconds);
    },
    queueWaited: (seconds) => wait.observe(seconds),
    attempt: ({ reason }) => attempts.inc({ reason }),
    fencedWrite: () => fenced.inc(),
  };
}

type ModelMetrics = Pick<Metrics, "turn" | "tokens" | "modelRequest" | "budgetOvershoot">;

function createModelMetrics(registry: Registry, options: CreateMetricsOptions): ModelMetrics {
  const registers = [registry];
  const turns = new Counter({
    name: "skilldock_turns_total",
    help: "Model turns begun.",
    labelNames: ["model"],
    registers,
  });
  const tokens = new Counter({
    name: "skilldock_tokens_total",
    help: "Tokens; cached_input is part of input, reasoning of output.",
    labelNames: ["model", "kind"],
    registers,
  });
  const requests = new Histogram({
    name: "skilldock_model_request_seconds",
    help: "Model requests, from sending to the last byte.",
    labelNames: ["model", "outcome"],
    buckets: MODEL_BUCKETS,
    registers,
  });
  const overshoot = new Counter({
    name: "skilldock_budget_overshoot_tokens_total",
    help: "Tokens that providers billed beyond the reservation.",
    registers,
  });
  const model = boundedLabel(options.models);
  for (const id of options.models ?? []) {
    turns.inc({ model: id }, 0);
    for (const kind of TOKEN_KINDS) tokens.inc({ model: id, kind }, 0);
  }
  return {
    turn: (turn) => turns.inc({ model: model(turn.model) }),
    tokens(call) {
      const label = model(call.model);
      tokens.inc({ model: label, kind: "input" }, call.inputTokens);
      tokens.inc({ model: label, kind: "cached_input" }, call.cachedInputTokens);
      tokens.inc({ model: label, kind: "output" }, call.outputTokens);
      tokens.inc({ model: label, kind: "reasoning" }, call.reasoningTokens);
    },
    modelRequest: (request) =>
      requests.observe({ model: model(request.model), outcome: request.outcome }, request.seconds),
    budgetOvershoot: (count) => overshoot.inc(count),
  };
}

type ToolMetrics = Pick<Metrics, "toolCall" | "sandboxStarted" | "sandboxesLeaked">;

function createToolMetrics(registry: Registry, options: CreateMetricsOptions): ToolMetrics {
  const registers = [registry];
  const calls = new Counter({
    name: "skilldock_tool_calls_total",
    help: "Tool calls, by the status of their receipt.",
    labelNames: ["capability", "status"],
    registers,
  });
  const starts = new Histogram({
    name: "skilldock_sandbox_start_seconds",
    help: "From the request for a sandbox to its readiness.",
    buckets: SANDBOX_BUCKETS,
    registers,
  });
  const leaks = new Counter({
    name: "skilldock_sandbox_leaks_total",
    help: "Sandboxes that outlived their run and were removed by a sweep.",
    registers,
  });
  const capability = boundedLabel(options.capabilities);
  return {
    toolCall: (call) => calls.inc({ capability: capability(call.capability), status: call.status }),
    sandboxStarted: (seconds) => starts.observe(seconds),
    sandboxesLeaked: (count) => leaks.inc(count),
  };
}

type Gauges = Pick<Metrics, "runsActive" | "sandboxActive" | "backlogRuns">;

function createGauges(registry: Registry): Gauges {
  let readRuns = (): number => 0;
  let readSandboxes = (): number => 0;
  const backlog = new Gauge({
    name: "skilldock_backlog_runs",
    help: "Runs that no attempt holds yet, over the whole lane: aggregate with max.",
    registers: [registry],
  });
  const runs = new Gauge({
    name: "skilldock_runs_active",
    help: "Runs that execute on this worker now.",
    registers: [],
    collect() {
      this.set(readRuns());
    },
  });
  const sandboxes = new Gauge({
    name: "skilldock_sandbox_active",
    help: "Sandboxes that this worker holds now.",
    registers: [],
    collect() {
      this.set(readSandboxes());
    },
  });
  registry.registerMetric(runs);
  registry.registerMetric(sandboxes);
  return {
    runsActive(read) {
      readRuns = read;
    },
    sandboxActive(read) {
      readSandboxes = read;
    },
    backlogRuns: (count) => backlog.set(count),
  };
}

function setBuildInfo(registry: Registry): void {
  const info = new Gauge({
    name: "skilldock_build_info",
    help: "Always 1: what runs here.",
    labelNames: ["version", "node"],
    registers: [registry],
  });
  info.set({ version: packageVersion(), node: process.version }, 1);
}

function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED_DEFAULTS) registry.removeSingleMetric(name);
}

/** The outcome label of a model request that failed with `code`. */
export function toModelOutcome(code: string): ModelOutcome {
  switch (code) {
    case "model_unavailable":
    case "model_refused":
    case "model_protocol":
      return code;
    default:
      return "internal";
  }
}
