/** The one-liner: one skill, one query, in this process. No Redis, no key. Run: npm run example examples/hello.ts */
import { createModelRouter, runSkill, ScriptedModel } from "skilldock";

const model = new ScriptedModel([{ text: "Refuse orders without a currency" }]);
const models = createModelRouter({
  default: "scripted",
  routes: [{ id: "scripted", model: "script", adapter: model }],
});

for await (const item of runSkill({ skill: "skills/commit-message", query: "Orders need a currency now.", models })) {
  if (item.type === "result") console.log(`${item.status}: ${item.outputText}`);
}
