import { isUtf8 } from "node:buffer";

const MAX_SHOWN_CHARACTERS = 300;

/** Controls, format characters (bidi, zero width, tags), everything else that draws nothing, line separators, lone surrogates. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{DI}\p{Zl}\p{Zp}\p{Cs}]/u;
const INVISIBLE_ALL = new RegExp(INVISIBLE.source, "gu");

/** The longest path inside a skill, in UTF-8 bytes. */
export const MAX_PATH_BYTES = 512;

export type NameCheck =
  | { readonly ok: true; readonly name: string }
  /** `shown`: the name made visible, safe to print. */
  | { readonly ok: false; readonly shown: string; readonly problem: string };

/**
 * Checks one directory entry's name, as the disk gave it.
 *
 * @returns The name as text where it is strict UTF-8 and shows everything that it holds.
 */
export function checkFileName(raw: Buffer): NameCheck {
  if (!isUtf8(raw)) {
    return { ok: false, shown: printable(raw.toString("latin1")), problem: "is not UTF-8; give it a name in UTF-8" };
  }
  const name = raw.toString("utf8");
  if (INVISIBLE.test(name)) {
    return {
      ok: false,
      shown: printable(name),
      problem: "holds an invisible or control character; give it a plain name",
    };
  }
  if (name.includes("\\")) {
    return { ok: false, shown: printable(name), problem: "holds a backslash; give it a name without one" };
  }
  return { ok: true, name };
}

/** Text for an operator's eyes: what cannot be seen is written as an escape, what is long is cut. */
export function printable(text: string): string {
  const cut = text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)}…` : text;
  return cut.replace(INVISIBLE_ALL, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ""}}`);
}

/** What a name is on file systems that ignore case or normalise: two entries with one key collide there. */
export function collisionKey(name: string): string {
  return name.normalize("NFC").toUpperCase().toLowerCase().normalize("NFC");
}

/** Path as the operator wrote it, joined with a path inside. */
export function joinShown(base: string, inside: string): string {
  return base.endsWith("/") ? `${base}${inside}` : `${base}/${inside}`;
}
