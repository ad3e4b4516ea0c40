import type { Config } from "../shared/config/config.ts";
import { loadConfig, type ConfigFlags } from "../shared/config/load-config.ts";
import type { CommonOptions } from "./common-options.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Loads the configuration: flags before environment before file before defaults.
 *
 * @throws {RunError} `invalid_configuration`, with every problem.
 */
export function loadSettings(terminal: Terminal, options: CommonOptions, flags: ConfigFlags = {}): Config {
  return loadConfig({
    ...(options.config === undefined ? {} : { file: options.config }),
    env: terminal.environment,
    flags: { ...flags, ...(options.logLevel === undefined ? {} : { log: { level: options.logLevel } }) },
  });
}
