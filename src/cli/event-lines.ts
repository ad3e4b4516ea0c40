import type { RunEvent } from "../shared/contracts/event.ts";
import { formatCount, formatDuration, summarize } from "./figures.ts";
import { printableLine } from "./printable.ts";

/** One event, ready to be set in a line. Nothing in it can control a terminal. */
export interface EventLine {
  readonly sequence: string;
  readonly type: string;
  readonly detail: string;
  readonly tone: "plain" | "good" | "bad" | "quiet";
}

const SNIPPET_LENGTH = 100;

/** The lines of a run's events, one after the other; previews of text are gathered into the line before the next event. */
export class EventLines {
  #deltas: { readonly from: number; to: number } | undefined;

  /** @returns The lines to print now: for a preview none, for another event its own, after one for the previews. */
  next(event: RunEvent): readonly EventLine[] {
    if (event.type === "model.delta") {
      this.#deltas = { from: this.#deltas?.from ?? event.sequence, to: event.sequence };
      return [];
    }
    const line = toEventLine(event);
    const previews = this.#takePreviews();
    return [...(previews === undefined ? [] : [previews]), ...(line === undefined ? [] : [line])];
  }

  #takePreviews(): EventLine | undefined {
    if (this.#deltas === undefined) return undefined;
    const { from, to } = this.#deltas;
    this.#deltas = undefined;
    const sequence = from === to ? String(from) : `${from}-${to}`;
    return { sequence, type: "model.delta", detail: "text as it came", tone: "quiet" };
  }
}

/** @returns The event in words; undefined for `model.delta`, whose text comes whole with `model.completed`. */
export function toEventLine(event: RunEvent): EventLine | undefined {
  if (event.type === "model.delta") return undefined;
  return {
    sequence: String(event.sequence),
    type: printableLine(event.type, 40),
    detail: detailOf(event),
    tone: toneOf(event),
  };
}

/** The line in columns: number, type, detail. */
export function formatEventLine(line: EventLine): string {
  return `${line.sequence.padStart(4)}  ${line.type.padEnd(18)}  ${line.detail}`.trimEnd();
}

function detailOf(event: RunEvent): string {
  switch (event.type) {
    case "run.queued":
      return snippet(event.data.skill ?? "");
    case "run.started":
      return join(skillOf(event.data), event.data.model, `on ${event.data.worker}`);
    case "run.resumed":
      return join(event.data.reason, `after event ${event.data.fromSequence}`, `on ${event.data.worker}`);
    case "model.started":
      return `turn ${event.data.turn}`;
    case "model.completed": {
      const { turn, finishReason, message, usage } = event.data;
      const tokens = `${formatCount(usage.inputTokens)} in, ${formatCount(usage.outputTokens)} out`;
      return join(`turn ${turn}`, finishReason, tokens, snippet(message));
    }
    case "tool.call":
      return join(event.data.callId, event.data.modelName, snippet(JSON.stringify(event.data.arguments) ?? ""));
    case "tool.result": {
      const { receipt } = event.data;
      return join(
        event.data.callId,
        receipt.status,
        receipt.code,
        formatDuration(receipt.durationMs),
        snippet(event.data.output),
      );
    }
    case "tool.blocked":
      return join(event.data.callId, event.data.modelName, event.data.rule);
    case "skill.announced":
      return snippet(event.data.refs.join(", "));
    case "skill.activated":
    case "skill.reattached":
    case "skill.dismissed":
      return snippet(event.data.ref);
    case "run.final_response":
    case "run.cancelled":
    case "run.error":
      return join(summarize(event.data), event.data.error?.code);
    default:
      // A type that this version does not know: its name says something to whoever reads it.
      return "";
  }
}

function toneOf(event: RunEvent): EventLine["tone"] {
  if (event.type === "run.final_response") return "good";
  if (event.type === "run.error" || event.type === "tool.blocked") return "bad";
  if (event.type === "tool.result") return event.data.receipt.status === "succeeded" ? "plain" : "bad";
  return event.type === "model.started" || event.type === "run.queued" ? "quiet" : "plain";
}

function skillOf(data: { readonly skill?: string; readonly skillDigest?: string }): string | undefined {
  if (data.skill === undefined) return undefined;
  return data.skillDigest === undefined
    ? data.skill
    : `${data.skill}@${data.skillDigest.slice(0, "sha256:".length + 8)}`;
}

function join(...parts: readonly (string | undefined)[]): string {
  return parts
    .filter((part) => part !== undefined && part !== "")
    .map((part) => printableLine(part ?? "", SNIPPET_LENGTH + 20))
    .join(" · ");
}

function snippet(text: string): string {
  return printableLine(text, SNIPPET_LENGTH);
}
