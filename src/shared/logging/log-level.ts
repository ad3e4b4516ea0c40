/** From the quietest to the loudest. */
export const LOG_LEVELS = ["silent", "fatal", "error", "warn", "info", "debug", "trace"] as const;
/** Lines below the level are not written. */
export type LogLevel = (typeof LOG_LEVELS)[number];
