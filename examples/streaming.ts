/** Text as it comes, and a cancel in the middle. Run: npm run example examples/streaming.ts */
import { createModelRouter, runSkill, ScriptedModel } from "skilldock";

const model = new ScriptedModel([{ text: "One two three four five six seven eight nine ten.", chunkDelayMs: 120 }]);
const models = createModelRouter({
  default: "scripted",
  routes: [{ id: "scripted", model: "script", adapter: model }],
});
const abort = new AbortController();
let shown = "";

for await (const item of runSkill({ skill: "skills/commit-message", query: "Count.", models, signal: abort.signal })) {
  if (item.type === "model.delta") {
    process.stdout.write(item.data.text);
    shown += item.data.text;
    if (shown.includes("five")) abort.abort("that is enough");
  }
  // Whoever keeps reading gets the result of a cancelled run, too.
  if (item.type === "result") console.log(`\n${item.status}: ${item.cancelReason ?? ""}`);
}
