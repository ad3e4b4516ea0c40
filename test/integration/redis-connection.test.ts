import { describe, expect, it } from "vitest";
import { closeRedis, connectRedis } from "../../src/shared/redis/connection.ts";
import { guard } from "../../src/shared/redis/guard.ts";
import { findFreePort, startRedis } from "../support/redis.ts";

describe("a connection", () => {
  it("is ready when it is handed out, and named", async () => {
    await using server = await startRedis();
    const redis = await connectRedis(server.url, { role: "request", name: "skilldock-test" });
    expect(redis.status).toBe("ready");
    expect(await redis.client("GETNAME")).toBe("skilldock-test");
    await closeRedis(redis);
    await closeRedis(redis);
    expect(redis.status).toBe("end");
  });

  it("says which address cannot be reached, without the credentials", async () => {
    const port = await findFreePort();
    const connecting = connectRedis(`redis://user:secret@127.0.0.1:${port}`, {
      role: "request",
      name: "t",
      connectTimeoutMs: 2_000,
    });
    const error: unknown = await connecting.catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: "redis_unavailable",
      message: `Redis at 127.0.0.1:${port} cannot be reached: ECONNREFUSED.`,
    });
    expect(JSON.stringify(error)).not.toContain("secret");
  });

  it("gives up on a server that accepts and never answers", async () => {
    await using server = await startRedis();
    server.pause();
    const connecting = connectRedis(server.url, { role: "request", name: "t", connectTimeoutMs: 100 });
    await expect(connecting).rejects.toMatchObject({
      code: "redis_unavailable",
      message: expect.stringContaining("did not get ready in time"),
    });
  });

  it("does not try wrong credentials again", async () => {
    await using server = await startRedis({ audit: false });
    await server.client().config("SET", "requirepass", "right");
    const connecting = connectRedis(`redis://:wrong@127.0.0.1:${server.port}`, {
      role: "request",
      name: "t",
      connectTimeoutMs: 60_000,
    });
    await expect(connecting).rejects.toMatchObject({
      code: "redis_unavailable",
      message: expect.stringContaining("WRONGPASS"),
    });
  });

  it.each(["", "127.0.0.1:6379", "http://127.0.0.1", "redis://"])(
    "refuses %j as a URL without repeating it",
    async (url) => {
      await expect(connectRedis(url, { role: "request", name: "t" })).rejects.toMatchObject({
        code: "invalid_configuration",
      });
    },
  );

  it("fails requests at once while Redis is away, and serves again when it is back", async () => {
    await using server = await startRedis();
    const redis = await connectRedis(server.url, { role: "request", name: "t" });
    const lost = new Promise((resolve) => redis.once("close", resolve));
    await server.kill();
    await lost;
    await expect(guard(redis.ping())).rejects.toMatchObject({ code: "redis_unavailable" });
    const back = new Promise((resolve) => redis.once("ready", resolve));
    await server.restart();
    await back;
    expect(await redis.ping()).toBe("PONG");
    await closeRedis(redis);
  });

  it("closes in about a second although Redis does not answer", async () => {
    await using server = await startRedis();
    const redis = await connectRedis(server.url, { role: "blocking", name: "t" });
    server.pause();
    const startedAt = performance.now();
    await closeRedis(redis);
    expect(performance.now() - startedAt).toBeLessThan(8_000);
  });

  it("tells a script's refusal from a server that cannot serve", async () => {
    await using server = await startRedis();
    const redis = server.client();
    await expect(guard(redis.call("NO-SUCH-COMMAND"))).rejects.toMatchObject({ code: "internal" });
    await redis.config("SET", "maxmemory", "1");
    await expect(guard(redis.set("a", "1"))).rejects.toMatchObject({
      code: "redis_unavailable",
      message: "Redis cannot serve now (OOM).",
    });
    await redis.config("SET", "maxmemory", "0");
  });
});
