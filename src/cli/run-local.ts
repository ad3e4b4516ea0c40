import { loadCatalog } from "../worker/catalog/load-catalog.ts";
import { Executor } from "../worker/executor/executor.ts";
import { RunError } from "../shared/errors.ts";
import { chooseView } from "./choose-view.ts";
import { EXIT, type ExitCode } from "./exit-codes.ts";
import { loadTools } from "./load-tools.ts";
import { modelsOf } from "../worker/model/configured-models.ts";
import { sandboxOf } from "./parts.ts";
import { pumpRun } from "./pump-run.ts";
import { buildRequest } from "./request-options.ts";
import { RunControl } from "./run-control.ts";
import type { RunOptions } from "./run.ts";
import { loadSettings } from "./settings.ts";
import { printDiagnostics } from "./skills.ts";
import type { Terminal } from "./terminal.ts";

/** `skilldock run --local`: the same run in this process, without Redis. A sandbox is made when a call needs it. */
export async function runLocally(terminal: Terminal, options: RunOptions): Promise<ExitCode> {
  const config = loadSettings(terminal, options, {
    skills: { directories: options.skills },
    worker: { tools: options.tools },
    sandbox: { backend: options.sandbox },
  });
  const { directories } = config.skills;
  if (directories.length === 0) throw new RunError("invalid_request", { message: "--local needs --skills <dir>…" });
  const models = modelsOf(config);
  const sandbox = sandboxOf(config);
  const tools = await loadTools(config.worker.tools);
  const request = await buildRequest(terminal, options);
  const catalog = await loadCatalog({ directories });
  const forPeople = options.json !== true && options.jsonl !== true && options.quiet !== true;
  if (forPeople) printDiagnostics(terminal, catalog.diagnostics);
  await using executor = new Executor({ catalog, models, tools, ...(sandbox === undefined ? {} : { sandbox }) });
  const view = chooseView(terminal, { ...options, purpose: "run" });
  const cancelled = new AbortController();
  using control = new RunControl({
    terminal,
    view,
    timeoutMs: options.timeout,
    cancel: (reason) => cancelled.abort(reason),
  });
  // Nobody reads any more: the run ends, with its sandbox, before the process does.
  const stopReading = (): void => cancelled.abort("the reader has gone");
  terminal.outputClosed.addEventListener("abort", stopReading, { once: true });
  const items = executor.run(request, { signal: cancelled.signal });
  const result = await pumpRun(items, view, { leave: new AbortController().signal });
  return terminal.outputClosed.aborted ? EXIT.ok : control.conclude(result, options);
}
