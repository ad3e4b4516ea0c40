import type { ModelUsage } from "./model.ts";

/** More tokens than any model takes or gives in one call. */
const MAX_BELIEVED = 100_000_000;

/**
 * Reads the `usage` object of Chat Completions. Cached tokens are part of the input, reasoning tokens part of the output;
 * where a server's own total shows that it counts reasoning apart, it is added.
 *
 * @param answered Whether the answer has any text or call: then an output of 0 is not believed.
 * @returns Undefined for what cannot be true: missing, negative, broken or absurd figures, or a request of no tokens.
 */
export function readUsage(value: unknown, options: { readonly answered: boolean }): ModelUsage | undefined {
  const input = countAt(value, "prompt_tokens");
  const output = countAt(value, "completion_tokens");
  if (input === undefined || output === undefined || input === 0 || (output === 0 && options.answered))
    return undefined;
  const cached = countAt(fieldAt(value, "prompt_tokens_details"), "cached_tokens") ?? 0;
  const reasoning = countAt(fieldAt(value, "completion_tokens_details"), "reasoning_tokens") ?? 0;
  const apart = countAt(value, "total_tokens") === input + output + reasoning;
  const outputTokens = apart ? output + reasoning : output;
  return {
    inputTokens: input,
    cachedInputTokens: cached <= input ? cached : 0,
    outputTokens,
    reasoningTokens: Math.min(reasoning, outputTokens),
    estimated: false,
  };
}

function countAt(value: unknown, name: string): number | undefined {
  const count = fieldAt(value, name);
  return typeof count === "number" && Number.isInteger(count) && count >= 0 && count <= MAX_BELIEVED
    ? count
    : undefined;
}

function fieldAt(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
