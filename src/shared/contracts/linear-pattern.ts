import { RE2JS } from "re2js";

const MAX_PATTERN_CHARACTERS = 512;

/** A pattern that is refused; its message completes "must be …". */
export class PatternRefusal extends Error {
  override readonly name = "PatternRefusal";
}

/** A regular expression whose cost grows linearly with the text. */
export interface LinearPattern {
  readonly test: (text: string) => boolean;
}

/**
 * Compiles a stranger's regular expression for an automaton without backtracking: look-around and
 * back-references are refused, and so is a pattern of more than 512 characters.
 *
 * @throws {PatternRefusal}
 */
export function compileLinearPattern(pattern: string): LinearPattern {
  if (pattern.length > MAX_PATTERN_CHARACTERS) {
    throw new PatternRefusal(`a pattern of at most ${MAX_PATTERN_CHARACTERS} characters`);
  }
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
    return { test: (text) => compiled.test(text) };
  } catch (error) {
    throw new PatternRefusal("a pattern in RE2 syntax: without look-around and back-references", { cause: error });
  }
}
