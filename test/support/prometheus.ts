import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parse, stringify } from "yaml";
import { findFreePort } from "./redis.ts";

/**
 * A real Prometheus for one test: the configuration and rules of `deploy/prometheus`, with the targets and the pace of a
 * test in place of the deployment's. On a free loopback port, in a directory of its own, killed at the end.
 */

const DEPLOYED = new URL("../../deploy/prometheus/", import.meta.url).pathname;
const HOST = "127.0.0.1";
const START_TIMEOUT_MS = 20_000;
const QUERY_TIMEOUT_MS = 10_000;
const POLL_MS = 100;

/**
 * False where this machine has no Prometheus and promtool: their tests are skipped, aloud. Always true under `CI=true`:
 * there they fail.
 */
export const hasPrometheus: boolean = process.env["CI"] === "true" || hasTools();

/** One series of an instant query's answer. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  /** NaN and infinities included. */
  readonly value: number;
}

export interface StartPrometheusOptions {
  /** `host:port` of what the job `skilldock` scrapes. */
  readonly targets: readonly string[];
}

export interface TestPrometheus extends AsyncDisposable {
  readonly url: string;
  /** An instant query. Throws an Error with Prometheus' message where the expression is wrong. */
  query(expr: string): Promise<readonly Sample[]>;
  /** Asks until `accept` says yes; throws an Error with the last answer after `timeoutMs`. Default 20,000. */
  until(expr: string, accept: (samples: readonly Sample[]) => boolean, timeoutMs?: number): Promise<readonly Sample[]>;
  /** Resolves when every target was scraped once more, beginning after this call, and the rules were evaluated. */
  nextScrape(): Promise<void>;
}

function hasTools(): boolean {
  const missing = ["prometheus", "promtool"].filter(
    (tool) => spawnSync(tool, ["--version"], { stdio: "ignore" }).status !== 0,
  );
  if (missing.length > 0) console.warn(`SKIPPED, not installed: ${missing.join(", ")} (apt-get install prometheus)`);
  return missing.length === 0;
}

const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Starts a Prometheus and waits until it is ready. */
export async function startPrometheus(options: StartPrometheusOptions): Promise<TestPrometheus> {
  const dir = mkdtempSync(join(tmpdir(), "skilldock-prometheus-"));
  writeFileSync(join(dir, "prometheus.yml"), configFor(options.targets));
  copyFileSync(join(DEPLOYED, "rules.yml"), join(dir, "rules.yml"));
  const port = await findFreePort();
  const url = `http://${HOST}:${port}`;
  const child = spawn(
    "prometheus",
    [
      `--config.file=${join(dir, "prometheus.yml")}`,
      `--storage.tsdb.path=${join(dir, "data")}`,
      `--web.listen-address=${HOST}:${port}`,
      "--log.level=warn",
    ],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  children.add(child);
  let output = "";
  child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const stop = async (): Promise<void> => {
    await kill(child);
    children.delete(child);
    rmSync(dir, { recursive: true, force: true });
  };
  try {
    await untilReady(url, child);
  } catch (error) {
    await stop();
    throw new Error(`prometheus did not start: ${output}`, { cause: error });
  }
  return { url, ...queries(url), [Symbol.asyncDispose]: stop };
}

function queries(url: string): Pick<TestPrometheus, "query" | "until" | "nextScrape"> {
  const query = (expr: string): Promise<readonly Sample[]> => ask(url, expr);
  const until: TestPrometheus["until"] = async (expr, accept, timeoutMs = START_TIMEOUT_MS) => {
    const signal = AbortSignal.timeout(timeoutMs);
    for (;;) {
      const samples = await query(expr);
      if (accept(samples)) return samples;
      if (signal.aborted) throw new Error(`${expr} stayed at ${JSON.stringify(samples)} for ${timeoutMs} ms`);
      await pause(POLL_MS);
    }
  };
  return {
    query,
    until,
    async nextScrape() {
      await until('timestamp(up{job="skilldock"})', isLaterThanNow());
      // A rule looks at what was scraped before it.
      await until("timestamp(skilldock:workers_up:sum)", isLaterThanNow());
    },
  };
}

function isLaterThanNow(): (samples: readonly Sample[]) => boolean {
  const now = Date.now() / 1_000;
  return (samples) => samples.length > 0 && samples.every((sample) => sample.value > now);
}

/** The deployment's configuration; only where to look and how often is the test's. */
function configFor(targets: readonly string[]): string {
  // Written by us, and checked by promtool.
  const config = parse(readFileSync(join(DEPLOYED, "prometheus.yml"), "utf8")) as {
    global: Record<string, string>;
    scrape_configs: { job_name: string }[];
  };
  config.global = { ...config.global, scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" };
  config.scrape_configs = config.scrape_configs
    .filter((scrape) => scrape.job_name === "skilldock")
    .map((scrape) => ({ ...scrape, dns_sd_configs: [], static_configs: [{ targets }] }));
  return stringify(config);
}

async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const signal = AbortSignal.timeout(START_TIMEOUT_MS);
  while (child.exitCode === null && child.signalCode === null) {
    const ready = await fetch(`${url}/-/ready`, { signal }).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    signal.throwIfAborted();
    await pause(POLL_MS);
  }
  throw new Error(`it ended with code ${child.exitCode}`);
}

async function ask(url: string, expr: string): Promise<readonly Sample[]> {
  const response = await fetch(`${url}/api/v1/query`, {
    method: "POST",
    body: new URLSearchParams({ query: expr }),
    signal: AbortSignal.timeout(QUERY_TIMEOUT_MS),
  });
  // Prometheus' HTTP API, v1: an instant query gives a vector or a scalar.
  const answer = (await response.json()) as
    | { status: "error"; error: string }
    | {
        status: "success";
        data:
          | { resultType: "vector"; result: { metric: Record<string, string>; value: [number, string] }[] }
          | { resultType: "scalar"; result: [number, string] };
      };
  if (answer.status === "error") throw new Error(`${expr}: ${answer.error}`);
  if (answer.data.resultType === "scalar") return [{ labels: {}, value: toNumber(answer.data.result[1]) }];
  return answer.data.result.map(({ metric, value }) => ({ labels: metric, value: toNumber(value[1]) }));
}

function toNumber(text: string): number {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGKILL");
  await exit;
}
