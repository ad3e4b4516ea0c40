/** What stands for every value that is not known: a label never has more values than that. */
export const OTHER = "_other";

/** Values that are taken as they come where none are given. */
const MAX_UNLISTED_VALUES = 64;

/**
 * Keeps a label's values few, whatever tenants and models make up.
 *
 * @param known The values that may appear. Absent: the first 64 different ones.
 * @returns The value itself, or {@link OTHER}.
 */
export function boundedLabel(known: Iterable<string> | undefined): (value: string | undefined) => string {
  const values = new Set(known);
  const open = known === undefined;
  return (value) => {
    if (value === undefined) return OTHER;
    if (values.has(value)) return value;
    if (!open || values.size >= MAX_UNLISTED_VALUES) return OTHER;
    values.add(value);
    return value;
  };
}
