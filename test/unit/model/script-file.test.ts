import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadScript, parseScript } from "../../../src/shared/config/script-file.ts";
import { RunError } from "../../../src/shared/errors.ts";

describe("a script file", () => {
  test("is read from YAML into frozen entries", () => {
    const entries = parseScript(
      `
- when: { skill: greet, query: /hi/i }
  steps:
    - text: |
        Let me look.
      toolCalls:
        - name: look
          arguments: { path: a, deep: [1, { b: null }] }
        - { name: look, arguments: "{broken" }
    - { text: Done., delayMs: 10, chunkDelayMs: 5 }
- steps: [{}]
`,
      { name: "script.yaml" },
    );
    expect(entries).toEqual([
      {
        when: { skill: "greet", query: "/hi/i" },
        steps: [
          {
            text: "Let me look.\n",
            toolCalls: [
              { name: "look", arguments: { path: "a", deep: [1, { b: null }] } },
              { name: "look", arguments: "{broken" },
            ],
          },
          { text: "Done.", delayMs: 10, chunkDelayMs: 5 },
        ],
      },
      { steps: [{}] },
    ]);
    expect(Object.isFrozen(entries[0]?.steps[0]?.toolCalls?.[0]?.arguments)).toBe(true);
  });

  test.each([
    ["an unknown field", "- steps:\n  - text: a\n    txet: b\n", 3, "/0/steps/0/txet is not a field that exists here."],
    ["a missing field", "- when: { skill: a }\n", 1, "/0/steps is missing."],
    ["a wrong type", "- steps:\n  - {}\n  - text: 7\n", 3, "/0/steps/1/text must be text."],
    [
      "a delay that is too long",
      "- steps:\n  - delayMs: 600001\n",
      2,
      "/0/steps/0/delayMs must be an integer from 0 to 600000.",
    ],
    ["a key that is written twice", "- steps: []\n  steps: [{}]\n", 2, "Map keys must be unique"],
    ["broken YAML", "- steps: [\n", 2, ""],
    [
      "a pattern with look-around",
      "- when:\n    query: /(?=a)/\n  steps: [{}]\n",
      2,
      "/0/when/query must be a pattern in RE2 syntax",
    ],
    ["no entry", "[]\n", 1, "The document must be a list of at least 1 items."],
  ])("with %s is refused at its line", (_name, text, line, message) => {
    const error = refusalOf(() => parseScript(text, { name: "script.yaml" }));
    expect(error.code).toBe("invalid_configuration");
    expect(error.details).toMatchObject({
      file: "script.yaml",
      problems: [{ line, message: expect.stringContaining(message) }],
    });
    expect(error.message).toContain(`Line ${line}, column`);
  });

  test("that refers to itself without end is refused", () => {
    const bomb = `- &a {text: x}\n- &b [${"*a,".repeat(50)}]\n- [${"*b,".repeat(50)}]\n`;
    expect(refusalOf(() => parseScript(bomb, { name: "bomb.yaml" })).code).toBe("invalid_configuration");
  });

  test("is named in errors without its directory", () => {
    const directory = mkdtempSync(join(tmpdir(), "script-"));
    try {
      writeFileSync(join(directory, "good.yaml"), "- steps: [{ text: hi }]\n");
      expect(loadScript(join(directory, "good.yaml"))).toHaveLength(1);
      const error = refusalOf(() => loadScript(join(directory, "none.yaml")));
      expect(error.message).toBe("The script none.yaml cannot be read: it does not exist.");
      expect(JSON.stringify(error.toBody())).not.toContain(directory);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

function refusalOf(run: () => unknown): RunError {
  try {
    run();
  } catch (error) {
    if (error instanceof RunError) return error;
    throw error;
  }
  throw new Error("expected a refusal");
}
