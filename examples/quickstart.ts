/** Producer, queue, worker and follower, over a real Redis. Run: REDIS_URL=redis://127.0.0.1:6379 npm run example examples/quickstart.ts */
import { Producer } from "skilldock/producer";
import { createModelRouter, ScriptedModel, startWorker } from "skilldock/worker";

const redis = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const model = new ScriptedModel([{ steps: [{ text: "Refuse orders without a currency" }] }]);
const models = createModelRouter({
  default: "scripted",
  routes: [{ id: "scripted", model: "script", adapter: model }],
});

// A worker is usually a process of its own: `skilldock worker`.
await using worker = await startWorker({ redis, skillsDirs: ["skills"], models });
await using producer = new Producer({ redis });

const { runId, streamKey } = await producer.enqueue({
  tenantId: "acme",
  skill: "commit-message",
  query: "Orders need a currency now.",
  idempotencyKey: "example-quickstart",
});
console.log(`worker ${worker.name}\nstream ${streamKey}`);
for await (const item of producer.follow({ tenantId: "acme", runId })) {
  console.log(item.type === "result" ? `${item.status}: ${item.outputText}` : `${item.sequence} ${item.type}`);
}
