import { RunError } from "../errors.ts";
import { childPointer, mustBe, type Problem } from "./problem.ts";

/** Bounds on any document before something recursive touches it. */
const MAX_DEPTH = 32;
const MAX_VALUES = 50_000;
const MAX_PROBLEMS = 100;

export interface ScreenedDocument {
  /** A copy made of plain objects, arrays and primitives. Members that were `undefined` are absent. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
}

interface Frame {
  readonly source: object;
  readonly keys: readonly string[];
  readonly put: (key: string, value: unknown) => void;
  readonly pointer: string;
  next: number;
}

/**
 * Copies what a stranger handed in, reading every member once, without recursion, and finds what no
 * schema can say: values that are not JSON, cycles, more than 32 levels, more than 50,000 values, lone
 * surrogates, the character U+0000, and the key `__proto__`.
 *
 * @returns The copy, safe for recursive code, with at most 100 problems.
 * @throws {RunError} `invalid_request` at once for a cycle, too many levels or too many values, and when
 *   reading a member throws.
 */
export function screenDocument(input: unknown): ScreenedDocument {
  try {
    return new Screening().run(input);
  } catch (error) {
    if (error instanceof RunError) throw error;
    throw refusal(mustBe("", "readable"), error);
  }
}

/** The error for documents that cannot be judged any further. */
function refusal(problem: Problem, cause?: unknown): RunError {
  return new RunError("invalid_request", { message: problem.message, details: { problems: [problem] }, cause });
}

class Screening {
  readonly #problems: Problem[] = [];
  readonly #ancestors = new Set<object>();
  readonly #stack: Frame[] = [];
  #values = 0;

  run(input: unknown): ScreenedDocument {
    let root: unknown;
    this.#visit(input, "", (value) => (root = value));
    for (let frame = this.#stack.at(-1); frame !== undefined; frame = this.#stack.at(-1)) this.#step(frame);
    return { value: root, problems: this.#problems };
  }

  #step(frame: Frame): void {
    const key = frame.keys[frame.next];
    if (key === undefined) {
      this.#stack.pop();
      this.#ancestors.delete(frame.source);
      return;
    }
    frame.next += 1;
    const pointer = childPointer(frame.pointer, key);
    if (key === "__proto__") return this.#note(mustBe(pointer, "absent: the name __proto__ is refused"));
    this.#checkText(key, pointer);
    const value: unknown = Reflect.get(frame.source, key);
    if (value === undefined && !Array.isArray(frame.source)) return;
    this.#visit(value, pointer, (copy) => frame.put(key, copy));
  }

  #visit(value: unknown, pointer: string, put: (copy: unknown) => void): void {
    this.#values += 1;
    if (this.#values > MAX_VALUES) throw refusal(mustBe("", `a document of at most ${MAX_VALUES} values`));
    if (typeof value === "object" && value !== null) return put(this.#enter(value, pointer));
    if (typeof value === "string") this.#checkText(value, pointer);
    else if (value !== null && typeof value !== "boolean" && !Number.isFinite(value)) {
      this.#note(mustBe(pointer, "a JSON value"));
      return put(null);
    }
    put(value);
  }

  #enter(source: object, pointer: string): unknown {
    if (this.#ancestors.has(source)) throw refusal(mustBe(pointer, "a value that does not contain itself"));
    if (this.#stack.length >= MAX_DEPTH) throw refusal(mustBe(pointer, `nested at most ${MAX_DEPTH} levels deep`));
    if (Array.isArray(source)) {
      if (source.length > MAX_VALUES) throw refusal(mustBe(pointer, `a list of at most ${MAX_VALUES} items`));
      const copy: unknown[] = [];
      this.#push(source, pointer, Array.from(source.keys(), String), (_key, value) => copy.push(value));
      return copy;
    }
    const prototype: unknown = Object.getPrototypeOf(source);
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
      this.#note(mustBe(pointer, "a JSON value"));
      return null;
    }
    const copy: Record<string, unknown> = {};
    this.#push(source, pointer, Object.keys(source), (key, value) => (copy[key] = value));
    return copy;
  }

  #push(source: object, pointer: string, keys: readonly string[], put: Frame["put"]): void {
    if (this.#values + keys.length > MAX_VALUES) {
      throw refusal(mustBe("", `a document of at most ${MAX_VALUES} values`));
    }
    this.#ancestors.add(source);
    this.#stack.push({ source, keys, put, pointer, next: 0 });
  }

  #checkText(text: string, pointer: string): void {
    if (!text.isWellFormed()) this.#note(mustBe(pointer, "well-formed Unicode, without lone surrogates"));
    else if (text.includes("\0")) this.#note(mustBe(pointer, "text without the character U+0000"));
  }

  #note(problem: Problem): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(problem);
  }
}
