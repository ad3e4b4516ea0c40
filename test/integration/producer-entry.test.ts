import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { Producer } from "../../src/producer/index.ts";
import { startRedis } from "../support/redis.ts";

/** Runs a module in a fresh process and gives what it printed as JSON. */
function runModule(source: string, env: Readonly<Record<string, string>> = {}): unknown {
  const child = spawnSync(
    process.execPath,
    ["--conditions=skilldock-source", "--input-type=module", "--eval", source],
    {
      encoding: "utf8",
      env: { ...process.env, ...env },
      timeout: 20_000,
    },
  );
  expect(child.stderr).toBe("");
  return JSON.parse(child.stdout);
}

/** CommonJS packages stand in the require cache; ES modules are seen by a load hook. */
const WATCH_LOADING = `
  import { createRequire, registerHooks } from "node:module";
  const loaded = new Set();
  const packageOf = (url) => /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url)?.[1];
  registerHooks({ load: (url, context, next) => { loaded.add(packageOf(url)); return next(url, context); } });
  const names = () => [...new Set([...loaded, ...Object.keys(createRequire(import.meta.url).cache).map(packageOf)])].filter(Boolean).sort();
`;

test("importing the producer and making one loads no queue, model or engine client, and not even a Redis client", () => {
  const names = runModule(`${WATCH_LOADING}
    const { Producer } = await import("skilldock/producer");
    new Producer({ redis: "redis://127.0.0.1:1" });
    console.log(JSON.stringify(names()));
  `) as readonly string[];
  for (const name of ["bullmq", "openai", "dockerode", "ioredis", "pino", "prom-client", "yaml"])
    expect(names).not.toContain(name);
});

test("the first enqueue loads the queue, and a closed producer lets its process end at once", async () => {
  await using redis = await startRedis();
  const { names, lingeredMs } = runModule(
    `${WATCH_LOADING}
    const { Producer } = await import("skilldock/producer");
    const producer = new Producer({ redis: process.env.REDIS_URL });
    const { runId } = await producer.enqueue({ tenantId: "acme", skill: "refund" });
    const follower = producer.follow({ tenantId: "acme", runId });
    await follower.next();
    await follower.return();
    await producer.cancel({ tenantId: "acme", runId });
    await producer.close();
    const closedAt = performance.now();
    process.on("exit", () => console.log(JSON.stringify({ names: names(), lingeredMs: performance.now() - closedAt })));
  `,
    { REDIS_URL: redis.url },
  ) as { readonly names: readonly string[]; readonly lingeredMs: number };
  expect(lingeredMs).toBeLessThan(5_000);
  expect(names).toContain("bullmq");
  expect(names).toContain("ioredis");
  for (const name of ["openai", "dockerode", "pino", "prom-client"]) expect(names).not.toContain(name);
});

test.each([
  ["nothing", undefined],
  ["no address", {}],
  ["an address that is a number", { redis: 5 }],
  ["a life below zero", { redis: "redis://127.0.0.1:1", retentionMs: -5 }],
  ["a life that is no number", { redis: "redis://127.0.0.1:1", retentionMs: Number.NaN }],
])("a producer made with %s is a mistake of the configuration", (_what, options) => {
  expect(() => new Producer(options as never)).toThrow(expect.objectContaining({ code: "invalid_configuration" }));
});
