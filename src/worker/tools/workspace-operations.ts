import type { Effects } from "../../shared/contracts/receipt.ts";

/** A built-in capability of the workspace, as the model sees it. */
export interface WorkspaceOperation {
  readonly name: "list" | "read" | "write" | "execute";
  readonly id: string;
  readonly modelName: string;
  readonly description: string;
  readonly effects: Effects;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

const path = {
  type: "string",
  minLength: 1,
  maxLength: 1_024,
  description: "Path of a file, relative to /workspace or starting with /workspace/.",
};

/** The four workspace capabilities. Their effects end with the run: the workspace is gone then. */
export const WORKSPACE_OPERATIONS: Readonly<Record<WorkspaceOperation["name"], WorkspaceOperation>> = {
  list: {
    name: "list",
    id: "workspace.list@1",
    modelName: "workspace_list",
    description: "Lists the files of the workspace with their sizes in bytes.",
    effects: "read",
    inputSchema: { type: "object", additionalProperties: false, properties: {} },
  },
  read: {
    name: "read",
    id: "workspace.read@1",
    modelName: "workspace_read",
    description: "Reads a file of the workspace, or a byte range of it.",
    effects: "read",
    inputSchema: {
      type: "object",
      additionalProperties: false,
      required: ["path"],
      properties: {
        path,
        offset: { type: "integer", minimum: 0, description: "First byte. Default 0." },
        length: { type: "integer", minimum: 1, description: "Bytes at most. Default 100,000." },
      },
    },
  },
  write: {
    name: "write",
    id: "workspace.write@1",
    modelName: "workspace_write",
    description: "Writes a whole file in the workspace, replacing what was there. Parent directories are made.",
    effects: "write",
    inputSchema: {
      type: "object",
      additionalProperties: false,
      required: ["path", "content"],
      properties: {
        path,
        content: { type: "string" },
        encoding: { enum: ["utf8", "base64"], description: "How content is encoded. Default utf8." },
      },
    },
  },
  execute: {
    name: "execute",
    id: "workspace.execute_command@1",
    modelName: "workspace_execute_command",
    description:
      "Runs a program in the workspace, without a shell and without network. " +
      'argv is the exact argument vector, such as ["python3", "script.py", "--flag"].',
    effects: "write",
    inputSchema: {
      type: "object",
      additionalProperties: false,
      required: ["argv"],
      properties: {
        argv: { type: "array", minItems: 1, maxItems: 256, items: { type: "string" } },
        stdin: { type: "string", description: "Text for the program's standard input." },
        timeoutMs: { type: "integer", minimum: 1, description: "Milliseconds; at most what the policy allows." },
      },
    },
  },
};
