/** A real model. Costs a little; does nothing without a key. Run: OPENAI_API_KEY=… npm run example examples/openai-smoke.ts */
import { createChatModel, createModelRouter, runSkill } from "skilldock";

const apiKey = process.env["OPENAI_API_KEY"];
if (apiKey === undefined || apiKey === "") {
  console.log("OPENAI_API_KEY is not set: nothing was asked, nothing was paid.");
} else {
  const adapter = createChatModel({
    baseUrl: process.env["OPENAI_BASE_URL"] ?? "https://api.openai.com/v1",
    apiKey: () => apiKey,
  });
  const model = process.env["OPENAI_MODEL"] ?? "gpt-5-mini";
  const models = createModelRouter({
    default: "openai",
    routes: [{ id: "openai", model, adapter, maxOutputTokens: 2_000 }],
  });
  const query = "The import refused orders without a currency; now it names the line.";
  for await (const item of runSkill({ skill: "skills/commit-message", query, models, limits: { maxTurns: 1 } })) {
    if (item.type === "model.delta") process.stdout.write(item.data.text);
    if (item.type === "result") console.log(`\n${item.status}, ${item.usage.totalTokens} tokens`, item.error ?? "");
  }
}
