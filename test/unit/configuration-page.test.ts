import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { configurationPage } from "../../scripts/configuration-page.ts";

test("the configuration's page says what its schema says", () => {
  const page = readFileSync(new URL("../../docs/configuration.md", import.meta.url), "utf8");
  expect(page, "run `npm run docs`").toBe(configurationPage());
  expect(page).toContain(
    "| `worker.concurrency` | `SKILLDOCK_CONCURRENCY` | integer, 1–1,000 | `32` | Runs at a time. |",
  );
});
