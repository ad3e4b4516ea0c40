import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createDockerSandbox, type SandboxBackend } from "../../src/sandbox/index.ts";
import { SANDBOX_CONFORMANCE } from "../../src/testing/sandbox-conformance.ts";
import { CASE_INSTALLATION } from "../../src/testing/sandbox-cases.ts";
import { BUSYBOX_IMAGE, containersWith, DEBIAN_IMAGE, ensureSandboxImages, hasDocker } from "../support/docker.ts";

for (const image of [DEBIAN_IMAGE, BUSYBOX_IMAGE]) {
  describe.skipIf(!hasDocker)(`the Docker sandbox of ${image} keeps the port's rules:`, () => {
    let backend: SandboxBackend;

    beforeAll(async () => {
      await ensureSandboxImages();
      backend = await createDockerSandbox({ image, installation: CASE_INSTALLATION });
    }, 300_000);

    afterAll(async () => {
      await backend[Symbol.asyncDispose]();
      expect(await containersWith(`skilldock.owner=case-${process.pid}`)).toEqual([]);
    });

    for (const { name, run } of SANDBOX_CONFORMANCE) it.concurrent(name, () => run(backend));
  });
}
