/** One value that was put in quotes. */
export interface Repair {
  readonly key: string;
  /** 0-based line in the block. */
  readonly lineIndex: number;
  /** 1-based column of the value. */
  readonly column: number;
}

const TOP_LEVEL_VALUE = /^([A-Za-z_][A-Za-z0-9_-]*:[ \t]+)(\S.*?)[ \t]*$/;
/** Quoted, flow, block, anchored, aliased, tagged, commented or list values are never touched. */
const NOT_PLAIN = /^(?:["'[{|>&*!#]|[-?:](?:[ \t]|$))/;
const RESERVED_START = /^[@`%]/;
const INNER_COLON = /:(?:[ \t]|$)/;
const COMMENT = /[ \t]#/;

/**
 * The one repair of frontmatter that does not parse: top-level plain values on one line that hold a colon and a
 * blank, or start with a character that YAML reserves, are put in quotes. Lines keep their numbers. A value that goes on
 * in the next line stays broken: text behind a closing quote is no YAML.
 *
 * @returns undefined where there is nothing to repair.
 */
export function repairFrontmatter(
  block: string,
): { readonly text: string; readonly repairs: readonly Repair[] } | undefined {
  const lines = block.split("\n");
  const repairs: Repair[] = [];
  const repaired = lines.map((line, lineIndex) => {
    const match = TOP_LEVEL_VALUE.exec(line);
    const prefix = match?.[1];
    const value = match?.[2];
    if (prefix === undefined || value === undefined || !needsQuotes(value)) return line;
    repairs.push({ key: prefix.slice(0, prefix.indexOf(":")), lineIndex, column: prefix.length + 1 });
    return `${prefix}'${value.replaceAll("'", "''")}'`;
  });
  return repairs.length === 0 ? undefined : { text: repaired.join("\n"), repairs };
}

function needsQuotes(value: string): boolean {
  return !NOT_PLAIN.test(value) && !COMMENT.test(value) && (RESERVED_START.test(value) || INNER_COLON.test(value));
}
