import { spawnSync } from "node:child_process";
import { beforeAll, describe, expect, test } from "vitest";
import { type CliEnd, CONFIG, SKILLDOCK, SKILLS, startProgram } from "../support/cli.ts";
import { renderScreen } from "../support/screen.ts";

/** `script` (util-linux) gives a program a terminal of its own. */
const SCRIPT = "script";
const hasScript = spawnSync(SCRIPT, ["--version"]).status === 0;
const mustRun = process.env["CI"] === "true";
if (!hasScript && !mustRun) console.warn("SKIP  no `script` (util-linux): 4 tests with a terminal cannot run");

const LOCAL = ["run", "--local", "--skills", SKILLS, "--config", CONFIG, "--sandbox", "none", "--skill", "greet"];

function onTerminal(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CliEnd> {
  const line = [SKILLDOCK, ...argv].map((word) => `'${word}'`).join(" ");
  return startProgram(SCRIPT, ["--quiet", "--return", "--command", line, "/dev/null"], { env }).end;
}

describe.skipIf(!hasScript && !mustRun)("on a terminal", () => {
  let plain: CliEnd;
  beforeAll(async () => {
    plain = await onTerminal([...LOCAL, "--query", "hi"]);
  });

  test("the text stands there once, above a line on what the run used", () => {
    const screen = renderScreen(plain.stdout);
    expect(plain.status).toBe(0);
    expect(screen).toMatch(/^Hello from the script\.\nsucceeded in \d+ ms · 1 turn · 0 tool calls · \d+ tokens\n$/);
  });

  test("a status line is drawn while it goes on, in colour", () => {
    expect(plain.stdout).toContain("\r\u001b[2K\u001b[2m0 s · turn 1 · model\u001b[22m");
  });

  test("NO_COLOR is obeyed", async () => {
    const { stdout } = await onTerminal([...LOCAL, "--query", "hi"], { NO_COLOR: "1" });
    // eslint-disable-next-line no-control-regex -- colours are control sequences
    expect(stdout).not.toMatch(/\u001b\[\d*m/);
    expect(renderScreen(stdout)).toMatch(/^Hello from the script\.\n/);
  });

  test("control characters of the model do not reach it", async () => {
    const { stdout } = await onTerminal([...LOCAL, "--query", "escape"], { NO_COLOR: "1" });
    expect(renderScreen(stdout)).toMatch(/^red \uFFFD\[31mtext\uFFFD done\n/);
    expect(stdout).not.toContain("\u001b[31m");
    expect(stdout).not.toContain("\u0007");
  });
});
