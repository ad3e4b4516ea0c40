import { InvalidArgumentError } from "commander";
import { DURATION_EXPECTED, parseDuration } from "../shared/config/units.ts";

/** Readers of option values. Each throws `InvalidArgumentError`, which ends the command as wrong usage. */

/** `500ms`, `30s`, `1.5m`, `2h` → whole milliseconds; a bare number is milliseconds. */
export function parseDurationMs(text: string): number {
  const durationMs = parseDuration(text);
  if (durationMs === undefined) throw new InvalidArgumentError(`Write ${DURATION_EXPECTED}.`);
  return durationMs;
}

/** A whole number ≥ 0. */
export function parseCount(text: string): number {
  const count = /^\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(count)) throw new InvalidArgumentError("Write a whole number.");
  return count;
}

/** A whole number ≥ 1. */
export function parsePositive(text: string): number {
  const count = parseCount(text);
  if (count === 0) throw new InvalidArgumentError("Write a whole number from 1 on.");
  return count;
}

/** 0 (any free one) to 65535. */
export function parsePort(text: string): number {
  const port = parseCount(text);
  if (port > 65_535) throw new InvalidArgumentError("Write a port from 0 (a free one) to 65535.");
  return port;
}

/** A decimal number > 0. */
export function parseUsd(text: string): number {
  const usd = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  if (!Number.isFinite(usd) || usd === 0) throw new InvalidArgumentError("Write an amount in USD such as 0.25.");
  return usd;
}

/** Collects a repeatable option whose values may also be lists with commas. */
export function collectList(text: string, before: readonly string[] | undefined): readonly string[] {
  const items = text
    .split(",")
    .map((item) => item.trim())
    .filter((item) => item !== "");
  return [...new Set([...(before ?? []), ...items])];
}

/** Collects a repeatable `name=value` option. The value may hold `=` and may be empty. */
export function collectPairs(
  text: string,
  before: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("Write name=value.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}

/** `all`, `none`, or skill refs with commas between. */
export function parseDiscover(text: string): "all" | "none" | readonly string[] {
  return text === "all" || text === "none" ? text : collectList(text, undefined);
}
