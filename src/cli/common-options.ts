import type { AnswerOptions } from "./report-error.ts";
import type { Terminal } from "./terminal.ts";

/** The options that every command has. */
export interface CommonOptions extends AnswerOptions {
  readonly config?: string;
  readonly tenant?: string;
}

/** The tenant of a command that names a run: `--tenant`, then `SKILLDOCK_TENANT`, then `default`. */
export function tenantOf(terminal: Terminal, options: CommonOptions): string {
  return options.tenant ?? defaultTenant(terminal);
}

/** The tenant of a command that does not say: `SKILLDOCK_TENANT`, then `default`. */
export function defaultTenant(terminal: Terminal): string {
  const tenant = terminal.environment["SKILLDOCK_TENANT"];
  return tenant === undefined || tenant === "" ? "default" : tenant;
}
