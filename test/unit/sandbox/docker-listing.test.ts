import fc from "fast-check";
import { expect, it } from "vitest";
import { parseListing } from "../../../src/sandbox/docker/scripts.ts";

const FILE = "81a4";
const DIRECTORY = "41ed";

function print(
  paths: readonly (string | Buffer)[],
  figures: readonly string[],
  rest = "oom_kill_disable 0\noom_kill 3\n",
): Buffer {
  const names = paths.flatMap((path) => [Buffer.from("/workspace/"), Buffer.from(path), Buffer.alloc(1)]);
  return Buffer.concat([
    ...names,
    Buffer.alloc(1),
    Buffer.from(figures.map((line) => `${line}\n`).join("")),
    Buffer.from(rest),
  ]);
}

it("names of any characters keep their figures", () => {
  const name = fc
    .string({ unit: "binary", minLength: 1, maxLength: 20 })
    .filter((text) => !text.includes("\0") && text.isWellFormed());
  fc.assert(
    fc.property(fc.array(fc.tuple(name, fc.nat())), (files) => {
      const printed = print(
        files.map(([path]) => path),
        files.map(([, size]) => `${FILE} ${size}`),
      );
      expect(parseListing(printed)).toEqual({
        entries: files.map(([path, size]) => ({ path, kind: "file", size })),
        oomKills: 3,
      });
    }),
  );
});

it("an empty workspace is an empty listing, with or without a counter", () => {
  expect(parseListing(print([], []))).toEqual({ entries: [], oomKills: 3 });
  expect(parseListing(print([], [], ""))).toEqual({ entries: [], oomKills: 0 });
});

it("links, pipes, names that are not UTF-8 and directories at the end of the listing are special", () => {
  const deep = Array.from({ length: 64 }, () => "d").join("/");
  const paths = ["link", "pipe", Buffer.from([0xff]), deep, "dir"];
  const kinds = parseListing(
    print(paths, ["a1ff 4", "11a4 0", `${FILE} 1`, `${DIRECTORY} 0`, `${DIRECTORY} 0`]),
  )?.entries;
  expect(kinds?.map((entry) => entry.kind)).toEqual(["special", "special", "special", "special", "directory"]);
});

it("a path that is too long for a figure is special, and the others keep theirs", () => {
  const long = Array.from({ length: 17 }, () => "x".repeat(250)).join("/");
  const entries = parseListing(print(["before", long, "after"], [`${FILE} 1`, `${FILE} 2`]))?.entries;
  expect(entries?.map(({ kind, size }) => [kind, size])).toEqual([
    ["file", 1],
    ["special", 0],
    ["file", 2],
  ]);
});

it("a listing whose names and figures do not match is none", () => {
  expect(parseListing(print(["a", "b"], [`${FILE} 1`]))).toBeUndefined();
  expect(parseListing(print(["a"], [`${FILE} 1`, `${FILE} 1`]))).toBeUndefined();
  expect(parseListing(Buffer.from("/workspace/a"))).toBeUndefined();
  expect(parseListing(Buffer.alloc(0))).toBeUndefined();
});
