import type { RunResult, Usage } from "../shared/contracts/result.ts";

/** Numbers as people read them. */

/** `1,234`. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** `1 turn`, `2 turns`. */
export function formatPlural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** `12 ms`, `4.2 s`, `3 min 5 s`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 1_000) return `${Math.round(durationMs)} ms`;
  if (durationMs < 60_000) return `${(durationMs / 1_000).toFixed(1)} s`;
  return `${Math.floor(durationMs / 60_000)} min ${Math.floor((durationMs % 60_000) / 1_000)} s`;
}

/** One line about how a run ended and what it used: `succeeded in 1.2 s · 2 turns · 1 tool call · 345 tokens`. */
export function summarize(result: RunResult): string {
  return `${result.status.replace("_", " ")} in ${formatDuration(result.timings.durationMs)} · ${summarizeUsage(result.usage)}`;
}

function summarizeUsage(usage: Usage): string {
  const parts = [
    formatPlural(usage.turns, "turn"),
    formatPlural(usage.toolCalls, "tool call"),
    formatPlural(usage.totalTokens, "token"),
  ];
  if (usage.costUsd !== undefined) parts.push(`$${usage.costUsd.toFixed(4)}`);
  return parts.join(" · ");
}
