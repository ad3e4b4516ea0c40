import { Lexer } from "yaml";

/**
 * Where a text opens more levels of YAML on one line, or of flow collections at all, than `maxDepth`: such a text is
 * not given to the parser, which would go down into every level. Levels that only indentation makes are few in 64 KiB.
 *
 * @returns Offset of the token that goes too deep; undefined: none does.
 */
export function findDeepNesting(text: string, maxDepth: number): number | undefined {
  let offset = 0;
  let flowDepth = 0;
  let compactDepth = 0;
  for (const token of new Lexer().lex(text)) {
    if (token === "[" || token === "{") flowDepth += 1;
    else if ((token === "]" || token === "}") && flowDepth > 0) flowDepth -= 1;
    else if (token === "\n" || token === "\r\n") compactDepth = 0;
    else if (flowDepth === 0 && (token === "-" || token === "?")) compactDepth += 1;
    if (flowDepth > maxDepth || compactDepth > maxDepth) return offset;
    if (!MARKS.has(token)) offset += token.length;
  }
  return undefined;
}

/** Tokens that the lexer adds and that are not in the text: byte-order mark, document, flow error, scalar. */
const MARKS: ReadonlySet<string> = new Set(["\u{feff}", "\u0002", "\u0018", "\u001f"]);
