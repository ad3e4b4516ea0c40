import { RunError } from "../shared/errors.ts";
import { chooseView } from "./choose-view.ts";
import type { ExitCode } from "./exit-codes.ts";
import { openProducer } from "./open-producer.ts";
import { pumpRun } from "./pump-run.ts";
import { buildRequest, type RequestFlags } from "./request-options.ts";
import { RunControl } from "./run-control.ts";
import type { CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

export interface RunOptions extends CommonOptions, RequestFlags {
  readonly timeout?: number;
  readonly quiet?: boolean;
  readonly local?: boolean;
  readonly skills?: readonly string[];
  readonly tools?: string;
  readonly sandbox?: "docker" | "none";
}

/** `skilldock run`: enqueues a run and shows it to its end; with `--local`, runs it in this process. */
export async function runCommand(terminal: Terminal, options: RunOptions): Promise<ExitCode> {
  if (options.local === true) {
    const { runLocally } = await import("./run-local.ts");
    return runLocally(terminal, options);
  }
  for (const flag of ["skills", "tools", "sandbox"] as const) {
    if (options[flag] !== undefined) {
      throw new RunError("invalid_request", { message: `--${flag} belongs to --local; otherwise the worker has it.` });
    }
  }
  const config = loadSettings(terminal, options);
  const request = await buildRequest(terminal, options);
  await using producer = await openProducer(config);
  const { tenantId, runId } = { tenantId: request.tenantId, ...(await producer.enqueue(request)) };
  const view = chooseView(terminal, { ...options, purpose: "run" });
  view.notice(`run ${runId}`);
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  using control = new RunControl({
    terminal,
    view,
    timeoutMs: options.timeout,
    cancel: (reason) => void producer.cancel({ tenantId, runId, reason }).catch(fail),
  });
  const { leave } = control;
  try {
    const items = producer.follow({ tenantId, runId, signal: leave });
    const result = await Promise.race([pumpRun(items, view, { leave }), failed]);
    return control.conclude(result, options);
  } finally {
    view.close();
  }
}
