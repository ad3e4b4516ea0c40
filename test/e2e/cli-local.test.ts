import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { validateEvent, validateResult } from "../../src/shared/contracts/validate.ts";
import {
  type CliEnd,
  CONFIG,
  FIXTURES,
  onlyObject,
  runCli,
  SKILLDOCK,
  SKILLS,
  startCli,
  startProgram,
} from "../support/cli.ts";
import { findFreePort } from "../support/redis.ts";

let directory: string;
let closedPort: number;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "skilldock-bad-"));
  closedPort = await findFreePort();
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const LOCAL = ["run", "--local", "--skills", SKILLS, "--config", CONFIG, "--sandbox", "none"];

function local(argv: readonly string[], options: Parameters<typeof runCli>[1] = {}): Promise<CliEnd> {
  return runCli([...LOCAL, ...argv], options);
}

/** A file of the test's own. */
function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

describe("skilldock run --local", () => {
  test("runs without Redis", async () => {
    const { status, stdout } = await local(["--skill", "greet", "--query", "hi"]);
    expect([status, stdout]).toEqual([0, "Hello from the script.\n"]);
  });

  test("prints the same shapes as a run from the queue", async () => {
    const { stdout } = await local(["--skill", "greet", "--query", "hi", "--json"]);
    expect(validateResult(onlyObject(stdout))).toEqual([]);
    const { stdout: jsonl } = await local(["--skill", "greet", "--query", "hi", "--jsonl"]);
    const events: unknown[] = jsonl
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    expect(events.flatMap((event) => validateEvent(event))).toEqual([]);
    expect(events.at(-1)).toMatchObject({ terminal: true, data: { type: "result", status: "succeeded" } });
  });

  test("takes caller tools from a module, and a response schema from a file", async () => {
    const order = await local([
      "--skill",
      "order",
      "--query",
      "order",
      "--allow",
      "caller.lookup_order@1",
      "--tools",
      `${FIXTURES}/tools.ts`,
      "--json",
    ]);
    expect(onlyObject(order.stdout)).toMatchObject({
      outputText: "It is on its way.",
      receipts: [{ status: "succeeded" }],
    });
    const schema = file("schema.json", JSON.stringify({ type: "object", required: ["answer"] }));
    const answer = await local(["--skill", "greet", "--query", "json", "--response-schema", schema, "--json"]);
    expect(onlyObject(answer.stdout)).toMatchObject({ output: { answer: 42 } });
  });

  test("Ctrl-C cancels the run and ends with 130", async () => {
    await using run = startCli([...LOCAL, "--skill", "greet", "--query", "slow"]);
    await run.says(/model\.started/);
    run.child.kill("SIGINT");
    expect(await run.end).toMatchObject({ status: 130, stdout: "" });
  });

  test("--timeout cancels it and ends with 7", async () => {
    const { status, stdout } = await local(["--skill", "greet", "--query", "slow", "--timeout", "300ms", "--json"]);
    expect([status, onlyObject(stdout)]).toMatchObject([7, { status: "cancelled" }]);
  });

  test("ends quietly when its reader wants only the first line", async () => {
    const line = `'${SKILLDOCK}' ${LOCAL.map((word) => `'${word}'`).join(" ")} --skill greet --query slow --jsonl | head -n 1`;
    const { status, stdout, stderr } = await startProgram("bash", ["-o", "pipefail", "-c", line]).end;
    expect([status, stderr]).toEqual([0, ""]);
    expect(onlyObject(stdout)).toMatchObject({ sequence: 1, type: "run.started" });
  });

  test("output that cannot be written is no success", async () => {
    const line = `'${SKILLDOCK}' ${LOCAL.map((word) => `'${word}'`).join(" ")} --skill greet --query hi --json > /dev/full`;
    const { status, stderr } = await startProgram("bash", ["-c", line]).end;
    expect([status, stderr]).toEqual([1, "skilldock: the output could not be written: ENOSPC\n"]);
  });

  test("what is not a terminal gets the model's text byte for byte, and no colour", async () => {
    const { stdout, stderr } = await local(["--skill", "greet", "--query", "escape"]);
    expect(stdout).toBe("red \u001b[31mtext\u0007 done\n");
    expect(stderr).not.toContain("\u001b");
  });
});

