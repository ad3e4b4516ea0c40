import { COMMAND_CASES } from "./sandbox-command-cases.ts";
import type { SandboxCase } from "./sandbox-cases.ts";
import { FILE_CASES } from "./sandbox-file-cases.ts";

/**
 * What every sandbox backend keeps, as named checks that need no test framework:
 *
 *     for (const { name, needs, run } of SANDBOX_CONFORMANCE) it(name, () => run(backend));
 *
 * Leave out those with `needs: "commands"` where the backend runs none. The backend must sweep the installation
 * `conformance` (or none at all).
 */
export const SANDBOX_CONFORMANCE: readonly SandboxCase[] = [...FILE_CASES, ...COMMAND_CASES];
