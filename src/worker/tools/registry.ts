import { compileForeignSchema } from "../../shared/contracts/foreign-schema.ts";
import type { Effects } from "../../shared/contracts/receipt.ts";
import { RunError } from "../../shared/errors.ts";
import type { ModelTool } from "../model/model.ts";
import type { CallerTool } from "./tool.ts";
import { WORKSPACE_OPERATIONS, type WorkspaceOperation } from "./workspace-operations.ts";

const CALLER_ID = /^caller\.([a-z][a-z0-9_]{0,49})@[1-9][0-9]{0,5}$/;
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 600_000;

/** One thing that a model may call, with its schemas compiled. */
export interface Capability {
  /** Stable id, `workspace.read@1`, `caller.lookup_order@1`: the only name that authorises. */
  readonly id: string;
  readonly modelTool: ModelTool;
  readonly effects: Effects;
  /** A second dispatch with the same idempotency key does nothing more. */
  readonly idempotent: boolean;
  /** What is wrong with the arguments; empty: nothing. */
  readonly checkArguments: (args: unknown) => readonly string[];
  readonly implementation:
    | { readonly kind: "workspace"; readonly operation: WorkspaceOperation }
    | {
        readonly kind: "caller";
        readonly handler: CallerTool["handler"];
        readonly timeoutMs: number;
        readonly checkOutput: (output: unknown) => readonly string[];
      };
}

/** Every capability that a process can serve, by stable id. Built once, then only read. */
export type ToolRegistry = ReadonlyMap<string, Capability>;

/**
 * Compiles the workspace capabilities and the registered caller tools.
 *
 * @throws {RunError} `invalid_configuration`: a malformed id, schema, time-out, or an id given twice.
 */
export function createToolRegistry(tools: readonly CallerTool[] = []): ToolRegistry {
  const registry = new Map<string, Capability>();
  for (const operation of Object.values(WORKSPACE_OPERATIONS)) {
    registry.set(operation.id, toWorkspaceCapability(operation));
  }
  if (!Array.isArray(tools)) throw new RunError("invalid_configuration", { message: "Tools must be a list." });
  for (const tool of tools as readonly CallerTool[]) {
    // From plain JavaScript anything may come.
    if (typeof tool !== "object" || tool === null || typeof tool.id !== "string") {
      throw new RunError("invalid_configuration", { message: "A tool must be an object with an id." });
    }
    if (registry.has(tool.id)) throw misconfigured(tool, "is registered twice");
    registry.set(tool.id, toCallerCapability(tool));
  }
  return registry;
}

function toWorkspaceCapability(operation: WorkspaceOperation): Capability {
  return {
    id: operation.id,
    modelTool: { name: operation.modelName, description: operation.description, inputSchema: operation.inputSchema },
    effects: operation.effects,
    idempotent: false,
    checkArguments: compile(operation.inputSchema, operation.id),
    implementation: { kind: "workspace", operation },
  };
}

function toCallerCapability(tool: CallerTool): Capability {
  const name = CALLER_ID.exec(tool.id)?.[1];
  if (name === undefined) throw misconfigured(tool, "needs an id of the form caller.<name>@<version>");
  if (typeof tool.handler !== "function") throw misconfigured(tool, "needs a handler");
  if (!["none", "read", "write", "external"].includes(tool.effects)) {
    throw misconfigured(tool, "needs effects: none, read, write or external");
  }
  const timeoutMs = tool.timeoutMs ?? DEFAULT_TIMEOUT_MS;
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > MAX_TIMEOUT_MS) {
    throw misconfigured(tool, `needs a timeoutMs from 1 to ${MAX_TIMEOUT_MS}`);
  }
  return {
    id: tool.id,
    modelTool: { name: `caller_${name}`, description: tool.description, inputSchema: tool.inputSchema },
    effects: tool.effects,
    idempotent: tool.idempotent ?? false,
    checkArguments: compile(tool.inputSchema, `${tool.id} inputSchema`),
    implementation: {
      kind: "caller",
      handler: tool.handler,
      timeoutMs,
      checkOutput: tool.outputSchema === undefined ? () => [] : compile(tool.outputSchema, `${tool.id} outputSchema`),
    },
  };
}

function compile(schema: Readonly<Record<string, unknown>>, what: string): (value: unknown) => readonly string[] {
  let check: ReturnType<typeof compileForeignSchema>;
  try {
    check = compileForeignSchema(schema, { what });
  } catch (error) {
    const reason = error instanceof RunError ? error.message : "is not a JSON Schema";
    throw new RunError("invalid_configuration", { message: `Tool schema ${what}: ${reason}`, cause: error });
  }
  return (value) => check(value).map((problem) => problem.message);
}

function misconfigured(tool: CallerTool, what: string): RunError {
  return new RunError("invalid_configuration", {
    message: `Tool ${JSON.stringify(tool.id).slice(0, 80)} ${what}.`,
  });
}
