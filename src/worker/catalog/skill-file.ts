import { isUtf8 } from "node:buffer";
import { fault, type Finding, type Position } from "./finding.ts";

/** SKILL.md taken apart. */
export interface SkillFileParts {
  /** The lines between the fences, LF. */
  readonly frontmatter: string;
  /** Line of the file on which `frontmatter` begins. */
  readonly frontmatterLine: number;
  readonly body: string;
}

export type SkillFileSplit =
  | { readonly ok: true; readonly parts: SkillFileParts }
  | { readonly ok: false; readonly finding: Finding };

export const MAX_FRONTMATTER_BYTES = 65_536;

const LINE_FEED = 0x0a;
const FENCE = /^---[ \t]*$/;
/** Controls other than tab and line feed. */
// eslint-disable-next-line no-control-regex -- finding them is its purpose
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;

/**
 * Decodes SKILL.md and finds its frontmatter: strict UTF-8, one byte-order mark dropped, CRLF and CR as LF,
 * fences on lines of their own.
 */
export function splitSkillFile(bytes: Uint8Array): SkillFileSplit {
  if (!isUtf8(bytes)) {
    return refused(fault("not-utf8", "The file is not valid UTF-8 here. Save it as UTF-8.", findInvalidUtf8(bytes)));
  }
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes).replace(/\r\n?/g, "\n");
  const nul = text.indexOf("\0");
  if (nul !== -1)
    return refused(fault("nul-character", "The file holds a NUL character. Remove it.", positionAt(text, nul)));
  return splitFences(text);
}

function refused(finding: Finding): SkillFileSplit {
  return { ok: false, finding };
}

function splitFences(text: string): SkillFileSplit {
  const lines = text.split("\n");
  const first = lines[0] ?? "";
  if (!FENCE.test(first)) {
    const what = first.startsWith("---")
      ? "The opening fence has more than --- on its line"
      : "The file does not begin with frontmatter";
    return refused(fault("frontmatter-missing", `${what}. Begin it with a line ---, the fields, and a line ---.`));
  }
  const closing = lines.findIndex((line, index) => index > 0 && FENCE.test(line));
  if (closing === -1) {
    return refused(
      fault("frontmatter-unclosed", "The frontmatter is not closed. Put a line --- behind its last field."),
    );
  }
  const frontmatter = lines.slice(1, closing).join("\n");
  if (Buffer.byteLength(frontmatter) > MAX_FRONTMATTER_BYTES) {
    return refused(
      fault(
        "frontmatter-too-large",
        `The frontmatter is larger than ${MAX_FRONTMATTER_BYTES} bytes. Move text into the body.`,
      ),
    );
  }
  const control = frontmatter.search(CONTROL);
  if (control !== -1) {
    const { line, column } = positionAt(frontmatter, control);
    return refused(
      fault("control-character", "The frontmatter holds a control character. Remove it.", { line: line + 1, column }),
    );
  }
  return { ok: true, parts: { frontmatter, frontmatterLine: 2, body: lines.slice(closing + 1).join("\n") } };
}

/** Line and column of an offset in LF text. */
export function positionAt(text: string, offset: number): Position {
  const lineStart = text.lastIndexOf("\n", offset - 1) + 1;
  let line = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < lineStart; at = text.indexOf("\n", at + 1)) line += 1;
  return { line, column: (offset === 0 ? 0 : offset - lineStart) + 1 };
}

/** The first byte that breaks UTF-8. A line feed is never part of a longer sequence, so lines can be judged apart. */
function findInvalidUtf8(bytes: Uint8Array): Position {
  let line = 1;
  let start = 0;
  for (;;) {
    const found = bytes.indexOf(LINE_FEED, start);
    const end = found === -1 ? bytes.length : found;
    const current = bytes.subarray(start, end);
    if (!isUtf8(current)) return { line, column: new TextDecoder().decode(current).indexOf("\ufffd") + 1 };
    if (found === -1) return { line, column: 1 };
    line += 1;
    start = end + 1;
  }
}
