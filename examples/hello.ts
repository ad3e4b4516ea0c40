/** The one-liner: one skill, one query, in this process; models as skilldock.yaml says. Run: npm run example examples/hello.ts */
import { runSkill } from "skilldock";

for await (const item of runSkill({ skill: "skills/commit-message", query: "Orders need a currency now." })) {
  if (item.type === "result") console.log(`${item.status}: ${item.outputText}`);
}
