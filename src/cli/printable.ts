/**
 * Text of models, tools and skills is not trusted: a terminal would obey the control characters in it
 * (move the cursor, change the title, answer back). Nothing of it reaches a terminal but through here.
 */

// C0 without tab and newline, DEL, C1.
// eslint-disable-next-line no-control-regex -- control characters are what this is about
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Text for a terminal: tab and newline stay, carriage returns go, every other control character shows as `\uFFFD`. */
export function printable(text: string): string {
  return text.replace(CONTROL, (character) => (character === "\r" ? "" : "\uFFFD"));
}

/**
 * Text for one line of at most `maxLength` UTF-16 units: runs of white space become one space; what is cut shows as `…`.
 */
export function printableLine(text: string, maxLength: number): string {
  // The tail of a long text is not looked at: only its beginning can be shown.
  const line = printable(text.slice(0, maxLength * 4).replace(/\s+/g, " ")).trim();
  if (line.length <= maxLength && text.length <= maxLength * 4) return line;
  const cut = line.slice(0, Math.max(0, maxLength - 1));
  // Half a surrogate pair is no character.
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
