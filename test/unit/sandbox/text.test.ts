import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeExactly, decodeLossy, trimToCharacter } from "../../../src/sandbox/text.ts";

it("text that is cut anywhere is trimmed to its last whole character", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }).filter((text) => text.isWellFormed()),
      fc.nat(),
      (text, at) => {
        const bytes = Buffer.from(text);
        const cut = bytes.subarray(0, at % (bytes.byteLength + 1));
        const trimmed = trimToCharacter(cut);
        expect(cut.byteLength - trimmed.byteLength).toBeLessThan(4);
        expect(text.startsWith(decodeExactly(trimmed) ?? "not text")).toBe(true);
        expect(decodeLossy(cut, { cut: true })).toBe(decodeExactly(trimmed));
      },
    ),
  );
});

it("bytes that are not text stay as they are, or are shown as replacement characters", () => {
  expect(decodeExactly(Buffer.from([0xff, 0xfe]))).toBeUndefined();
  expect(decodeLossy(Buffer.from([0x61, 0xff, 0x62]), { cut: false })).toBe("a\ufffdb");
  expect(trimToCharacter(Buffer.from([0x80, 0x80, 0x80, 0x80, 0x80])).byteLength).toBe(5);
});
