import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { inspect } from "node:util";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeConfig } from "../../src/shared/config/config.ts";
import type { ConfigProblem } from "../../src/shared/config/config-layer.ts";
import { loadConfig, type LoadConfigOptions } from "../../src/shared/config/load-config.ts";
import { findTenant, OPEN_DOOR } from "../../src/shared/config/tenants.ts";
import { parseDuration, parseSize } from "../../src/shared/config/units.ts";
import { RunError } from "../../src/shared/errors.ts";

let directory = "";
let files = 0;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "skilldock-config-"));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(text: string): string {
  files += 1;
  const path = join(directory, `c${files}.yaml`);
  writeFileSync(path, text);
  return path;
}

function load(text: string, options: Partial<LoadConfigOptions> = {}) {
  return loadConfig({ file: file(text), env: {}, ...options });
}

function problemsOf(read: () => unknown): readonly ConfigProblem[] {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(RunError);
    expect((error as RunError).code).toBe("invalid_configuration");
    return (error as RunError).details?.["problems"] as readonly ConfigProblem[];
  }
  throw new Error("it was accepted");
}

/** Problems as short lines, without the directory. */
function linesOf(read: () => unknown): readonly string[] {
  return problemsOf(read).map(({ source, message }) => `${source.replace(/^.*\/c\d+\.yaml/, "file")}: ${message}`);
}

describe("a configuration", () => {
  test("of nothing has every default, no models, and a closed door", () => {
    expect(load("")).toMatchObject({
      redis: { url: "redis://127.0.0.1:6379" },
      skills: { directories: [] },
      worker: {
        concurrency: 32,
        metricsPort: 9464,
        metricsHost: "127.0.0.1",
        graceMs: 20_000,
        lockDurationMs: 10_000,
        stalledIntervalMs: 5_000,
      },
      sandbox: { backend: "docker" },
      tenants: {},
      log: { level: "info" },
      retention: { ttlMs: 86_400_000 },
    });
    expect(load("")).not.toHaveProperty("models");
  });

  test("takes flags before environment before file before defaults, field by field", () => {
    const config = load("worker: {concurrency: 2, graceMs: 2000, metricsPort: 2}\nlog: {level: warn}", {
      env: { SKILLDOCK_GRACE_MS: "3s", SKILLDOCK_METRICS_PORT: "3", SKILLDOCK_LOG_LEVEL: "" },
      flags: { worker: { metricsPort: "4", concurrency: undefined } },
    });
    expect(config.worker).toMatchObject({ concurrency: 2, graceMs: 3_000, metricsPort: 4, stalledIntervalMs: 5_000 });
    expect(config.log.level).toBe("warn");
  });

  test("reads durations and sizes as people write them", () => {
    const config = load(
      "worker: {graceMs: 5m, lockDurationMs: 15000}\nretention: {ttl: 7d}\nsandbox: {memory: 256MiB, cpus: 0.5, pids: 64}",
    );
    expect(config.worker).toMatchObject({ graceMs: 300_000, lockDurationMs: 15_000 });
    expect(config.retention.ttlMs).toBe(604_800_000);
    expect(config.sandbox).toEqual({ backend: "docker", memoryBytes: 268_435_456, cpus: 0.5, pids: 64 });
  });

  test("takes directories of skills relative to its file, and from variables and flags as they are", () => {
    const path = file("skills: {directories: [skills, /abs, 'file:///x']}\nworker: {tools: ./tools.ts}");
    expect(loadConfig({ file: path, env: {} }).skills.directories).toEqual([
      join(directory, "skills"),
      "/abs",
      "file:///x",
    ]);
    expect(loadConfig({ file: path, env: {} }).worker.tools).toBe(join(directory, "tools.ts"));
    expect(loadConfig({ file: path, env: { SKILLDOCK_SKILLS: "a:b" } }).skills.directories).toEqual(["a", "b"]);
    expect(loadConfig({ file: path, env: {}, flags: { skills: { directories: ["c"] } } }).skills.directories).toEqual([
      "c",
    ]);
  });

  test("treats an empty section as one without fields", () => {
    const config = load("worker:\nredis:\n  # url: x\ntenants:\n  default:\n  acme:\n");
    expect(config.tenants).toEqual({ default: {}, acme: {} });
    expect(config.worker.concurrency).toBe(32);
  });

  test("is frozen", () => {
    const config = load("models: {default: a, a: {api: scripted, script: s.yaml}}");
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config.worker)).toBe(true);
    expect(Object.isFrozen(config.models?.["a"])).toBe(true);
  });

  test("of this repository needs no key and admits any tenant", () => {
    const config = loadConfig({ file: resolve("skilldock.yaml"), env: {} });
    expect(config.models?.default).toBe("scripted");
    expect(config.models?.["scripted"]).toMatchObject({ api: "scripted" });
    expect(config.models?.["openai"]).toMatchObject({ api: "chat", apiKeyEnv: "OPENAI_API_KEY" });
    expect(findTenant(config.tenants, "anybody")).toEqual({});
  });
});

