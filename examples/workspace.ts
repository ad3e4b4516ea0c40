/** A workspace without Docker: files in memory, no commands. Run: npm run example examples/workspace.ts */
import { createModelRouter, runSkill, ScriptedModel } from "skilldock";
import { createMemorySandbox } from "skilldock/sandbox";

const model = new ScriptedModel([
  { toolCalls: [{ name: "workspace_list", arguments: {} }] },
  {
    toolCalls: [
      {
        name: "workspace_read",
        arguments: { path: "/workspace/skills/refund-policy/references/policy.md", length: 200 },
      },
      // The skill's allowed-tools say Read and LS: this one is blocked, whatever the request allows.
      { name: "workspace_write", arguments: { path: "note.txt", content: "was here" } },
    ],
  },
  { text: "I read the policy, and was not let to write." },
]);
const models = createModelRouter({
  default: "scripted",
  routes: [{ id: "scripted", model: "script", adapter: model }],
});

const run = runSkill({
  skill: "skills/refund-policy",
  query: "May I return opened headphones?",
  allowedCapabilities: ["workspace.list@1", "workspace.read@1", "workspace.write@1"],
  sandbox: () => createMemorySandbox(),
  models,
});
for await (const item of run) {
  if (item.type === "tool.result") console.log(item.data.receipt.capabilityId, item.data.receipt.status);
  if (item.type === "tool.blocked") console.log(item.data.modelName, "blocked:", item.data.rule);
  if (item.type !== "result") continue;
  for (const evidence of item.evidence)
    console.log("evidence:", evidence.kind, evidence.path ?? evidence.ref ?? evidence.callId);
  console.log(item.outputText);
}
