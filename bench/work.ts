import type { CallerTool } from "skilldock";

/** The run that every side does: two lookups, one after the other, then an answer of fifty words, streamed. */

export const QUESTION = "What do the two keys say, and what follows?";
export const TOOL_NAME = "caller_lookup";
export const TOOL_DESCRIPTION = "Looks one key up.";
export const SYSTEM_TEXT =
  "You look things up before you answer. Use the lookup tool for each key that you need, one at a time.";
export const KEYS: readonly string[] = ["first", "second"];

const WORDS =
  "the first key says that all is well and the second one says that nothing is missing so both can be kept " +
  "as they are for another year unless somebody asks for more before the end of spring in which case a new look " +
  "at each of them should be taken";

/** The pieces in which the answer is streamed: a word and the space before it. */
export const ANSWER_PIECES: readonly string[] = WORDS.split(" ")
  .slice(0, 50)
  .map((word, index) => (index === 0 ? word : ` ${word}`));
export const ANSWER = ANSWER_PIECES.join("");

export const INPUT_SCHEMA = {
  type: "object",
  additionalProperties: false,
  required: ["key"],
  properties: { key: { type: "string" } },
} as const;

export function lookUp(key: string): { readonly key: string; readonly value: string } {
  return { key, value: `what stands under ${key}` };
}

export const lookupTool: CallerTool = {
  id: "caller.lookup@1",
  description: TOOL_DESCRIPTION,
  inputSchema: INPUT_SCHEMA,
  effects: "read",
  handler: ({ key }: { readonly key: string }) => lookUp(key),
};

/** @throws Where a run did not do what it should: its time would mean nothing. */
export function checkAnswer(answer: { readonly text: string; readonly toolCalls: number }): void {
  if (answer.text !== ANSWER || answer.toolCalls !== KEYS.length) {
    throw new Error(`a run answered ${JSON.stringify(answer)}`);
  }
}
