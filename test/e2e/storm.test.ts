import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Producer } from "../../src/producer/index.ts";
import { TERMINAL_STATES } from "../../src/shared/contracts/result.ts";
import type { ModelScriptEntry } from "../../src/worker/model/scripted.ts";
import { containersWith, ensureSandboxImages, hasDocker } from "../support/docker.ts";
import { startRedis } from "../support/redis.ts";
import { startWorkerProcess } from "../support/worker-process.ts";

const skillsDirs = [fileURLToPath(new URL("../../skills", import.meta.url))];
const RUNS = 500;
const command = { name: "workspace_execute_command", arguments: { argv: ["sh", "-c", "echo busy; sleep 0.1"] } };
const script: readonly ModelScriptEntry[] = [
  { when: { query: "command" }, steps: [{ toolCalls: [command] }, { text: "The command ran." }] },
  {
    when: { query: "tool" },
    steps: [{ toolCalls: [{ name: "caller_echo", arguments: {} }] }, { text: "The tool ran.", chunkDelayMs: 20 }],
  },
  { steps: [{ text: "Some words that come one by one, so that a cancel may meet any of them.", chunkDelayMs: 15 }] },
];

/** A small generator with a printed seed, so that a storm can be had again. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test.runIf(hasDocker)(
  "500 runs on two workers, a fifth cancelled at random moments: each ends once, nothing is left",
  { timeout: 180_000 },
  async () => {
    await ensureSandboxImages();
    const seed = Date.now() % 1_000_000;
    console.log(`storm seed ${seed}`);
    const random = randomFrom(seed);
    const installation = `storm-${seed}`;
    await using redis = await startRedis();
    await using producer = new Producer({ redis: redis.url });
    const options = {
      redis: redis.url,
      skillsDirs,
      script,
      concurrency: 16,
      docker: true,
      installation,
      lockDurationMs: 10_000,
      stalledIntervalMs: 5_000,
    };
    await using _first = await startWorkerProcess(options);
    await using _second = await startWorkerProcess(options);
    const outcomes = await Promise.all(
      Array.from({ length: RUNS }, async (_unused, index) => {
        const kind = index % 10 === 0 ? "command" : index % 10 < 3 ? "tool" : "text";
        const tenantId = `tenant-${index % 7}`;
        const { runId } = await producer.enqueue({
          tenantId,
          skill: kind === "command" ? "invoice-check" : "commit-message",
          query: kind,
          allowedCapabilities: ["caller.echo@1", "workspace.execute_command@1"],
        });
        const cancelAt = random() < 0.2 ? Math.floor(random() * 8) + 1 : Infinity;
        let terminals = 0;
        for await (const item of producer.follow({ tenantId, runId })) {
          if (item.type === "result") return { status: item.status, terminals };
          if (item.terminal) terminals++;
          if (item.sequence === cancelAt) await producer.cancel({ tenantId, runId, reason: "storm" });
        }
        return { status: "none", terminals };
      }),
    );
    const counts = Object.fromEntries(
      TERMINAL_STATES.map((state) => [state, outcomes.filter((one) => one.status === state).length]),
    );
    console.log("storm outcomes", counts);
    expect(outcomes.every((one) => one.terminals === 1)).toBe(true);
    expect((counts["succeeded"] ?? 0) + (counts["cancelled"] ?? 0)).toBe(RUNS);
    expect(counts["cancelled"]).toBeGreaterThan(20);
    const connection = redis.client();
    expect(await connection.zcard("{sd:0}:grants")).toBe(0);
    expect(await connection.zcard("{sd:0}:waiting")).toBe(0);
    for (const key of await connection.keys("{sd:0}:t:*:run:*"))
      expect(await connection.pttl(key), key).toBeGreaterThan(0);
    expect(await connection.keys("{sd:0}:t:*:active")).toEqual([]);
    await expect.poll(() => containersWith(`skilldock.installation=${installation}`), { timeout: 15_000 }).toEqual([]);
  },
);
