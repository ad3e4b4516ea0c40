import { exitCodeOfResult, type ExitCode } from "./exit-codes.ts";
import { openProducer } from "./open-producer.ts";
import { reportWaitExpired } from "./report-error.ts";
import { printFinalText, printOutcome } from "./run-view.ts";
import { tenantOf, type CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

export interface ResultOptions extends CommonOptions {
  readonly wait?: number;
}

/** `skilldock result`: prints the result of a run that has ended, or ends within `--wait`. */
export async function resultCommand(terminal: Terminal, runId: string, options: ResultOptions): Promise<ExitCode> {
  await using producer = await openProducer(loadSettings(terminal, options));
  const waitMs = options.wait ?? 0;
  const result = await producer.result({ tenantId: tenantOf(terminal, options), runId, waitMs });
  if (result === undefined) {
    const message =
      waitMs === 0 ? "The run has not ended yet; --wait 30s waits for it." : "The run did not end in the time given.";
    return reportWaitExpired(terminal, message, options);
  }
  if (options.json === true || options.jsonl === true) terminal.stdout.line(JSON.stringify(result));
  else {
    printFinalText(terminal.stdout, result.outputText);
    printOutcome(terminal.stderr, result);
  }
  return exitCodeOfResult(result);
}
