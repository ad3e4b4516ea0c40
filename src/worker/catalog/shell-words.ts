/**
 * Splits text into words as a POSIX shell quotes them: blanks separate, '…' is literal, "…" knows \" \\ \$ and \`,
 * a backslash outside takes the next character. Nothing is expanded. An unclosed quote ends with the text.
 */
export function splitShellWords(text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const character = text.charAt(index);
    const next = text.charAt(index + 1);
    if (quote === "" && /\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (character === quote) {
      quote = "";
    } else if (quote === "" && (character === "'" || character === '"')) {
      quote = character;
      word ??= "";
    } else if (character === "\\" && next !== "" && quote !== "'" && (quote === "" || '"\\$`'.includes(next))) {
      word = (word ?? "") + next;
      index += 1;
    } else {
      word = (word ?? "") + character;
    }
  }
  if (word !== undefined) words.push(word);
  return words;
}
