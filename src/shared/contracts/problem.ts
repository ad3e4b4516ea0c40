/** One thing that is wrong with a document, and where. */
export interface Problem {
  /** JSON Pointer (RFC 6901) to the value, or to where a missing one should be. Empty: the whole document. */
  readonly pointer: string;
  /** What would have been right, as the end of the sentence "must be …". */
  readonly expected: string;
  /** The sentence for people. Names the pointer, never the value. */
  readonly message: string;
}

const MAX_POINTER_CHARACTERS = 200;

/** Appends one key or index to a JSON Pointer; a very long key is cut, marked by `…`. */
export function childPointer(pointer: string, key: string | number): string {
  const escaped = String(key).toWellFormed().replaceAll("~", "~0").replaceAll("/", "~1");
  const child = `${pointer}/${escaped}`;
  return child.length > MAX_POINTER_CHARACTERS ? `${child.slice(0, MAX_POINTER_CHARACTERS)}…` : child;
}

/** Builds the problem "`pointer` must be `expected`". */
export function mustBe(pointer: string, expected: string): Problem {
  return { pointer, expected, message: `${place(pointer)} must be ${expected}.` };
}

/** The name of a place in a sentence: its pointer, or "the document". */
export function place(pointer: string): string {
  return pointer === "" ? "The document" : pointer;
}
