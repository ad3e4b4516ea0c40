import { isAlias, isCollection, isMap, isScalar, isSeq, LineCounter, parseDocument, type Node } from "yaml";
import { deepFreeze } from "../../shared/freeze.ts";
import { printable } from "./file-names.ts";
import { fault, warning, type Finding, type Position } from "./finding.ts";
import { repairFrontmatter } from "./frontmatter-repair.ts";
import { positionAt } from "./skill-file.ts";
import { findDeepNesting } from "./yaml-depth.ts";

/** The fields of a SKILL.md, as data. */
export interface Frontmatter {
  /** Null prototype and frozen, all the way down: a key such as `__proto__` is a key like any other. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Where each top-level value stands in the file; a key without a value: the key. */
  readonly positions: ReadonlyMap<string, Position>;
}

export type FrontmatterRead =
  | { readonly ok: true; readonly frontmatter: Frontmatter; readonly findings: readonly Finding[] }
  | { readonly ok: false; readonly findings: readonly Finding[] };

const MAX_DEPTH = 16;
const MAX_FINDINGS = 5;
const TOO_DEEP = `The frontmatter is nested more than ${MAX_DEPTH} levels deep. Flatten it.`;

/** `logLevel` must not be silent: several documents in one text would pass then. `uniqueKeys` is checked here, in linear time. */
const YAML_OPTIONS = {
  version: "1.2",
  schema: "core",
  strict: true,
  stringKeys: true,
  uniqueKeys: false,
  merge: false,
  resolveKnownTags: false,
  prettyErrors: false,
  logLevel: "error",
} as const;

/**
 * Parses the lines between the fences: YAML 1.2 core, no anchors, aliases or unknown tags, unique keys, at most
 * 16 levels, warnings count as errors. What fails is repaired once, narrowly, and the repair is a warning.
 *
 * @param firstLine Line of the file on which `block` begins.
 */
export function parseFrontmatter(block: string, firstLine: number): FrontmatterRead {
  const asWritten = attempt(block, firstLine);
  if (asWritten.ok) return asWritten;
  const repair = repairFrontmatter(block);
  if (repair === undefined) return asWritten;
  const repaired = attempt(repair.text, firstLine);
  if (!repaired.ok) return asWritten;
  const findings = repair.repairs.map(({ key, lineIndex, column }) =>
    warning(
      "frontmatter-repaired",
      `The value of ${key} is not valid YAML and was read as plain text. Put it in quotes.`,
      {
        line: firstLine + lineIndex,
        column,
      },
    ),
  );
  return { ok: true, frontmatter: repaired.frontmatter, findings };
}

/** Keeps what was found while a tree is turned into data. */
interface Conversion {
  readonly findings: Finding[];
  readonly positionOf: (node: Node | null | undefined) => Position;
}

