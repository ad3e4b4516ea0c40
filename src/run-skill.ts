import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { RunEvent } from "./shared/contracts/event.ts";
import type { RunResult } from "./shared/contracts/result.ts";
import { RunError } from "./shared/errors.ts";
import type { SandboxBackend } from "./sandbox/backend.ts";
import { loadCatalog } from "./worker/catalog/load-catalog.ts";
import { Executor, type LocalRunRequest } from "./worker/executor/executor.ts";
import type { ModelRouter } from "./worker/model/model.ts";
import type { CallerTool } from "./worker/tools/tool.ts";

/** One run in this process: a request whose `skill` is a path, and what it may work with. */
export interface RunSkillOptions extends Omit<LocalRunRequest, "skill"> {
  /** A skill's directory: a path, relative to the working directory, or a `file://` URL. */
  readonly skill: string | URL;
  /** Default: the routes of `./skilldock.yaml` and the environment, as the command line takes them. */
  readonly models?: ModelRouter;
  readonly tools?: readonly CallerTool[];
  /** Made at the first admitted workspace call, ended with the run. */
  readonly sandbox?: () => SandboxBackend | Promise<SandboxBackend>;
  readonly signal?: AbortSignal;
}

/**
 * Runs one skill in this process, without Redis.
 *
 *     for await (const item of runSkill({ skill: "./skills/hello", query: "Say hello." })) { … }
 *
 * Yields every event, then the result (`item.type === "result"`). Aborting `signal` cancels and still delivers the
 * `cancelled` result; leaving early cleans up within 10 s.
 *
 * @throws {RunError} `invalid_request`, `not_supported`, `invalid_configuration`; `skill_invalid` with the diagnostic
 *   where the directory holds no skill that can be loaded.
 */
export async function* runSkill(options: RunSkillOptions): AsyncGenerator<RunEvent | RunResult, void, void> {
  const { skill, models, tools, sandbox, signal, ...request } = options;
  const directory = skill instanceof URL ? skill : pathToFileURL(resolve(skill));
  const catalog = await loadCatalog({ directories: [directory] });
  const found = catalog.skills[0];
  if (found === undefined || catalog.skills.length > 1) {
    const reason = catalog.diagnostics[0]?.message ?? "it is not the directory of one skill";
    throw new RunError("skill_invalid", { message: `The skill could not be loaded: ${reason}` });
  }
  await using executor = new Executor({
    catalog,
    models: models ?? (await configuredModels()),
    ...(tools === undefined ? {} : { tools }),
    ...(sandbox === undefined ? {} : { sandbox }),
  });
  yield* executor.run({ ...request, skill: found.ref }, signal === undefined ? {} : { signal });
}

/** Read at each call, so that nothing is read at import. */
async function configuredModels(): Promise<ModelRouter> {
  const { loadConfig } = await import("./shared/config/load-config.ts");
  const { modelsOf } = await import("./worker/model/configured-models.ts");
  return modelsOf(loadConfig({ env: process.env }));
}
