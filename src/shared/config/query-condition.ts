import { compileLinearPattern } from "../contracts/linear-pattern.ts";

const PATTERN = /^\/(.+)\/(i?)$/su;

/** The part of a long query that a pattern sees. */
const MAX_MATCHED_CHARACTERS = 65_536;

/**
 * Reads the `query` condition of a script: `/pattern/` or `/pattern/i` in linear-time syntax, or else a text
 * that the query must contain in any case.
 *
 * @returns Whether a query satisfies it; of a long query a pattern sees the first 65,536 characters.
 * @throws {PatternRefusal} For a pattern that cannot run in linear time.
 */
export function parseQueryCondition(condition: string): (query: string) => boolean {
  const [, source, flag] = PATTERN.exec(condition) ?? [];
  if (source === undefined) {
    const wanted = condition.toLowerCase();
    return (query) => query.toLowerCase().includes(wanted);
  }
  const pattern = compileLinearPattern(flag === "i" ? `(?i)${source}` : source);
  return (query) => pattern.test(query.slice(0, MAX_MATCHED_CHARACTERS).toWellFormed());
}
