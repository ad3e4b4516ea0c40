import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import { describe, expect, test } from "vitest";
import { buildDashboard, DASHBOARD_FILE } from "../../deploy/grafana/dashboard.ts";
import { hasPrometheus } from "../support/prometheus.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url).pathname;

function promtool(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
  const run = spawnSync("promtool", args, { cwd: DEPLOY, encoding: "utf8" });
  return { status: run.status, output: `${run.stdout}${run.stderr}${run.error?.message ?? ""}` };
}

describe.skipIf(!hasPrometheus)("promtool", () => {
  test("accepts the configuration and the rules that it names", () => {
    const run = promtool("check", "config", "prometheus/prometheus.yml");
    expect(run.status, run.output).toBe(0);
    expect(run.output).toContain("1 rule files found");
  });

  test("sees each alert fire when it should, and none when all is well", () => {
    const run = promtool("test", "rules", "prometheus/rules.test.yml");
    expect(run.status, run.output).toBe(0);
  });
});

describe("alerts", () => {
  // Written by us, and checked by promtool.
  const rules = parse(readFileSync(`${DEPLOY}prometheus/rules.yml`, "utf8")) as {
    readonly groups: readonly { readonly rules: readonly Record<string, unknown>[] }[];
  };
  const alerts = rules.groups.flatMap((group) => group.rules).filter((rule) => "alert" in rule);
  const tested = readFileSync(`${DEPLOY}prometheus/rules.test.yml`, "utf8");

  test.each(alerts.map((alert) => [String(alert["alert"]), alert] as const))(
    "%s says whom it wakes, what is wrong and what to do, and has a test",
    (name, alert) => {
      expect(alert).toMatchObject({
        labels: { severity: expect.stringMatching(/^(page|ticket)$/) },
        annotations: { summary: expect.stringMatching(/.{20}/), runbook: expect.stringMatching(/.{40}/s) },
      });
      expect(tested).toContain(name);
    },
  );
});

test("the dashboard's file is what its source makes", () => {
  expect(JSON.parse(readFileSync(DASHBOARD_FILE, "utf8"))).toEqual(buildDashboard());
});
