import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { printable, printableLine } from "../../../src/cli/printable.ts";

// eslint-disable-next-line no-control-regex -- control characters are what this is about
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

const text = fc.string({ unit: "binary", maxLength: 200 });

describe("printable", () => {
  test("an escape sequence loses its power and leaves a mark", () => {
    expect(printable("\u001b[31mred\u001b]0;title\u0007")).toBe("\uFFFD[31mred\uFFFD]0;title\uFFFD");
  });

  test("the one-character form of an escape sequence is no way around it", () => {
    expect(printable("\u009b2J")).toBe("\uFFFD2J");
  });

  test("tabs and newlines stay, carriage returns go", () => {
    expect(printable("a\tb\r\nc\rd")).toBe("a\tb\ncd");
  });

  test("no control character survives, whatever the text", () => {
    fc.assert(fc.property(text, (input) => !CONTROL.test(printable(input))));
  });

  test("text in pieces is the same as text at once", () => {
    fc.assert(fc.property(text, text, (left, right) => printable(left) + printable(right) === printable(left + right)));
  });
});

describe("printableLine", () => {
  test("white space of any kind becomes one space", () => {
    expect(printableLine("  a \r\n\t b  ", 20)).toBe("a b");
  });

  test("what is cut shows", () => {
    expect(printableLine("abcdef", 4)).toBe("abc…");
    expect(printableLine("abcd", 4)).toBe("abcd");
  });

  test("no half of a character is left at the cut", () => {
    expect(printableLine("ab😀cd", 4)).toBe("ab…");
  });

  test("it is one line, never longer than asked for", () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 50 }), (input, length) => {
        const line = printableLine(input, length);
        return line.length <= length && !line.includes("\n") && !CONTROL.test(line);
      }),
    );
  });
});
