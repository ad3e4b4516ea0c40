/**
 * Decodes output for reading: ill-formed bytes become U+FFFD.
 *
 * @param options.cut The bytes were cut off somewhere: a character that the cut went through is dropped.
 */
export function decodeLossy(bytes: Uint8Array, options: { readonly cut: boolean }): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: options.cut });
}

/** The text of bytes that are UTF-8 through and through; undefined where they are not. */
export function decodeExactly(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Drops an unfinished character at the end of bytes that were cut: at most three bytes.
 *
 * @returns A view of the same bytes.
 */
export function trimToCharacter(bytes: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(4, bytes.byteLength); back += 1) {
    const byte = bytes[bytes.byteLength - back] ?? 0;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needed > back ? bytes.subarray(0, bytes.byteLength - back) : bytes;
  }
  return bytes;
}