describe("problems", () => {
  test("are reported all at once, each where it stands", () => {
    const text = [
      "worker:",
      "  concurrency: 5000",
      "  graceMs: soon",
      "  colour: red",
      "sandbox:",
      "  backend: podman",
      "  memory: 10 parsecs",
      "models:",
      "  default: fast",
      "  slow: {api: chat, modle: x}",
      "skills:",
      "  directories: [ok, 5]",
      "tenants: {Bad Name: {}}",
    ].join("\n");
    const read = () =>
      load(text, {
        env: { SKILLDOCK_METRICS_PORT: "many", SKILLDOCK_COLOUR: "red", REDIS_URL: "http://x" },
        flags: { log: { level: "loud" } },
      });
    expect([...linesOf(read)].sort()).toEqual(
      [
        "REDIS_URL: /redis/url must be text of at most 2000 characters that matches ^rediss?://[^\\s]+$.",
        "SKILLDOCK_COLOUR: There is no such variable.",
        "SKILLDOCK_METRICS_PORT: /worker/metricsPort must be an integer from 0 to 65535.",
        "file:10:21: /models/slow/modle is not a field that exists here.",
        "file:12:21: /skills/directories/1 must be text of at least 1 characters.",
        "file:13:11: /tenants/Bad Name must have a name that is text that matches ^[a-z0-9][a-z0-9_-]{0,62}$.",
        "file:2:3: /worker/concurrency must be an integer from 1 to 1000.",
        "file:3:3: /worker/graceMs must be a duration such as 500ms, 30s, 5m, 2h, 1d, or whole milliseconds.",
        "file:4:3: /worker/colour is not a field that exists here.",
        'file:6:3: /sandbox/backend must be one of "docker", "none".',
        "file:7:3: /sandbox/memory must be a size such as 500kB, 10MB, 1GiB, or whole bytes.",
        "file:9:3: /models/default must be the id of a route in models.",
        'flag log.level: /log/level must be one of "silent", "fatal", "error", "warn", "info", "debug", "trace".',
      ].sort(),
    );
  });

  test("stand in the message as well, with their places", () => {
    expect(() => load("worker: {x: 1}")).toThrow(
      /^The configuration is not valid\. .*c\d+\.yaml:1:10: \/worker\/x is not a field/,
    );
    expect(() => load("a: 1\nb: 2")).toThrow(/in 2 places:\n {2}.*:1:1: \/a .*\n {2}.*:2:1: \/b /);
  });

  test("of YAML say line and column", () => {
    expect(linesOf(() => load("worker:\n  a: 1\n  a: 2\n"))).toEqual([
      expect.stringMatching(/^file:3:3: The file is not valid YAML: Map keys must be unique/),
    ]);
    expect(linesOf(() => load("worker: [1, 2"))[0]).toMatch(/^file:1:\d+: The file is not valid YAML/);
    expect(linesOf(() => load("- a\n- b"))[0]).toContain("must be a mapping of sections");
    expect(linesOf(() => load("just text"))[0]).toContain("must be a mapping of sections");
  });

  test("of tenant limits that are planned say so", () => {
    const [weight, typo] = problemsOf(() => load("tenants:\n  acme: {weight: 2, wieght: 2}"));
    expect(weight).toMatchObject({
      code: "not_supported",
      pointer: "/tenants/acme/weight",
      message: "/tenants/acme/weight is not supported by this version.",
    });
    expect(typo).toMatchObject({ code: "invalid_configuration" });
  });

  test("of files: missing, a directory, too large", () => {
    expect(linesOf(() => loadConfig({ file: join(directory, "absent.yaml"), env: {} }))[0]).toContain(
      "it does not exist",
    );
    expect(linesOf(() => loadConfig({ file: directory, env: {} }))[0]).toMatch(/not a regular file|EISDIR/);
    expect(linesOf(() => load(`# ${"x".repeat(1_000_001)}`))[0]).toContain("larger than");
    expect(linesOf(() => loadConfig({ env: { SKILLDOCK_CONFIG: join(directory, "absent.yaml") } }))[0]).toContain(
      "does not exist",
    );
  });

  test("of a pipe in place of the file do not block", () => {
    const path = join(directory, "fifo.yaml");
    execFileSync("mkfifo", [path]);
    expect(linesOf(() => loadConfig({ file: path, env: {} }))[0]).toContain("not a regular file");
  });

  test("of hostile YAML are found quickly", () => {
    const bomb = [
      "a: &a [x,x,x,x,x,x,x,x,x]",
      ...["b", "c", "d", "e", "f", "g", "h"].map(
        (name, i) => `${name}: &${name} [${Array.from({ length: 9 }, () => `*${"abcdefgh"[i]}`).join(",")}]`,
      ),
    ].join("\n");
    const started = performance.now();
    for (const text of [
      bomb,
      `worker: ${"[".repeat(20_000)}`,
      "a: &a {b: *a}",
      "__proto__: {polluted: 1}",
      "worker: {__proto__: {concurrency: 3}}",
      "constructor: {prototype: 1}",
    ]) {
      expect(problemsOf(() => load(text)).length).toBeGreaterThan(0);
    }
    expect(performance.now() - started).toBeLessThan(3_000);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("may be anything, but never an error of another kind", () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 4 }),
        fc.constantFrom("redis", "models", "worker", "tenants", "skills", "log", "sandbox", "retention"),
        (value, section) => {
          try {
            load(JSON.stringify({ [section]: value }));
          } catch (error) {
            expect(error).toBeInstanceOf(RunError);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("the environment", () => {
  test("may hold what Kubernetes puts there for a service of our name", () => {
    const env = {
      SKILLDOCK_SERVICE_HOST: "10.0.0.1",
      SKILLDOCK_SERVICE_PORT: "1",
      SKILLDOCK_SERVICE_PORT_HTTP: "1",
      SKILLDOCK_PORT: "tcp://10.0.0.1:1",
      SKILLDOCK_PORT_9464_TCP: "x",
      SKILLDOCK_PORT_9464_TCP_ADDR: "x",
      SKILLDOCK_METRICS_SERVICE_HOST: "x",
      PATH: "/bin",
      UNRELATED: "1",
    };
    expect(() => load("", { env })).not.toThrow();
    expect(linesOf(() => load("", { env: { SKILLDOCK_CONCURENCY: "3" } }))).toEqual([
      "SKILLDOCK_CONCURENCY: There is no such variable.",
    ]);
  });

  test("gives a secret by value or by file, without the file's last line break", () => {
    const path = join(directory, "secret");
    writeFileSync(path, "sk-live-123456\n");
    expect(load("", { env: { OPENAI_API_KEY: "sk-1" } }).readSecret("OPENAI_API_KEY")).toBe("sk-1");
    expect(load("", { env: { OPENAI_API_KEY_FILE: path } }).readSecret("OPENAI_API_KEY")).toBe("sk-live-123456");
    expect(load("", { env: { OPENAI_API_KEY: "" } }).readSecret("OPENAI_API_KEY")).toBeUndefined();
    writeFileSync(path, "redis://:pw-654321@h:1\r\n");
    const config = load("", { env: { REDIS_URL_FILE: path } });
    expect(config.redis.url).toBe("redis://:pw-654321@h:1");
    expect(config.secretValues()).toEqual(["pw-654321"]);
    writeFileSync(path, "two\n\n");
    expect(load("", { env: { OPENAI_API_KEY_FILE: path } }).readSecret("OPENAI_API_KEY")).toBe("two\n");
  });

  test("refuses a secret that is given twice, or whose file is not there", () => {
    expect(linesOf(() => load("", { env: { OPENAI_API_KEY: "a", OPENAI_API_KEY_FILE: "/x" } }))).toEqual([
      "OPENAI_API_KEY_FILE: OPENAI_API_KEY and OPENAI_API_KEY_FILE are both set: one must go.",
    ]);
    expect(linesOf(() => load("", { env: { REDIS_URL_FILE: join(directory, "absent") } }))).toEqual([
      "REDIS_URL_FILE: The file does not exist.",
    ]);
  });

  test("holds the keys that routes name", () => {
    const text = "models: {default: a, a: {api: chat, model: m, apiKeyEnv: MY_KEY}}";
    const path = join(directory, "key");
    writeFileSync(path, "k-123456789\n");
    const config = load(text, { env: { MY_KEY_FILE: path, OTHER: "x" } });
    expect(config.readSecret("MY_KEY")).toBe("k-123456789");
    expect(config.readSecret("OTHER")).toBeUndefined();
    expect(config.secretValues()).toEqual(["k-123456789"]);
  });

  test("sends chat routes without a server of their own to OPENAI_BASE_URL", () => {
    const text =
      "models: {default: a, a: {api: chat, model: m}, b: {api: chat, model: m, baseUrl: 'http://b'}, c: {api: scripted, script: s}}";
    const { models } = load(text, { env: { OPENAI_BASE_URL: "http://127.0.0.1:1/v1", OPENAI_API_KEY: "sk-123456" } });
    expect(models?.["a"]).toMatchObject({ baseUrl: "http://127.0.0.1:1/v1", apiKeyEnv: "OPENAI_API_KEY" });
    expect(models?.["b"]).toEqual({ api: "chat", model: "m", baseUrl: "http://b" });
    expect(models?.["c"]).toEqual({ api: "scripted", script: "s" });
    expect(models?.default).toBe("a");
  });
});

describe("secrets", () => {
  const env = { REDIS_URL: "redis://u:canary-pw-1@h:1/0?password=canary-q", OPENAI_API_KEY: "canary-key-2" };

  test("are masked in the description, and wherever the configuration is printed", () => {
    const config = load("models: {default: a, a: {api: chat, model: m, apiKeyEnv: MY_KEY}}", { env });
    for (const text of [
      JSON.stringify(config),
      inspect(config, { depth: 10 }),
      JSON.stringify(describeConfig(config)),
      JSON.stringify({ config }),
    ]) {
      expect(text).not.toContain("canary");
      expect(text).toContain("9464");
    }
    expect(describeConfig(config)).toMatchObject({ secrets: { OPENAI_API_KEY: "********", MY_KEY: "not set" } });
  });

  test("are in no problem, also where their own value is wrong", () => {
    for (const url of ["canary://x", "redis://canary pw@x", "redis://:canary@[", `redis://${"canary".repeat(500)}`]) {
      try {
        load(`redis: {url: "${url}"}`, { env: { SKILLDOCK_CONCURRENCY: "canary" } });
        expect.unreachable();
      } catch (error) {
        expect(JSON.stringify([(error as RunError).toBody(), String(error)])).not.toContain("canary");
      }
    }
  });
});

describe("units", () => {
  test.each([
    ["250", 250],
    ["500ms", 500],
    ["30s", 30_000],
    ["1.5s", 1_500],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["1d", 86_400_000],
    ["5 m", 300_000],
    ["", undefined],
    ["-5s", undefined],
    ["5S", undefined],
    ["5 weeks", undefined],
    ["1e3", undefined],
    ["NaN", undefined],
    ["s", undefined],
  ])("the duration %j is %s ms", (text, expected) => expect(parseDuration(text)).toBe(expected));

  test.each([
    ["512", 512],
    ["10MB", 10_000_000],
    ["10MiB", 10_485_760],
    ["1kB", 1_000],
    ["1.5GB", 1_500_000_000],
    ["1 KiB", 1_024],
    ["10mb", undefined],
    ["MB", undefined],
    ["-1B", undefined],
    ["99999999999999999", undefined],
  ])("the size %j is %s bytes", (text, expected) => expect(parseSize(text)).toBe(expected));
});

describe("the door", () => {
  test("is open to listed tenants, and to all where there is a default record", () => {
    expect(() => findTenant({ acme: {} }, "acme")).not.toThrow();
    expect(() => findTenant({ acme: {} }, "umbrella")).toThrow(expect.objectContaining({ code: "unknown_tenant" }));
    expect(() => findTenant({}, "default")).toThrow(expect.objectContaining({ code: "unknown_tenant" }));
    expect(() => findTenant({ acme: {} }, "constructor")).toThrow(RunError);
    expect(findTenant(OPEN_DOOR, "umbrella")).toEqual({});
  });
});

test("a configuration directory is not needed", () => {
  mkdirSync(join(directory, "empty"), { recursive: true });
  expect(loadConfig({ file: file("{}"), env: {} }).baseDirectory).toBe(directory);
});
