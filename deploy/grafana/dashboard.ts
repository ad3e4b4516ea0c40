/**
 * The dashboard, by question. Grafana reads `dashboards/skilldock.json`, which this writes: edit here, never there.
 *
 *     node deploy/grafana/dashboard.ts && oxfmt deploy/grafana
 */
import { writeFileSync } from "node:fs";

/** The committed file. */
export const DASHBOARD_FILE: string = new URL("dashboards/skilldock.json", import.meta.url).pathname;

interface Query {
  readonly expr: string;
  /** Grafana's legend template, such as `{{status}}`. */
  readonly legend: string;
}

interface Panel {
  readonly kind: "stat" | "timeseries";
  readonly title: string;
  /** What to think when it moves. */
  readonly help: string;
  /** Grafana's unit id: `short`, `s`, `percentunit`, `ops`. */
  readonly unit: string;
  /** Of 24 columns. */
  readonly width: number;
  readonly queries: readonly Query[];
}

interface Row {
  readonly question: string;
  readonly panels: readonly Panel[];
}

const STAT_HEIGHT = 4;
const GRAPH_HEIGHT = 8;
const COLUMNS = 24;
const DATASOURCE = { type: "prometheus", uid: "${datasource}" };

const rate = (series: string): string => `rate(${series}[$__rate_interval])`;

/** A ratio that is 0, not absent, where the numerator has no series yet. */
const share = (by: string, part: string, whole: string): string =>
  `(sum by (${by}) (${rate(part)}) or 0 * sum by (${by}) (${rate(whole)})) / sum by (${by}) (${rate(whole)})`;

