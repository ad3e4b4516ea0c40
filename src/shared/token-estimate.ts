/** Rough size of a token in UTF-8 bytes. Small, so that an estimate errs high. */
const BYTES_PER_TOKEN = 3.5;

/** Tokens in so many UTF-8 bytes of text, without a tokenizer. */
export function estimateTokens(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_TOKEN);
}
