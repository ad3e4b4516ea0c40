import type { Config } from "../../shared/config/config.ts";
import { RunError } from "../../shared/errors.ts";
import type { ModelRouter } from "./model.ts";
import { createModelRouter, routesFromConfig } from "./router.ts";

/**
 * The routes of a configuration.
 *
 * @throws {RunError} `invalid_configuration`: no models, or a route that cannot be built.
 */
export function modelsOf(config: Config): ModelRouter {
  const { models, readSecret, baseDirectory } = config;
  if (models === undefined) {
    const where = config.file === undefined ? "there is no skilldock.yaml here" : `add them to ${config.file}`;
    throw new RunError("invalid_configuration", { message: `No models are configured: ${where}.` });
  }
  return createModelRouter(routesFromConfig(models, { readSecret, baseDirectory }));
}