/** One query for each quantile of a histogram, over all workers. */
function quantiles(histogram: string, of: readonly number[], label?: string): readonly Query[] {
  const by = label === undefined ? "le" : `le, ${label}`;
  const prefix = label === undefined ? "" : `{{${label}}} `;
  return of.map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (${by}) (${rate(`${histogram}_bucket`)}))`,
    legend: `${prefix}p${Math.round(quantile * 100)}`,
  }));
}

const ROWS: readonly Row[] = [
  {
    question: "Is it serving?",
    panels: [
      stat("Workers up", "Targets that answer the scrape.", 'sum(up{job="skilldock"})'),
      stat("Runs active", "Being executed now, all workers.", "sum(skilldock_runs_active)"),
      stat(
        "Runs waiting",
        "No attempt holds them yet. Every worker reports the same figure.",
        "max(skilldock_backlog_runs)",
      ),
      stat(
        "Versions",
        "More than one is normal only during a rolling deploy.",
        "count(count by (version) (skilldock_build_info))",
      ),
      graph(
        "Runs ended",
        "By terminal state. `failed` is the platform's or the provider's fault, the others are not.",
        "ops",
        [{ expr: `sum by (status) (${rate("skilldock_runs_total")})`, legend: "{{status}}" }],
      ),
      graph(
        "Failed share by skill",
        "One skill alone: look at its last deploy. All together: models, sandboxes or Redis.",
        "percentunit",
        [
          {
            expr: share("skill", 'skilldock_runs_total{status="failed"}', "skilldock_runs_total"),
            legend: "{{skill}}",
          },
        ],
      ),
      graph(
        "Run duration",
        "From the first start of a run to its end.",
        "s",
        quantiles("skilldock_run_duration_seconds", [0.5, 0.95, 0.99]),
      ),
      graph(
        "Attempts by reason",
        "Every run has a first attempt. Others are take-overs from lost or stopped workers.",
        "ops",
        [{ expr: `sum by (reason) (${rate("skilldock_attempts_total")})`, legend: "{{reason}}" }],
      ),
      graph(
        "Fenced writes",
        "Refused writes of workers that no longer own the run. A few after a pause or a kill; steadily: workers that stall.",
        "short",
        [{ expr: "sum(increase(skilldock_fenced_writes_total[$__rate_interval]))", legend: "refused" }],
      ),
    ],
  },
  {
    question: "Who waits?",
    panels: [
      graph(
        "Queue wait",
        "From the acceptance of a run to its first start.",
        "s",
        quantiles("skilldock_queue_wait_seconds", [0.5, 0.95, 0.99]),
      ),
      graph("Waiting and active", "Waiting rises while active is flat: too few slots.", "short", [
        { expr: "max(skilldock_backlog_runs)", legend: "waiting" },
        { expr: "sum(skilldock_runs_active)", legend: "active" },
      ]),
      graph("Active by worker", "One flat at 0 while others are full takes no runs.", "short", [
        { expr: "skilldock_runs_active", legend: "{{instance}}" },
      ]),
    ],
  },
  {
    question: "What do runs cost?",
    panels: [
      graph("Tokens by model", "Cached input is part of input, reasoning is part of output: do not add them.", "ops", [
        { expr: `sum by (model, kind) (${rate("skilldock_tokens_total")})`, legend: "{{model}} {{kind}}" },
      ]),
      graph("Tokens a run", "Input and output of all models, for each run that ended.", "short", [
        {
          expr: `sum(${rate('skilldock_tokens_total{kind=~"input|output"}')}) / sum(${rate("skilldock_runs_total")})`,
          legend: "tokens a run",
        },
      ]),
      graph("Model turns", "Turns of the loop, by model.", "ops", [
        { expr: `sum by (model) (${rate("skilldock_turns_total")})`, legend: "{{model}}" },
      ]),
      graph("Tool calls", "A failed call fails no run; the model is told.", "ops", [
        {
          expr: `sum by (capability, status) (${rate("skilldock_tool_calls_total")})`,
          legend: "{{capability}} {{status}}",
        },
      ]),
      graph(
        "Tokens beyond a budget",
        "What was spent above a limit because its last answer was longer than expected.",
        "short",
        [{ expr: "sum(increase(skilldock_budget_overshoot_tokens_total[$__rate_interval]))", legend: "tokens" }],
      ),
    ],
  },
  {
    question: "Are the models healthy?",
    panels: [
      graph("Requests by outcome", "As the worker saw it: ok, aborted by us, or the code it failed with.", "ops", [
        {
          expr: `sum by (model, outcome) (${rate("skilldock_model_request_seconds_count")})`,
          legend: "{{model}} {{outcome}}",
        },
      ]),
      graph("Error share", "Requests that we aborted count neither way.", "percentunit", [
        {
          expr: share(
            "model",
            'skilldock_model_request_seconds_count{outcome!~"ok|aborted"}',
            'skilldock_model_request_seconds_count{outcome!="aborted"}',
          ),
          legend: "{{model}}",
        },
      ]),
      graph(
        "Request duration",
        "Whole answers, until the last token.",
        "s",
        quantiles("skilldock_model_request_seconds", [0.5, 0.95], "model"),
      ),
    ],
  },
  {
    question: "And the sandboxes?",
    panels: [
      graph("Active", "Sandboxes that exist now, by worker.", "short", [
        { expr: "skilldock_sandbox_active", legend: "{{instance}}" },
      ]),
      graph(
        "Start",
        "How long a run waits for its sandbox.",
        "s",
        quantiles("skilldock_sandbox_start_seconds", [0.5, 0.95]),
      ),
      graph("Started", "Only runs that use a workspace tool start one.", "ops", [
        { expr: `sum(${rate("skilldock_sandbox_start_seconds_count")})`, legend: "started" },
      ]),
      graph(
        "Leaks",
        "Removed by the sweeper although no run owned them. Expected only after a worker was killed.",
        "short",
        [{ expr: "sum(increase(skilldock_sandbox_leaks_total[$__rate_interval]))", legend: "leaked" }],
      ),
    ],
  },
];

function stat(title: string, help: string, expr: string): Panel {
  return { kind: "stat", title, help, unit: "short", width: 6, queries: [{ expr, legend: "" }] };
}

function graph(title: string, help: string, unit: string, queries: readonly Query[]): Panel {
  return { kind: "timeseries", title, help, unit, width: 8, queries };
}

/** @returns The dashboard as Grafana reads it: schema 41, one variable, the datasource. */
export function buildDashboard(): Readonly<Record<string, unknown>> {
  return {
    uid: "skilldock",
    title: "Skilldock",
    description: "Written by deploy/grafana/dashboard.ts.",
    tags: ["skilldock"],
    schemaVersion: 41,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "browser",
    annotations: { list: [] },
    links: [],
    templating: {
      list: [
        { name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus", current: {}, hide: 0 },
      ],
    },
    panels: layOut(ROWS),
  };
}

function layOut(rows: readonly Row[]): readonly unknown[] {
  const panels: unknown[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: "row",
      title: row.question,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    let height = 0;
    for (const panel of row.panels) {
      const h = panel.kind === "stat" ? STAT_HEIGHT : GRAPH_HEIGHT;
      if (x + panel.width > COLUMNS || (height !== 0 && h !== height)) {
        y += height;
        x = 0;
      }
      height = h;
      panels.push(toGrafana(panel, panels.length + 1, { x, y, w: panel.width, h }));
      x += panel.width;
    }
    y += height;
  }
  return panels;
}

function toGrafana(panel: Panel, id: number, gridPos: Readonly<Record<string, number>>): unknown {
  return {
    id,
    type: panel.kind,
    title: panel.title,
    description: panel.help,
    datasource: DATASOURCE,
    gridPos,
    fieldConfig: { defaults: { unit: panel.unit, min: 0 }, overrides: [] },
    options:
      panel.kind === "stat"
        ? { reduceOptions: { calcs: ["lastNotNull"] }, graphMode: "area", colorMode: "none" }
        : { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
    targets: panel.queries.map((query, index) => ({
      refId: String.fromCharCode("A".charCodeAt(0) + index),
      datasource: DATASOURCE,
      expr: query.expr,
      legendFormat: query.legend,
      ...(panel.kind === "stat" ? { instant: true } : { range: true }),
    })),
  };
}

if (import.meta.main) writeFileSync(DASHBOARD_FILE, `${JSON.stringify(buildDashboard(), null, 2)}\n`);
