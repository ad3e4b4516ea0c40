import type { CallerTool } from "./tool.ts";

/** The tools of a process, compiled once. */
export interface ToolRegistry {
  readonly tools: readonly CallerTool[];
}
