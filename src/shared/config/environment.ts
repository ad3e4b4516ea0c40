import { delimiter } from "node:path";
import { mustBe } from "../contracts/problem.ts";
import { readSmallFile, whyUnreadable } from "./config-file.ts";
import type { ConfigLayer, ConfigProblem, Tree } from "./config-layer.ts";
import { OTHER_VARIABLES, VARIABLE_FIELDS, type VariableField } from "./config-schema.ts";

/** The environment of a process: names and values. */
export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = "SKILLDOCK_";
/** A Kubernetes service named `skilldock` puts such variables into every container. */
const SERVICE_LINK =
  /^SKILLDOCK_(?:[A-Z0-9_]*_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?)?)$/;
const LISTS: ReadonlySet<string> = new Set(["SKILLDOCK_SKILLS"]);
const SECRET_FIELDS: ReadonlySet<string> = new Set(["REDIS_URL"]);

export interface EnvironmentLayer {
  readonly layer: ConfigLayer;
  readonly problems: readonly ConfigProblem[];
}

/** Reads the variables that set fields. An empty variable counts as not set. */
export function readEnvironment(env: Environment): EnvironmentLayer {
  const problems: ConfigProblem[] = unknownVariables(env);
  let value: Tree = {};
  for (const field of VARIABLE_FIELDS) {
    const text = SECRET_FIELDS.has(field.variable)
      ? readSecret(env, field.variable, (problem) => problems.push(problem))
      : valueOf(env, field.variable);
    if (text !== undefined)
      value = put(
        value,
        field.path,
        LISTS.has(field.variable) ? text.split(delimiter).filter((item) => item !== "") : text,
      );
  }
  return { layer: { value, locate: variableOf }, problems };
}

/**
 * Reads a secret from the variable `name`, or from the file that `<name>_FILE` names, without one line break at
 * its end.
 *
 * @returns undefined where neither is set, or where there is a problem.
 */
export function readSecret(
  env: Environment,
  name: string,
  onProblem: (problem: ConfigProblem) => void,
): string | undefined {
  const direct = valueOf(env, name);
  const path = valueOf(env, `${name}_FILE`);
  if (path === undefined) return direct;
  const refuse = (message: string): undefined => {
    onProblem({ ...mustBe("", "set once"), message, source: `${name}_FILE`, code: "invalid_configuration" });
    return undefined;
  };
  if (direct !== undefined) return refuse(`${name} and ${name}_FILE are both set: one must go.`);
  try {
    const text = readSmallFile(path);
    return text === undefined ? refuse("The file does not exist.") : text.replace(/\r?\n$/, "");
  } catch (error) {
    return refuse(`The file cannot be read: ${whyUnreadable(error)}.`);
  }
}

/** @returns undefined for what is not set or empty. */
export function valueOf(env: Environment, name: string): string | undefined {
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  return value === "" ? undefined : value;
}

function unknownVariables(env: Environment): ConfigProblem[] {
  const known = new Set([...VARIABLE_FIELDS.map(({ variable }) => variable), ...OTHER_VARIABLES]);
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && !known.has(name) && !SERVICE_LINK.test(name))
    .sort()
    .map((name) => ({
      ...mustBe("", "absent"),
      message: "There is no such variable.",
      source: name,
      code: "invalid_configuration",
    }));
}

function variableOf(path: readonly string[]): string {
  const isField = ({ path: own }: VariableField): boolean => own.every((name, index) => path[index] === name);
  return VARIABLE_FIELDS.find(isField)?.variable ?? "environment";
}

function put(tree: Tree, path: readonly string[], value: unknown): Tree {
  const [name, ...rest] = path;
  if (name === undefined) return tree;
  const inner = tree[name];
  const below = typeof inner === "object" && inner !== null ? { ...inner } : {};
  return { ...tree, [name]: rest.length === 0 ? value : put(below, rest, value) };
}
