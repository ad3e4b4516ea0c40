import { compileForeignSchema } from "../../shared/contracts/foreign-schema.ts";
import { RunError } from "../../shared/errors.ts";
import type { ModelCompletion } from "../model/model.ts";

/**
 * Judges the text of a turn without tool calls: it ends the run.
 *
 * @returns The text; with a response schema also the JSON that it is.
 * @throws {RunError} `max_output` where the model was cut off, `response_schema` where the text is not the JSON asked for.
 */
export function judgeFinalText(
  completion: ModelCompletion,
  responseSchema: Readonly<Record<string, unknown>> | undefined,
): { readonly outputText: string; readonly output?: unknown } {
  if (completion.finishReason === "length") {
    throw new RunError("max_output", { message: "The model's answer was cut at its limit of output tokens." });
  }
  if (responseSchema === undefined) return { outputText: completion.text };
  let output: unknown;
  try {
    output = JSON.parse(completion.text);
  } catch {
    throw new RunError("response_schema", { message: "The final text is not JSON." });
  }
  const problems = compileForeignSchema(responseSchema, { what: "responseSchema" })(output);
  if (problems.length > 0) {
    throw new RunError("response_schema", { details: { problems: problems.slice(0, 10) } });
  }
  return { outputText: completion.text, output };
}
