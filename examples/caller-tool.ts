/** A tool of yours: it runs in this process, outside of any sandbox. Run: npm run example examples/caller-tool.ts */
import { createModelRouter, runSkill, ScriptedModel, type CallerTool } from "skilldock";

const lookupOrder: CallerTool = {
  id: "caller.lookup_order@1",
  description: "Looks an order up by its number.",
  inputSchema: {
    type: "object",
    additionalProperties: false,
    required: ["orderId"],
    properties: { orderId: { type: "string", pattern: "^A-[0-9]+$" } },
  },
  outputSchema: { type: "object", required: ["status"], properties: { status: { type: "string" } } },
  effects: "read",
  timeoutMs: 5_000,
  handler: ({ orderId }: { orderId: string }, context) => ({ orderId, status: "shipped", askedBy: context.tenantId }),
};

const model = new ScriptedModel([
  { text: "I look it up.", toolCalls: [{ name: "caller_lookup_order", arguments: { orderId: "A-1042" } }] },
  (request) => ({ text: `The order system says: ${request.messages.at(-1)?.text ?? ""}` }),
]);
const models = createModelRouter({
  default: "scripted",
  routes: [{ id: "scripted", model: "script", adapter: model }],
});

const run = runSkill({
  skill: "skills/order-status",
  query: "Where is A-1042?",
  allowedCapabilities: ["caller.lookup_order@1"],
  tools: [lookupOrder],
  models,
});
for await (const item of run) {
  if (item.type === "tool.call") console.log("call  ", item.data.capabilityId, JSON.stringify(item.data.arguments));
  if (item.type === "tool.result") console.log("result", item.data.receipt.status, item.data.output);
  if (item.type === "result") console.log(item.outputText);
}
