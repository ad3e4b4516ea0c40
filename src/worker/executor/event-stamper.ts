import { toIsoTime } from "../../shared/clock.ts";
import type { RunEvent, RunEventDraft } from "../../shared/contracts/event.ts";
import type { RunResult } from "../../shared/contracts/result.ts";
import type { UnsealedResult } from "./execution.ts";

/** Puts drafts into their envelope and counts the sequence, for one attempt. Its times never go back. */
export class EventStamper {
  readonly #run: { readonly runId: string; readonly tenantId: string; readonly attempt: number };
  readonly #now: () => number;
  #sequence: number;
  #lastTime = 0;
  #lastTimeText = toIsoTime(0);

  constructor(options: {
    readonly runId: string;
    readonly tenantId: string;
    readonly attempt: number;
    /** What has been written before; 0 for a new stream. */
    readonly lastSequence: number;
    /** Epoch ms. */
    readonly now: () => number;
  }) {
    this.#run = { runId: options.runId, tenantId: options.tenantId, attempt: options.attempt };
    this.#sequence = options.lastSequence;
    this.#now = options.now;
  }

  /** The sequence of the event stamped last. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Takes back what was stamped after `sequence` and never written. */
  rewind(sequence: number): void {
    this.#sequence = sequence;
  }

  stamp(draft: RunEventDraft): RunEvent {
    return this.#wrap(draft, { terminal: false });
  }

  /** Seals the result with its sequence: it is the data of the terminal event. */
  seal(unsealed: UnsealedResult): { readonly event: RunEvent; readonly result: RunResult } {
    const result: RunResult = { ...unsealed, lastSequence: this.#sequence + 1 };
    return { event: this.#wrap({ type: terminalTypeOf(result), data: result }, { terminal: true }), result };
  }

  #wrap(draft: RunEventDraft, { terminal }: { readonly terminal: boolean }): RunEvent {
    const now = this.#now();
    if (now > this.#lastTime) {
      this.#lastTime = now;
      this.#lastTimeText = toIsoTime(now);
    }
    return {
      schemaVersion: "1",
      runId: this.#run.runId,
      tenantId: this.#run.tenantId,
      sequence: ++this.#sequence,
      type: draft.type,
      time: this.#lastTimeText,
      attempt: this.#run.attempt,
      terminal,
      data: draft.data,
    } as RunEvent; // type and data belong together in every draft; spread over two fields the compiler loses that
  }
}

function terminalTypeOf(result: RunResult): "run.final_response" | "run.cancelled" | "run.error" {
  if (result.status === "succeeded") return "run.final_response";
  return result.status === "cancelled" ? "run.cancelled" : "run.error";
}
