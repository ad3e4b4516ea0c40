import { defineConfig } from "vitest/config";

/** Tests that own servers, containers or processes: two files at a time, after the quick ones. */
const heavy = { maxWorkers: 2, testTimeout: 30_000, hookTimeout: 60_000, teardownTimeout: 20_000 };

export default defineConfig({
  resolve: { conditions: ["skilldock-source", "module", "node", "import", "default"] },
  ssr: { resolve: { conditions: ["skilldock-source", "module", "node", "import", "default"] } },
  test: {
    environment: "node",
    passWithNoTests: false,
    allowOnly: false,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          testTimeout: 10_000,
          hookTimeout: 10_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          ...heavy,
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          ...heavy,
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 90_000,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
});
