import { chooseView } from "./choose-view.ts";
import { EXIT, exitCodeOfResult, type ExitCode } from "./exit-codes.ts";
import { onInterrupt } from "./interrupts.ts";
import { openProducer } from "./open-producer.ts";
import { pumpRun } from "./pump-run.ts";
import { reportInterrupted } from "./report-error.ts";
import { tenantOf, type CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

export interface FollowOptions extends CommonOptions {
  readonly from?: number;
}

/** `skilldock follow`: prints a run's events from any of them on, then its result. Ctrl-C leaves; the run goes on. */
export async function followCommand(terminal: Terminal, runId: string, options: FollowOptions): Promise<ExitCode> {
  const tenantId = tenantOf(terminal, options);
  const detach = new AbortController();
  const leave = AbortSignal.any([detach.signal, terminal.outputClosed]);
  await using producer = await openProducer(loadSettings(terminal, options));
  using _ = onInterrupt(terminal, () => detach.abort());
  const items = producer.follow({ tenantId, runId, fromSequence: options.from ?? 1, signal: leave });
  const result = await pumpRun(items, chooseView(terminal, { ...options, purpose: "follow" }), { leave });
  if (result !== undefined) return exitCodeOfResult(result);
  if (!detach.signal.aborted) return EXIT.ok;
  const message = `Left run ${runId}; it goes on.`;
  if (options.json === true) return reportInterrupted(terminal, message, options);
  terminal.stderr.line(`skilldock: ${message}`);
  return EXIT.interrupted;
}
