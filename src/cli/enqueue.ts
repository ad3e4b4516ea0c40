import { EXIT, type ExitCode } from "./exit-codes.ts";
import { buildRequest, type RequestFlags } from "./request-options.ts";
import type { CommonOptions } from "./common-options.ts";
import { loadSettings } from "./settings.ts";
import { openProducer } from "./open-producer.ts";
import type { Terminal } from "./terminal.ts";

export type EnqueueOptions = CommonOptions & RequestFlags;

/** `skilldock enqueue`: puts a run on the queue and prints its id, or what `Producer.enqueue` returned. */
export async function enqueueCommand(terminal: Terminal, options: EnqueueOptions): Promise<ExitCode> {
  const config = loadSettings(terminal, options);
  const request = await buildRequest(terminal, options);
  await using producer = await openProducer(config);
  const enqueued = await producer.enqueue(request);
  if (options.json === true || options.jsonl === true) {
    terminal.stdout.line(JSON.stringify(enqueued));
    return EXIT.ok;
  }
  terminal.stdout.line(enqueued.runId);
  const tenant = request.tenantId === "default" ? "" : ` --tenant ${request.tenantId}`;
  const what = enqueued.duplicate ? `this run exists already (${enqueued.state})` : "queued";
  terminal.stderr.line(`skilldock: ${what}; follow it: skilldock follow ${enqueued.runId}${tenant}`);
  return EXIT.ok;
}
