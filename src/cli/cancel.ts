import { EXIT, type ExitCode } from "./exit-codes.ts";
import { openProducer } from "./open-producer.ts";
import { tenantOf, type CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import type { Terminal } from "./terminal.ts";

export interface CancelOptions extends CommonOptions {
  readonly reason?: string;
}

/** `skilldock cancel`: asks for a run's end and prints what came of it: cancelled, requested, already_ended. */
export async function cancelCommand(terminal: Terminal, runId: string, options: CancelOptions): Promise<ExitCode> {
  await using producer = await openProducer(loadSettings(terminal, options));
  const reply = await producer.cancel({
    tenantId: tenantOf(terminal, options),
    runId,
    ...(options.reason === undefined ? {} : { reason: options.reason }),
  });
  if (options.json === true || options.jsonl === true) terminal.stdout.line(JSON.stringify(reply));
  else terminal.stdout.line(reply.outcome);
  return EXIT.ok;
}
