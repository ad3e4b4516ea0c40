import { cpus, loadavg } from "node:os";
import type { Figure, Goal, Spread } from "./measure.ts";

/** The figures as text: the ratio first, then both absolute values, then the goals. */
export function describeFigure(figure: Figure): string {
  const { name, ratio, ours, baseline, baselineName, unit, goals, notes = [] } = figure;
  return [
    name,
    `  ratio     ${round(ratio.median)} × (${range(ratio)})   goal ${goals.map(describeGoal).join(", ")}`,
    `  skilldock ${round(ours.median)} ${unit} (${range(ours)})`,
    `  baseline  ${round(baseline.median)} ${unit} (${range(baseline)}): ${baselineName}`,
    ...notes.map((note) => `  ${note}`),
  ].join("\n");
}

/** What the figures were measured on. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? "unknown processor";
  const load = loadavg()[0] ?? 0;
  return `${cpus().length} × ${model}, Node ${process.versions.node}, load ${load.toFixed(1)} at the start`;
}

/** Three significant digits. */
export function round(value: number): string {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 3 });
}

function range(spread: Spread): string {
  return `${round(spread.least)}–${round(spread.most)}`;
}

function describeGoal({ text, met }: Goal): string {
  return `${text} ${met ? "met" : "not met"}`;
}
