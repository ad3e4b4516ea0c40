import { expect, test } from "vitest";
import { RunError } from "../../src/shared/errors.ts";

test("an error body carries neither cause nor stack", () => {
  const error = new RunError("internal", { cause: new Error("/secret/path") });
  expect(JSON.stringify(error.toBody())).not.toContain("secret");
  expect(error.toBody()).toEqual({ code: "internal", message: "An internal error ended the run.", retryable: true });
});