describe("bad input has a code and an exit status", () => {
  const query = (text: string): readonly string[] => ["--skill", "greet", "--query", text];
  const cases: readonly (readonly [what: string, run: () => Promise<CliEnd>, status: number, code: string])[] = [
    ["an unknown command", () => runCli(["frobnicate", "--json"]), 2, "invalid_request"],
    ["an unknown option", () => local([...query("x"), "--frob", "--json"]), 2, "invalid_request"],
    ["no skill", () => local(["--query", "x", "--json"]), 2, "invalid_request"],
    ["a query of 300 kB", () => local([...query("-"), "--json"], { input: "a".repeat(300_000) }), 2, "invalid_request"],
    [
      "a query that is not UTF-8",
      () => local([...query("-"), "--json"], { input: Buffer.from([0xff, 0xfe]) }),
      2,
      "invalid_request",
    ],
    ["network enabled", () => local([...query("x"), "--network", "enabled", "--json"]), 2, "invalid_request"],
    [
      "an unknown field",
      () => local(["--request", file("field.json", '{"skill":"greet","colour":"red"}'), "--json"]),
      2,
      "invalid_request",
    ],
    ["a request that is not JSON", () => local(["--request", file("no.json", "{"), "--json"]), 2, "invalid_request"],
    [
      "a request that is not there",
      () => local(["--request", join(directory, "absent.json"), "--json"]),
      2,
      "invalid_request",
    ],
    ["a duration that is none", () => local([...query("x"), "--timeout", "soon", "--json"]), 2, "invalid_request"],
    ["--json with --jsonl", () => local([...query("x"), "--json", "--jsonl"]), 2, "invalid_request"],
    [
      "a field that is not built yet",
      () => local([...query("x"), "--thread", "thread-0001", "--json"]),
      2,
      "not_supported",
    ],
    [
      "a command that is not built yet",
      () => runCli(["tenant", "set", "acme", "--weight", "2", "--json"]),
      2,
      "not_supported",
    ],
    [
      "a configuration that is not there",
      () => runCli(["enqueue", ...query("x"), "--config", "absent.yaml", "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "a configuration with an unknown field",
      () => runCli(["enqueue", ...query("x"), "--config", file("bad.yaml", "colour: red\n"), "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "no models",
      () => runCli(["run", "--local", "--skills", SKILLS, ...query("x"), "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "a tools module that is not there",
      () => local([...query("x"), "--tools", "./absent.mjs", "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "a tools module without tools",
      () => local([...query("x"), "--tools", file("none.mjs", "export const x = 1;"), "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "a directory of skills that is not there",
      () => local([...query("x"), "--skills", join(directory, "absent"), "--json"]),
      3,
      "invalid_configuration",
    ],
    [
      "a tenant that is not known",
      () =>
        runCli([
          "enqueue",
          ...query("x"),
          "--config",
          file("closed.yaml", "tenants: {acme: {}}\n"),
          "--tenant",
          "rival",
          "--json",
        ]),
      4,
      "unknown_tenant",
    ],
    [
      "no Redis for run",
      () => runCli(["run", ...query("x"), "--json"], { env: { REDIS_URL: `redis://127.0.0.1:${closedPort}` } }),
      8,
      "redis_unavailable",
    ],
    [
      "no Redis for worker",
      () => worker(["--sandbox", "none"], { REDIS_URL: `redis://127.0.0.1:${closedPort}` }),
      8,
      "redis_unavailable",
    ],
    [
      "no Docker for worker",
      () => worker([], { DOCKER_HOST: `unix://${join(directory, "no.sock")}` }),
      8,
      "sandbox_unavailable",
    ],
  ];

  function worker(argv: readonly string[], env: Readonly<Record<string, string>>): Promise<CliEnd> {
    return runCli(
      [
        "worker",
        "--config",
        CONFIG,
        "--skills",
        SKILLS,
        "--metrics-port",
        "0",
        "--log-level",
        "warn",
        "--json",
        ...argv,
      ],
      { env },
    );
  }

  test.concurrent.each(cases)("%s", async (_what, run, status, code) => {
    const end = await run();
    expect(onlyObject(end.stdout)).toMatchObject({ error: { code, message: expect.any(String) } });
    expect(end.status).toBe(status);
    expect(end.stdout + end.stderr).not.toMatch(/\n\s+at |node:internal/);
  });

  test("a skill, and a capability, that do not exist end the run: 1", async () => {
    const skill = await local(["--skill", "nowhere", "--query", "x", "--json"]);
    expect([skill.status, onlyObject(skill.stdout)]).toMatchObject([
      1,
      { status: "failed", error: { code: "skill_not_found" } },
    ]);
    const shell = await local([...query("x"), "--allow", "shell@1", "--json"]);
    expect([shell.status, onlyObject(shell.stdout)]).toMatchObject([
      1,
      { status: "policy_denied", error: { code: "unknown_capability" } },
    ]);
    const files = await local([...query("x"), "--allow", "workspace.read@1", "--json"]);
    expect([files.status, onlyObject(files.stdout)]).toMatchObject([
      1,
      { status: "policy_denied", error: { code: "workspace_unavailable" } },
    ]);
  });

  test("for people it is one sentence on stderr, with the code", async () => {
    const { status, stdout, stderr } = await local([...query("x"), "--network", "enabled"]);
    expect([status, stdout, stderr]).toEqual([
      2,
      "",
      'skilldock: /workspacePolicy/network must be "disabled". (invalid_request)\n',
    ]);
  });

  test("a missing Docker is named, with what to do", async () => {
    const { stderr } = await runCli(["worker", "--config", CONFIG, "--skills", SKILLS, "--metrics-port", "0"], {
      env: { DOCKER_HOST: `unix://${join(directory, "no.sock")}` },
    });
    expect(stderr).toMatch(/--sandbox none.*\(sandbox_unavailable\)\n$/);
  });

  test("--log-level debug shows where an error comes from, on stderr", async () => {
    const { stderr, stdout } = await local([...query("x"), "--network", "enabled", "--log-level", "debug", "--json"]);
    expect(onlyObject(stdout)).toMatchObject({ error: { code: "invalid_request" } });
    expect(stderr).toMatch(/\n\s+at /);
  });
});

describe("skilldock skills", () => {
  test("list --json has the shape of the contract", async () => {
    const broken = join(directory, "broken");
    mkdirSync(broken);
    writeFileSync(join(broken, "SKILL.md"), "no frontmatter");
    const { status, stdout } = await runCli(["skills", "list", SKILLS, broken, "--json"]);
    const digest: unknown = expect.stringMatching(/^sha256:[0-9a-f]{64}$/);
    expect([status, onlyObject(stdout)]).toEqual([
      0,
      {
        catalogDigest: digest,
        skills: [
          {
            ref: "files",
            digest,
            name: "files",
            description: "Reads a file of the workspace.",
            files: 1,
            bytes: expect.any(Number),
          },
          {
            ref: "greet",
            digest,
            name: "greet",
            description: "Greets whoever asks.",
            argumentHint: "<name>",
            version: "1.2.0",
            files: 1,
            bytes: expect.any(Number),
          },
          {
            ref: "order",
            digest,
            name: "order",
            description: "Looks an order up.",
            files: 1,
            bytes: expect.any(Number),
          },
        ],
        diagnostics: [
          expect.objectContaining({ level: "error", line: expect.any(Number), column: expect.any(Number) }),
        ],
      },
    ]);
    expect((await runCli(["skills", "check", broken])).status).toBe(1);
  });

  test("list is a table for people, and check passes", async () => {
    const { status, stdout } = await runCli(["skills", "check", SKILLS]);
    expect(stdout).toMatch(/^files +[0-9a-f]{12} +\d+ B {2}Reads a file of the workspace\.\ngreet /);
    expect(status).toBe(0);
  });

  test("check --strict refuses what the open format does not have", async () => {
    const { status, stderr } = await runCli(["skills", "check", SKILLS, "--strict"]);
    expect(stderr).toMatch(/greet\/SKILL\.md:\d+:\d+: error /);
    expect(status).toBe(1);
  });
});

describe("help", () => {
  test("goes to stdout when asked for, with 0", async () => {
    const { status, stdout, stderr } = await runCli(["run", "--help"]);
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("--config <file>");
  });

  test("goes to stderr, with 2, where a command is missing", async () => {
    const { status, stdout, stderr } = await runCli([]);
    expect([status, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("Usage: skilldock");
  });
});
