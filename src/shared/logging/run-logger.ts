import type { Logger } from "./logger.ts";

/** Which run a line is about. */
export interface RunBindings {
  readonly runId: string;
  readonly tenantId: string;
  /** The attempt's epoch, 1, 2, 3 …; absent outside attempts. */
  readonly attempt?: number;
  readonly correlationId?: string;
}

/** A child logger that names the run on each line. Takes nothing else from `run` than these four. */
export function runLogger(logger: Logger, run: RunBindings): Logger {
  const { runId, tenantId, attempt, correlationId } = run;
  return logger.child({
    runId,
    tenantId,
    ...(attempt === undefined ? {} : { attempt }),
    ...(correlationId === undefined ? {} : { correlationId }),
  });
}
