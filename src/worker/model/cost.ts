import type { ModelPrice, ModelUsage } from "./model.ts";

/** Picodollars in a microdollar: prices are scaled to whole picodollars a token, so that sums are exact. */
const SCALE = 1_000_000;

/**
 * What a model call cost, in whole micro-USD, rounded up once at the end.
 *
 * Cached input tokens are part of `inputTokens` and are priced apart; reasoning tokens are part of
 * `outputTokens` and cost what those cost. A dollar for a million tokens is a microdollar a token.
 *
 * @example costMicroUsd({ inputTokens: 1000, cachedInputTokens: 400, outputTokens: 200 }, { input: 2, cachedInput: 0.5, output: 8 })
 *   // 600 × 2 + 400 × 0.5 + 200 × 8 = 3000
 */
export function costMicroUsd(
  usage: Pick<ModelUsage, "inputTokens" | "cachedInputTokens" | "outputTokens">,
  price: ModelPrice,
): number {
  const cached = Math.min(usage.cachedInputTokens, usage.inputTokens);
  const total =
    charge(usage.inputTokens - cached, price.input) +
    charge(cached, price.cachedInput) +
    charge(usage.outputTokens, price.output);
  const scale = BigInt(SCALE);
  return Number((total + scale - 1n) / scale);
}

function charge(tokens: number, usdPerMillion: number): bigint {
  return BigInt(tokens) * BigInt(Math.round(usdPerMillion * SCALE));
}