function attempt(block: string, firstLine: number): FrontmatterRead {
  const deep = findDeepNesting(block, MAX_DEPTH);
  if (deep !== undefined) {
    const { line, column } = positionAt(block, deep);
    return { ok: false, findings: [fault("yaml-too-deep", TOO_DEEP, { line: firstLine + line - 1, column })] };
  }
  const marker = /^(?:---|\.\.\.)(?=[ \t\n]|$)/m.exec(block);
  const counter = new LineCounter();
  const at = (offset: number): Position => {
    const { line, col } = counter.linePos(offset);
    return { line: firstLine + Math.max(line, 1) - 1, column: Math.max(col, 1) };
  };
  const document = parseDocument(block, { ...YAML_OPTIONS, lineCounter: counter });
  if (marker !== null) {
    return {
      ok: false,
      findings: [
        fault(
          "yaml-documents",
          "A line inside the frontmatter begins with a YAML document marker. Remove it.",
          at(marker.index),
        ),
      ],
    };
  }
  const problems = [...document.errors, ...document.warnings];
  if (problems.length > 0) {
    return {
      ok: false,
      findings: problems
        .slice(0, MAX_FINDINGS)
        .map((problem) => fault("yaml-invalid", explain(problem.code, problem.message), at(problem.pos[0]))),
    };
  }
  const root = document.contents;
  if (!isMap(root)) {
    return {
      ok: false,
      findings: [
        fault(
          "frontmatter-not-fields",
          "The frontmatter holds no fields. Write lines such as name: … and description: ….",
          at(0),
        ),
      ],
    };
  }
  const conversion: Conversion = { findings: [], positionOf: (node) => at(node?.range?.[0] ?? 0) };
  // The root is a map, so what comes back is one; a key twice or a depth passed stands in `findings`.
  const fields = toData(root, conversion, 1) as Record<string, unknown>;
  if (conversion.findings.length > 0) return { ok: false, findings: conversion.findings.slice(0, MAX_FINDINGS) };
  const positions = new Map<string, Position>();
  for (const { key, value } of root.items) {
    const node = isCollection(value) || isScalar(value) ? value : null;
    const keyNode = isScalar(key) ? key : null;
    positions.set(keyText(key), conversion.positionOf(node?.range === undefined ? keyNode : node));
  }
  return { ok: true, frontmatter: { fields: deepFreeze(fields), positions }, findings: [] };
}

function toData(node: unknown, conversion: Conversion, depth: number): unknown {
  if (node === null || node === undefined) return null;
  const complain = (code: string, message: string, place: Node): null => {
    conversion.findings.push(fault(code, message, conversion.positionOf(place)));
    return null;
  };
  if (isAlias(node))
    return complain("yaml-alias", "Aliases (*name) are not accepted. Write the value out, or put it in quotes.", node);
  if (!isScalar(node) && !isMap(node) && !isSeq(node)) return null;
  if (node.anchor !== undefined)
    return complain("yaml-anchor", "Anchors (&name) are not accepted. Remove it, or put the value in quotes.", node);
  if (isScalar(node)) return node.value;
  if (depth > MAX_DEPTH) return complain("yaml-too-deep", TOO_DEEP, node);
  if (isSeq(node)) return node.items.map((item) => toData(item, conversion, depth + 1));
  const map: Record<string, unknown> = Object.create(null);
  for (const { key, value } of node.items) {
    const name = keyText(key);
    if (isScalar(key) && key.anchor !== undefined)
      complain("yaml-anchor", "Anchors (&name) are not accepted. Remove it.", key);
    if (Object.hasOwn(map, name)) {
      complain(
        "yaml-duplicate-key",
        `The key ${printable(name)} stands here a second time. Keep one of them.`,
        isScalar(key) ? key : node,
      );
    }
    map[name] = toData(value, conversion, depth + 1);
  }
  return map;
}

function keyText(key: unknown): string {
  return isScalar(key) && typeof key.value === "string" ? key.value : "";
}

const EXPLANATIONS: ReadonlyMap<string, string> = new Map([
  [
    "BLOCK_AS_IMPLICIT_KEY",
    "The value holds a colon and a blank, which YAML reads as a key in a value. Put the value in quotes.",
  ],
  ["BAD_SCALAR_START", "The value begins with a character that YAML reserves. Put the value in quotes."],
  ["TAB_AS_INDENT", "A tab indents this line. Write blanks instead."],
  ["BAD_INDENT", "The indentation does not fit. Give the items of one level the same number of blanks."],
  ["TAG_RESOLVE_FAILED", "Tags (!name) are not accepted. Remove it, or put the value in quotes."],
  ["NON_STRING_KEY", "A key is not text. Write plain words as keys."],
  ["RESOURCE_EXHAUSTION", TOO_DEEP],
]);

function explain(code: string, message: string): string {
  return (
    EXPLANATIONS.get(code) ??
    `This is not valid YAML: ${printable(message.split("\n", 1)[0] ?? "")}. Correct it, or put the value in quotes.`
  );
}
