const DURATION = /^(\d{1,15}(?:\.\d{1,6})?)\s?(ms|s|m|h|d)?$/;
const SIZE = /^(\d{1,15}(?:\.\d{1,6})?)\s?(B|kB|KB|MB|GB|KiB|MiB|GiB)?$/;

const DURATION_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1_000,
  KB: 1_000,
  MB: 1_000_000,
  GB: 1_000_000_000,
  KiB: 1_024,
  MiB: 1_048_576,
  GiB: 1_073_741_824,
};

/** What {@link parseDuration} reads, as the end of the sentence "must be …". */
export const DURATION_EXPECTED = "a duration such as 500ms, 30s, 5m, 2h, 1d, or whole milliseconds";
/** What {@link parseSize} reads, as the end of the sentence "must be …". */
export const SIZE_EXPECTED = "a size such as 500kB, 10MB, 1GiB, or whole bytes";

/**
 * Reads a duration such as `30s`, `1.5h` or `250` (milliseconds).
 *
 * @returns Whole milliseconds; undefined for what is no duration.
 */
export function parseDuration(text: string): number | undefined {
  return parseQuantity(text, { pattern: DURATION, units: DURATION_UNITS, unit: "ms" });
}

/**
 * Reads a size such as `10MB` (10,000,000), `10MiB` (10,485,760) or `512` (bytes).
 *
 * @returns Whole bytes; undefined for what is no size.
 */
export function parseSize(text: string): number | undefined {
  return parseQuantity(text, { pattern: SIZE, units: SIZE_UNITS, unit: "B" });
}

function parseQuantity(
  text: string,
  kind: { readonly pattern: RegExp; readonly units: Readonly<Record<string, number>>; readonly unit: string },
): number | undefined {
  const [, figure, unit] = kind.pattern.exec(text.trim()) ?? [];
  const factor = kind.units[unit ?? kind.unit];
  if (figure === undefined || factor === undefined) return undefined;
  const quantity = Math.round(Number(figure) * factor);
  return Number.isSafeInteger(quantity) ? quantity : undefined;
}
