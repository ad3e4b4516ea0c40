import type { Workspace, WorkspaceOutcome } from "../../sandbox/workspace.ts";
import type { WorkspaceOperation } from "./workspace-operations.ts";
import { failed, succeeded, type ToolOutcome } from "./outcome.ts";

export interface WorkspaceCall {
  readonly operation: WorkspaceOperation;
  /** Valid for the operation's input schema. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

/**
 * Carries out a workspace operation.
 *
 * @throws {RunError} `sandbox_failed`: the engine broke, the run cannot go on. Or `signal.reason`.
 */
export async function callWorkspace(workspace: Workspace, call: WorkspaceCall): Promise<ToolOutcome> {
  const outcome = await perform(workspace, call);
  if (!outcome.ok) {
    return failed(outcome.code, {
      message: outcome.message,
      ...(outcome.value === undefined ? {} : { facts: outcome.value }),
    });
  }
  const told = succeeded(outcome.value);
  const { path, digest } = outcome.value;
  // A text that was cut for the model is not the resource: its digest would claim more than was seen.
  const isResource =
    !told.truncated && call.operation.name === "read" && typeof path === "string" && typeof digest === "string";
  return isResource ? { ...told, resource: { path, digest } } : told;
}

/** The arguments have been held against the operation's schema: each cast repeats what that schema says. */
async function perform(workspace: Workspace, { operation, args, signal }: WorkspaceCall): Promise<WorkspaceOutcome> {
  switch (operation.name) {
    case "list":
      return workspace.list(signal);
    case "read":
      return workspace.read(args as unknown as Parameters<Workspace["read"]>[0], signal);
    case "write":
      return workspace.write(args as unknown as Parameters<Workspace["write"]>[0], signal);
    case "execute":
      return workspace.execute(args as unknown as Parameters<Workspace["execute"]>[0], signal);
    default:
      return operation.name satisfies never;
  }
}
