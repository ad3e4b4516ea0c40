import { RunError, type ErrorCode } from "../../src/shared/errors.ts";
import type { Model, ModelCompletion, ModelMessage, ModelRequest } from "../../src/worker/model/model.ts";

/** A request with what a test does not care about filled in. */
export function modelRequest(
  fields: Partial<Omit<ModelRequest, "run">> & { readonly run?: Partial<ModelRequest["run"]> } = {},
): ModelRequest {
  return {
    model: "fake-model",
    messages: [{ role: "user", text: "What is it?" }],
    tools: [],
    ...fields,
    run: { runId: "run-0001", turn: 1, query: "What is it?", ...fields.run },
  };
}

/** The messages of a run in which the model has answered so many times, each time with one tool call. */
export function answeredTimes(count: number): readonly ModelMessage[] {
  return [
    { role: "user", text: "What is it?" },
    ...Array.from({ length: count }, (_, turn): readonly ModelMessage[] => [
      { role: "assistant", text: "", toolCalls: [{ callId: `t${turn}c0`, name: "look", arguments: "{}" }] },
      { role: "tool", callId: `t${turn}c0`, text: "seen" },
    ]).flat(),
  ];
}

export interface CallOutcome {
  /** Each delta's text. */
  readonly deltas: readonly string[];
  readonly completion: ModelCompletion;
}

/** Reads a whole call. */
export async function callModel(model: Model, request = modelRequest(), signal?: AbortSignal): Promise<CallOutcome> {
  const deltas: string[] = [];
  let completion: ModelCompletion | undefined;
  for await (const item of model.stream(request, { signal: signal ?? new AbortController().signal })) {
    if (item.kind === "delta") deltas.push(item.text);
    else completion = item.completion;
  }
  if (completion === undefined) throw new Error("no completion");
  return { deltas, completion };
}

/** The error that a call ends with; fails where it ends well. */
export async function failedCall(model: Model, request = modelRequest(), signal?: AbortSignal): Promise<RunError> {
  try {
    await callModel(model, request, signal);
  } catch (error) {
    if (error instanceof RunError) return error;
    throw error;
  }
  throw new Error("the call was expected to fail");
}

/** Code and reason of an error, for one comparison. */
export function codeAndReason(error: RunError): readonly [ErrorCode, unknown] {
  return [error.code, error.details?.["reason"]];
}
