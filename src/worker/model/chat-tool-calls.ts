/**
 * Puts tool calls together from the fragments of a stream.
 *
 * Servers differ, so a fragment belongs to
 * C1 the call with its index and id, where there is one;
 * C2 else, with an id and a name: a new call, unless the last call at its index has no id yet and no name;
 * C3 else, with a name only: a new call, where the last one at its index has a name already and its arguments are a
 *    whole JSON object or the name is another;
 * C4 else the last call at its index (a new id without a name is one that the server makes up for each fragment);
 *    a fragment without index counts as one at the index of the last.
 */
import { protocolError } from "./chat-errors.ts";
import type { ModelCompletion } from "./model.ts";

/** Most calls in one answer. */
export const MAX_CALLS = 128;
/** Most UTF-8 bytes in the arguments of one call. */
export const MAX_ARGUMENT_BYTES = 262_144;
const MAX_NAME_CHARACTERS = 256;
/** Bounds the work that a server can cause by repeating the name in each fragment. */
const MAX_WHOLENESS_CHECKS = 200;

interface OpenCall {
  readonly index: number;
  id: string | undefined;
  name: string;
  arguments: string;
  bytes: number;
  /** The last character of the arguments that is not white space. */
  lastCharacter: string;
}

export class ToolCallAssembly {
  readonly #calls: OpenCall[] = [];
  readonly #byKey = new Map<string, OpenCall>();
  readonly #lastAtIndex = new Map<number, OpenCall>();
  #checksLeft = MAX_WHOLENESS_CHECKS;

  get size(): number {
    return this.#calls.length;
  }

  /** @throws {RunError} `model_protocol` for a fragment of no known shape, too many calls, too long arguments. */
  add(fragment: unknown): void {
    if (!isRecord(fragment)) throw protocolError("tool_call_shape");
    const body = isRecord(fragment["function"]) ? fragment["function"] : {};
    const name = textOf(body["name"], "name");
    const id = typeof fragment["id"] === "string" && fragment["id"] !== "" ? fragment["id"] : undefined;
    const last = this.#calls.at(-1);
    const index =
      typeof fragment["index"] === "number" ? fragment["index"] : (this.#byId(fragment, id)?.index ?? last?.index ?? 0);
    const call = this.#find(index, id, name) ?? this.#open(index, id);
    if (name !== "") addName(call, name);
    addArguments(call, body["arguments"]);
  }

  /**
   * The calls in the order in which they began.
   *
   * @param options.cut The answer was cut at a token limit: calls may be half, and one without a name is left out.
   * @throws {RunError} `model_protocol` for a call without a name in a whole answer.
   */
  finish(options: { readonly cut: boolean }): ModelCompletion["toolCalls"] {
    const named = this.#calls.filter((call) => call.name !== "");
    if (!options.cut && named.length < this.#calls.length) throw protocolError("tool_call_without_name");
    return named.map((call) => ({
      name: call.name.toWellFormed(),
      // Servers leave the arguments of a tool without parameters empty.
      arguments: call.arguments === "" && !options.cut ? "{}" : call.arguments.toWellFormed(),
    }));
  }

  #byId(fragment: Readonly<Record<string, unknown>>, id: string | undefined): OpenCall | undefined {
    return fragment["index"] === undefined && id !== undefined
      ? this.#calls.findLast((call) => call.id === id)
      : undefined;
  }

  #find(index: number, id: string | undefined, name: string): OpenCall | undefined {
    const known = id === undefined ? undefined : this.#byKey.get(keyOf(index, id));
    if (known !== undefined) return known;
    const last = this.#lastAtIndex.get(index);
    if (last === undefined || name === "" || last.name === "") return last;
    if (id !== undefined) return undefined;
    return last.name !== name || this.#isWhole(last) ? undefined : last;
  }

  #open(index: number, id: string | undefined): OpenCall {
    if (this.#calls.length >= MAX_CALLS) throw protocolError("too_many_tool_calls", { maxCalls: MAX_CALLS });
    const call: OpenCall = { index, id, name: "", arguments: "", bytes: 0, lastCharacter: "" };
    this.#calls.push(call);
    this.#lastAtIndex.set(index, call);
    if (id !== undefined) this.#byKey.set(keyOf(index, id), call);
    return call;
  }

  #isWhole(call: OpenCall): boolean {
    if (call.lastCharacter !== "}" || this.#checksLeft === 0) return false;
    this.#checksLeft--;
    try {
      JSON.parse(call.arguments);
      return true;
    } catch {
      return false;
    }
  }
}

function addName(call: OpenCall, name: string): void {
  if (call.name === name) return; // some servers repeat it in each fragment
  if (call.arguments !== "") throw protocolError("tool_call_name_changed");
  call.name += name;
  if (call.name.length > MAX_NAME_CHARACTERS) throw protocolError("tool_call_name_too_long");
}

function addArguments(call: OpenCall, value: unknown): void {
  if (value === undefined || value === null) return;
  if (typeof value !== "string" && (!isRecord(value) || call.arguments !== ""))
    throw protocolError("tool_call_arguments_shape");
  const text = typeof value === "string" ? value : JSON.stringify(value);
  call.arguments += text;
  call.bytes += Buffer.byteLength(text);
  call.lastCharacter = text.trimEnd().at(-1) ?? call.lastCharacter;
  if (call.bytes > MAX_ARGUMENT_BYTES)
    throw protocolError("tool_call_arguments_too_large", { maxBytes: MAX_ARGUMENT_BYTES });
}

function textOf(value: unknown, what: string): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "string") return value;
  throw protocolError(`tool_call_${what}_shape`);
}

function keyOf(index: number, id: string): string {
  return `${index}\n${id}`;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
