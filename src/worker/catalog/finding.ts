import type { Diagnostic } from "./catalog.ts";

/** A place in a text: 1-based line, 1-based column in UTF-16 units. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** A diagnostic before it is known of which file it speaks. */
export type Finding = Omit<Diagnostic, "path">;

/** Where the whole file is meant. */
export const WHOLE_FILE: Position = { line: 1, column: 1 };

/** Something that keeps a skill out of the catalog. */
export function fault(code: string, message: string, at: Position = WHOLE_FILE): Finding {
  return { line: at.line, column: at.column, level: "error", code, message };
}

/** Something that an author should know, and that keeps nothing out. */
export function warning(code: string, message: string, at: Position = WHOLE_FILE): Finding {
  return { line: at.line, column: at.column, level: "warning", code, message };
}

/** A finding with its path. */
export function toDiagnostic(path: string, finding: Finding): Diagnostic {
  const { line, column, level, code, message } = finding;
  return Object.freeze({ path, line, column, level, code, message });
}

/** Order by path, then place, then code: the same input gives the same list. */
export function compareDiagnostics(left: Diagnostic, right: Diagnostic): number {
  if (left.path !== right.path) return left.path < right.path ? -1 : 1;
  if (left.line !== right.line) return left.line - right.line;
  if (left.column !== right.column) return left.column - right.column;
  return left.code < right.code ? -1 : Number(left.code > right.code);
}
