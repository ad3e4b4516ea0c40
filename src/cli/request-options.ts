import { type Command, Option } from "commander";
import type { RunRequestInput } from "../shared/contracts/request.ts";
import { RunError } from "../shared/errors.ts";
import {
  collectList,
  collectPairs,
  parseCount,
  parseDiscover,
  parseDurationMs,
  parsePositive,
  parseUsd,
} from "./option-values.ts";
import { readJsonObject, readText } from "./read-input.ts";
import { defaultTenant, type CommonOptions } from "./common-options.ts";
import type { Terminal } from "./terminal.ts";

/** The options that make a request, as commander hands them over. */
export interface RequestFlags {
  readonly request?: string;
  readonly skill?: string;
  readonly discover?: "all" | "none" | readonly string[];
  readonly query?: string;
  readonly arguments?: string;
  readonly allow?: readonly string[];
  readonly model?: string;
  readonly thread?: string;
  readonly maxTurns?: number;
  readonly maxToolCalls?: number;
  readonly wallClock?: number;
  readonly maxOutputBytes?: number;
  readonly maxTotalTokens?: number;
  readonly maxCostUsd?: number;
  readonly maxAttempts?: number;
  readonly maxQueueWait?: number;
  readonly idempotencyKey?: string;
  readonly runId?: string;
  readonly correlationId?: string;
  readonly priority?: number;
  readonly startAfter?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly responseSchema?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly network?: string;
  readonly onWorkerLoss?: string;
}

/** Adds every option of a request to a command. What they may hold is the contract's to say, not theirs. */
export function addRequestOptions(command: Command): Command {
  return command
    .option("--skill <ref>", "the skill to run, optionally pinned: <ref>@sha256:<digest>")
    .option("--discover <which>", "what the model may find: all, none, or refs with commas between", parseDiscover)
    .option("--query <text>", "the user's text; - reads stdin")
    .option("--arguments <text>", "text for the skill's $ARGUMENTS")
    .option(
      "--allow <capability>",
      "a capability such as workspace.read@1; repeat it, or list with commas",
      collectList,
    )
    .option("--model <route>", "a model route, or <route>:<model>")
    .option("--thread <id>", "the conversation that the run belongs to")
    .option("--request <file>", "a whole request as JSON; - reads stdin; other options go over its fields")
    .option("--max-turns <n>", "model turns", parsePositive)
    .option("--max-tool-calls <n>", "tool calls, blocked ones included", parseCount)
    .option("--wall-clock <duration>", "from the run's start to its end", parseDurationMs)
    .option("--max-output-bytes <n>", "assistant text of the whole run", parsePositive)
    .option("--max-total-tokens <n>", "tokens of all model calls", parsePositive)
    .option("--max-cost-usd <usd>", "cost of all model calls", parseUsd)
    .option("--max-attempts <n>", "attempts that may be lost with their worker", parsePositive)
    .option("--max-queue-wait <duration>", "how long the run may wait for its first attempt", parseDurationMs)
    .option("--response-schema <file>", "JSON Schema that the final text must satisfy")
    .option("--env <name=value>", "environment of workspace commands; repeat it", collectPairs)
    .addOption(new Option("--network <value>", "network of the workspace; the contract knows only disabled").hideHelp())
    .option("--idempotency-key <key>", "the same key and request give the same run")
    .option("--run-id <id>", "default: one is made")
    .option("--correlation-id <id>", "recorded, and in every log line")
    .option("--priority <n>", "0 to 9, 9 first", parseCount)
    .option("--start-after <time>", "ISO 8601 UTC; the run is not due before")
    .option("--metadata <name=value>", "your own labels; repeat it", collectPairs)
    .option("--on-worker-loss <what>", "fail or restart, where a run cannot be resumed faithfully");
}

/**
 * Makes the request that the options ask for. It is not validated here: whoever takes it does that.
 *
 * @throws {RunError} `invalid_request`: no skill and nothing to discover, stdin asked for twice, an unreadable file.
 */
export async function buildRequest(terminal: Terminal, flags: RequestFlags & CommonOptions): Promise<RunRequestInput> {
  const { stdin } = terminal;
  if ([flags.request, flags.query, flags.responseSchema].filter((source) => source === "-").length > 1) {
    throw new RunError("invalid_request", { message: "Only one option can read stdin." });
  }
  const base = flags.request === undefined ? {} : await readJsonObject(flags.request, stdin);
  const request = dropAbsent({
    tenantId: defaultTenant(terminal),
    ...base,
    ...dropAbsent({
      tenantId: flags.tenant,
      runId: flags.runId,
      idempotencyKey: flags.idempotencyKey,
      correlationId: flags.correlationId,
      skill: flags.skill,
      discover: flags.discover,
      arguments: flags.arguments,
      query: flags.query === "-" ? await readText("-", stdin) : flags.query,
      threadId: flags.thread,
      model: flags.model,
      allowedCapabilities: flags.allow,
      limits: over(base["limits"], limitsOf(flags)),
      onWorkerLoss: flags.onWorkerLoss,
      workspacePolicy: over(base["workspacePolicy"], { environment: flags.env, network: flags.network }),
      responseSchema:
        flags.responseSchema === undefined ? undefined : await readJsonObject(flags.responseSchema, stdin),
      priority: flags.priority,
      startAfter: flags.startAfter,
      metadata: flags.metadata,
    }),
  });
  if (flags.request === undefined && flags.skill === undefined && flags.discover === undefined) {
    throw new RunError("invalid_request", { message: "Give --skill <ref>, or --discover all." });
  }
  return request as unknown as RunRequestInput; // the producer or the executor validates it
}

function limitsOf(flags: RequestFlags): Readonly<Record<string, number | undefined>> {
  return {
    maxTurns: flags.maxTurns,
    maxToolCalls: flags.maxToolCalls,
    wallClockMs: flags.wallClock,
    maxOutputBytes: flags.maxOutputBytes,
    maxTotalTokens: flags.maxTotalTokens,
    maxCostUsd: flags.maxCostUsd,
    maxAttempts: flags.maxAttempts,
    maxQueueWaitMs: flags.maxQueueWait,
  };
}

/** The fields given by options, over those of the request's file; undefined where there are none. */
function over(base: unknown, given: Readonly<Record<string, unknown>>): unknown {
  const fields = dropAbsent(given);
  if (Object.keys(fields).length === 0) return base;
  return typeof base === "object" && base !== null ? { ...base, ...fields } : fields;
}

function dropAbsent(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
