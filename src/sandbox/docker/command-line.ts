import type { WorkspacePolicy } from "../../shared/contracts/policy.ts";

/** Where the C library looks for a program when no PATH is set. */
const FALLBACK_PATH = "/bin:/usr/bin";

/**
 * The vector that the engine starts: `argv` unchanged, behind an `env` that takes every inherited variable away
 * (the runtime would add HOME and others) and sets the policy's.
 */
export function toCommandLine(argv: readonly string[], policy: WorkspacePolicy): readonly string[] {
  const variables = Object.entries(policy.environment).map(([name, value]) => `${name}=${value}`);
  return ["/usr/bin/env", "-i", ...variables, ...argv];
}

/** Where a bare program name is looked for. */
export function searchPath(policy: WorkspacePolicy): string {
  return policy.environment["PATH"] ?? FALLBACK_PATH;
}
