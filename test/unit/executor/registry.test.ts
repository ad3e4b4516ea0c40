import { expect, test } from "vitest";
import { createToolRegistry } from "../../../src/worker/tools/registry.ts";
import type { CallerTool } from "../../../src/worker/tools/tool.ts";

const tool: CallerTool = {
  id: "caller.ping@1",
  description: "Answers.",
  inputSchema: { type: "object" },
  effects: "none",
  handler: () => "pong",
};

test("workspace capabilities and caller tools stand side by side, by stable id", () => {
  expect([...createToolRegistry([tool]).keys()]).toEqual([
    "workspace.list@1",
    "workspace.read@1",
    "workspace.write@1",
    "workspace.execute_command@1",
    "caller.ping@1",
  ]);
});

test.each<readonly [string, unknown]>([
  ["null in the list", [null]],
  ["a tool without anything", [{}]],
  ["no list", {}],
  ["another namespace", [{ ...tool, id: "workspace.read@1" }]],
  ["an id without version", [{ ...tool, id: "caller.ping" }]],
  ["the same id twice", [tool, tool]],
  ["no handler", [{ ...tool, handler: undefined }]],
  ["unknown effects", [{ ...tool, effects: "many" }]],
  ["a time-out of nothing", [{ ...tool, timeoutMs: 0 }]],
  ["a schema that is none", [{ ...tool, inputSchema: { type: "thing" } }]],
  ["a schema that reaches out", [{ ...tool, outputSchema: { $ref: "https://example.com/schema" } }]],
])("%s is a mistake of the configuration", (_what, tools) => {
  expect(() => createToolRegistry(tools as readonly CallerTool[])).toThrow(
    expect.objectContaining({ code: "invalid_configuration" }),
  );
});
