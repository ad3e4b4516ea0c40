import type { Metrics } from "../shared/metrics/metrics.ts";
import type { Sandbox, SandboxBackend } from "../sandbox/backend.ts";

/** A backend that counts: sandboxes held, their start times, and those that a sweep had to remove. */
export function meteredBackend(backend: SandboxBackend, metrics: Metrics): SandboxBackend {
  let held = 0;
  metrics.sandboxActive(() => held);
  return {
    name: backend.name,
    async create(policy, labels, signal) {
      const since = performance.now();
      const sandbox = await backend.create(policy, labels, signal);
      metrics.sandboxStarted((performance.now() - since) / 1_000);
      held++;
      return released(sandbox, () => held--);
    },
    check: (signal) => backend.check(signal),
    async sweep() {
      const swept = await backend.sweep();
      if (swept > 0) metrics.sandboxesLeaked(swept);
      return swept;
    },
    [Symbol.asyncDispose]: () => backend[Symbol.asyncDispose](),
  };
}

/** Calls `release` when the sandbox is destroyed, once. */
function released(sandbox: Sandbox, release: () => void): Sandbox {
  let gone = false;
  return {
    id: sandbox.id,
    executesCommands: sandbox.executesCommands,
    exec: (argv, options) => sandbox.exec(argv, options),
    list: (signal) => sandbox.list(signal),
    readFile: (path, range, signal) => sandbox.readFile(path, range, signal),
    writeFiles: (files, signal) => sandbox.writeFiles(files, signal),
    async destroy() {
      try {
        return await sandbox.destroy();
      } finally {
        if (!gone) release();
        gone = true;
      }
    },
  };
}
