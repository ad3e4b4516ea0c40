import { expect, test } from "vitest";
import {
  collectList,
  collectPairs,
  parseCount,
  parseDiscover,
  parseDurationMs,
  parsePort,
  parsePositive,
  parseUsd,
} from "../../../src/cli/option-values.ts";

test.each([
  ["500ms", 500],
  ["30s", 30_000],
  ["1.5m", 90_000],
  ["2h", 7_200_000],
  ["250", 250],
])("%s is %i milliseconds", (text, durationMs) => {
  expect(parseDurationMs(text)).toBe(durationMs);
});

test.each([
  ["a duration without a figure", () => parseDurationMs("s")],
  ["a duration below zero", () => parseDurationMs("-1s")],
  ["a count with a fraction", () => parseCount("1.5")],
  ["a count below zero", () => parseCount("-1")],
  ["a count that no number holds", () => parseCount("99999999999999999999")],
  ["zero where one is the least", () => parsePositive("0")],
  ["a port beyond the last", () => parsePort("65536")],
  ["a price of nothing", () => parseUsd("0")],
  ["a price in words", () => parseUsd("1e3")],
  ["a pair without a name", () => collectPairs("=value", undefined)],
  ["a pair without a value's sign", () => collectPairs("name", undefined)],
])("%s is wrong usage", (_what, read) => {
  expect(read).toThrow(expect.objectContaining({ code: "commander.invalidArgument" }));
});

test("a repeated list option gathers commas and repetitions, each value once", () => {
  const once = collectList("workspace.read@1, workspace.list@1", undefined);
  expect(collectList("workspace.read@1,caller.x@2", once)).toEqual([
    "workspace.read@1",
    "workspace.list@1",
    "caller.x@2",
  ]);
});

test("a pair's value may hold an equals sign, be empty, and have a name of the prototype", () => {
  const pairs = collectPairs("__proto__=x", collectPairs("b=", collectPairs("a=1=2", undefined)));
  expect(Object.entries(pairs)).toEqual([
    ["a", "1=2"],
    ["b", ""],
    ["__proto__", "x"],
  ]);
});

test("discover is all, none, or a list of refs", () => {
  expect([parseDiscover("all"), parseDiscover("none"), parseDiscover("a,b")]).toEqual(["all", "none", ["a", "b"]]);
});
