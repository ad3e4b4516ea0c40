import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { assertNever, ERROR_TABLE, RunError, toRunError } from "../../src/shared/errors.ts";
import { REPOSITORY } from "../support/imports.ts";

/** The rows of the tables in `docs/errors.md`, without the column of advice. */
function readDocumentedRows(): readonly { readonly row: readonly string[]; readonly advice: string }[] {
  const lines = readFileSync(join(REPOSITORY, "docs/errors.md"), "utf8").split("\n");
  return lines
    .filter((line) => line.startsWith("| `"))
    .map((line) => line.slice(2, -2).split(" | "))
    .map((cells) => ({ row: cells.slice(0, -1), advice: cells.at(-1) ?? "" }));
}

describe("docs/errors.md", () => {
  test("says of every code what the table says, in its order, and of no other", () => {
    const order = ["refused", "policy_denied", "limit_exceeded", "timed_out", "failed", "receipt"];
    const expected = Object.entries(ERROR_TABLE)
      .toSorted(([, left], [, right]) => order.indexOf(left.outcome) - order.indexOf(right.outcome))
      .map(([code, { outcome, retryable, fault, message }]) => [
        `\`${code}\``,
        `\`${outcome}\``,
        retryable ? "yes" : "no",
        fault,
        message,
      ]);
    expect(readDocumentedRows().map(({ row }) => row)).toEqual(expected);
  });

  test("says of every code what to do", () => {
    expect(readDocumentedRows().filter(({ advice }) => !/^[A-Z].{10,}\.$/.test(advice))).toEqual([]);
  });
});

describe("a RunError", () => {
  test("shows neither cause nor stack", () => {
    const error = new RunError("internal", { cause: new Error("/secret/path") });
    expect(error.toBody()).toEqual({ code: "internal", message: "An internal error ended the run.", retryable: true });
    expect(error.cause).toBeInstanceOf(Error);
  });

  test("keeps its own words and facts", () => {
    const error = new RunError("max_turns", { message: "16 turns were used.", details: { maxTurns: 16 } });
    expect(error.toBody()).toEqual({
      code: "max_turns",
      message: "16 turns were used.",
      retryable: false,
      details: { maxTurns: 16 },
    });
    expect(error.outcome).toBe("limit_exceeded");
  });

  test("is made once: what is one already stays itself", () => {
    const error = new RunError("sandbox_failed");
    expect(toRunError(error)).toBe(error);
    expect(toRunError(new Error("/secret"), "model_unavailable").message).toBe(ERROR_TABLE.model_unavailable.message);
    expect(toRunError("text").code).toBe("internal");
  });

  test("names the value of a branch that cannot be reached", () => {
    expect(() => assertNever("surprise" as never)).toThrow("Unexpected value: surprise");
  });
});
