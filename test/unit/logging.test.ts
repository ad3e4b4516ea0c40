import { describe, expect, test } from "vitest";
import { RunError } from "../../src/shared/errors.ts";
import type { LogLevel } from "../../src/shared/logging/log-level.ts";
import { createLogger } from "../../src/shared/logging/logger.ts";
import { runLogger } from "../../src/shared/logging/run-logger.ts";

const CANARY = "canary-5f2b91d7c0";

function capture(options: { level?: LogLevel; secrets?: readonly string[] } = {}) {
  const lines: string[] = [];
  const logger = createLogger({
    level: options.level ?? "info",
    destination: { write: (line) => void lines.push(line) },
    ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
  });
  return { logger, lines, last: () => JSON.parse(lines.at(-1) ?? "null") as Record<string, unknown> };
}

describe("a log line", () => {
  test("is one JSON object with level, ISO time and message", () => {
    const { logger, last } = capture();
    logger.info({ skill: "refund" }, "attempt %d of %s", 2, "three");
    expect(last()).toMatchObject({ level: "info", skill: "refund", msg: "attempt 2 of three" });
    expect(last()["time"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  test("of a run names run, tenant, attempt and correlation, and nothing else of the request", () => {
    const { logger, last } = capture();
    const request = { runId: "run-00000001", tenantId: "acme", correlationId: "c-1", query: "private text" };
    runLogger(logger, { ...request, attempt: 2 }).warn("late");
    expect(last()).toMatchObject({ runId: "run-00000001", tenantId: "acme", attempt: 2, correlationId: "c-1" });
    expect(last()).not.toHaveProperty("query");
  });
});

const HIDING_PLACES: Readonly<Record<string, (log: ReturnType<typeof capture>["logger"]) => void>> = {
  "in a field named for a secret, deep down": (log) =>
    log.info({ request: { options: { headers: { Authorization: CANARY } } } }),
  "in a raw header string": (log) =>
    log.info({ raw: `GET / HTTP/1.1\r\nAuthorization: Digest user="u", response="${CANARY}"\r\nHost: x` }),
  "in a raw header of a message": (log) => log.info(`authorization: ${CANARY}`),
  "in a bearer token put together from pieces": (log) => log.info("sent Bearer %s", CANARY),
  "in a bearer token": (log) => log.info({ text: `curl -H "X: Bearer ${CANARY}"` }),
  "in basic credentials": (log) => log.info({ text: `Basic ${Buffer.from("u:pw").toString("base64")}${CANARY}` }),
  "in the password of a URL": (log) => log.info({ url: `redis://user:${CANARY}@10.0.0.1:6379/0` }),
  "in a URL without a user": (log) => log.info({ url: `redis://:${CANARY}@h` }),
  "in a URL object": (log) => log.info({ url: new URL(`https://u:${CANARY}@example.com/x`) }),
  "in an sk- key": (log) => log.info({ text: `Incorrect API key provided: sk-proj-${CANARY}.` }),
  "in a query parameter": (log) => log.info({ text: `https://x/?api_key=${CANARY}&a=1` }),
  "in a cookie header": (log) => log.info({ text: `Cookie: session=${CANARY}; other=1` }),
  "in the message of an error": (log) => log.error(new Error(`401 with token: ${CANARY}`)),
  "in the message of an error under err": (log) => log.error({ err: new Error(`Bearer ${CANARY}`) }, "failed"),
  "in a cause three levels down": (log) =>
    log.error({ err: new Error("a", { cause: new Error("b", { cause: new Error(`Authorization: ${CANARY}`) }) }) }),
  "in fields that a library hung on its error": (log) =>
    log.error({ err: Object.assign(new Error("401"), { headers: { cookie: CANARY }, request: { body: CANARY } }) }),
  "in the bindings of a child": (log) =>
    log
      .child({ apiKey: CANARY })
      .child({ note: `Bearer ${CANARY}` })
      .info("x"),
  "in a map": (log) => log.info({ map: new Map([["password", CANARY]]) }),
  "in the name of a field": (log) => log.info({ [`Bearer ${CANARY}`]: 1 }),
  "in an array": (log) => log.info({ list: ["a", ["b", [`x-api-key=${CANARY}`, { token: CANARY }]]] }),
};

describe("a secret is not seen", () => {
  test.each(Object.entries(HIDING_PLACES))("%s", (_place, write) => {
    for (const level of ["info", "debug"] as const) {
      const { logger, lines } = capture({ level });
      write(logger);
      expect(lines).toHaveLength(1);
      expect(lines.join("")).not.toContain(CANARY);
      expect(() => JSON.parse(lines[0] ?? "") as unknown).not.toThrow();
    }
  });

  test.each([`plain${CANARY}`, `with "quotes" and \\ ${CANARY}`, `p@ss/${CANARY}`])(
    "that was registered, wherever it stands: %s",
    (secret) => {
      const { logger, lines } = capture({ level: "debug", secrets: [secret] });
      logger
        .child({ note: secret })
        .info({ deep: { list: [`x${secret}y`] }, [secret]: 1 }, `m ${secret} and ${encodeURIComponent(secret)}`);
      logger.error(
        new RunError("internal", { message: secret, details: { secret: { inner: secret } }, cause: new Error(secret) }),
      );
      expect(lines).toHaveLength(2);
      for (const line of lines) {
        expect(line).not.toContain(CANARY);
        expect(() => JSON.parse(line) as unknown).not.toThrow();
      }
    },
  );

  test("where a long text is cut in the middle of it", () => {
    for (let shift = 0; shift < 40; shift += 1) {
      const { logger, lines } = capture({ secrets: [CANARY] });
      logger.info({ text: "x ".repeat(8_192 - 20).slice(0, 16_384 - shift) + CANARY });
      logger.info({ text: `Bearer ${"k".repeat(15_000)} ${"y".repeat(1_384 - 8 - shift)}${CANARY}` });
      for (const line of lines) expect(line).not.toContain(CANARY.slice(0, 8));
    }
  });
});

test("ordinary words stay as they are", () => {
  const { logger, last } = capture();
  const text =
    "The token limit of task-runner was 12; basic idea: a tokeniser. risk-averse https://example.com:8080/a@b";
  logger.info({ text, usage: { inputTokens: 5, totalTokens: 7 }, skill: "basic-usage" });
  expect(last()).toMatchObject({ text, usage: { inputTokens: 5, totalTokens: 7 }, skill: "basic-usage" });
});

describe("an error", () => {
  test("is written as name, code, message, details and causes; its stack only while debugging", () => {
    const error = new RunError("redis_unavailable", {
      details: { host: "h" },
      cause: Object.assign(new Error("connect refused"), { code: "ECONNREFUSED", port: 1 }),
    });
    const calm = capture();
    calm.logger.error({ err: error }, "no redis");
    expect(calm.last()["err"]).toEqual({
      name: "RunError",
      code: "redis_unavailable",
      message: "Redis cannot be reached.",
      details: { host: "h" },
      cause: { name: "Error", code: "ECONNREFUSED", message: "connect refused" },
    });
    const debugging = capture({ level: "debug" });
    debugging.logger.error(error);
    expect(debugging.last()["err"]).toHaveProperty("stack");
    expect(debugging.last()["msg"]).toBe("Redis cannot be reached.");
  });

  test("that is its own cause is written once", () => {
    const first = new Error("first");
    first.cause = new Error("second", { cause: first });
    const { logger, last } = capture();
    logger.error({ err: first });
    expect(last()["err"]).toMatchObject({ message: "first", cause: { message: "second", cause: "[circular]" } });
  });

  test("made of several keeps the first ones", () => {
    const { logger, last } = capture();
    logger.error({
      err: new AggregateError(
        Array.from({ length: 20 }, (_, i) => new Error(`e${i}`)),
        "all",
      ),
    });
    expect((last()["err"] as { errors: unknown[] }).errors).toHaveLength(5);
  });
});

describe("hostile values", () => {
  test("that throw when they are read cost their field, not the line", () => {
    const { logger, last, lines } = capture();
    const throwing = {
      good: 1,
      get bad(): string {
        throw new Error("no");
      },
      toJSON() {
        throw new Error("no");
      },
    };
    const proxy = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error("no");
        },
        getPrototypeOf: () => {
          throw new Error("no");
        },
      },
    );
    logger.info(
      { throwing, proxy, symbol: Symbol("s"), big: 10n, fn: () => 1, nan: Number.NaN, date: new Date(Number.NaN) },
      "m",
    );
    expect(lines).toHaveLength(1);
    expect(last()).toMatchObject({
      msg: "m",
      throwing: { good: 1, bad: "[unreadable]" },
      proxy: "[unreadable]",
      big: "10",
      nan: "NaN",
    });
  });

  test("as the only argument do not throw", () => {
    const { logger } = capture();
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    for (const value of [null, undefined, 1, Symbol("s"), revoked.proxy, Object.create(null), [], () => 1]) {
      expect(() => logger.info(value)).not.toThrow();
    }
  });

  test("that are deep, broad, long or cyclic give a short line quickly", () => {
    const { logger, lines } = capture();
    let deep: object = {};
    for (let i = 0; i < 100_000; i += 1) deep = { deep };
    const cyclic: Record<string, unknown> = { name: "c" };
    cyclic["self"] = cyclic;
    const broad = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`k${i}`, { a: "x".repeat(100) }]));
    const started = performance.now();
    logger.info({
      deep,
      cyclic,
      broad,
      long: "y".repeat(5_000_000),
      list: Array.from({ length: 1_000_000 }).fill("z"),
    });
    logger.info("authorization".repeat(400_000));
    expect(performance.now() - started).toBeLessThan(2_000);
    for (const line of lines) expect(line.length).toBeLessThan(150_000);
    expect(lines).toHaveLength(2);
  });

  test("named __proto__ change nothing", () => {
    const { logger, last } = capture();
    logger.info({ value: JSON.parse('{"__proto__": {"polluted": true}}') as unknown });
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
    expect(last()).toHaveProperty("value");
  });
});
