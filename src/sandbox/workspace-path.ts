import { RunError } from "../shared/errors.ts";

/** Where the workspace stands in every sandbox, real or not. */
export const WORKSPACE_ROOT = "/workspace";

const MAX_PATH_BYTES = 1_024;
const MAX_COMPONENT_BYTES = 255;
/** Components of a path, the file's own name included. */
export const MAX_PATH_DEPTH = 64;

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f]/u;

/**
 * Parses the path of a file in the workspace.
 *
 * Accepts `a/b`, `./a/b` and `/workspace/a/b`. Paths are virtual: nothing is looked up.
 *
 * @returns The path relative to the workspace, without `.` and empty components: `a/b`.
 * @throws {RunError} `path_refused` for anything else: `..`, absolute elsewhere, a trailing slash, control
 *   characters, ill-formed Unicode, more than 1,024 bytes, a component over 255 bytes, more than 64 components.
 */
export function parseWorkspacePath(path: string): string {
  if (!path.isWellFormed()) throw refused("is not well-formed Unicode");
  if (CONTROL_CHARACTERS.test(path)) throw refused("holds a control character");
  if (path.endsWith("/")) throw refused("names a directory");
  const components = relativePart(path)
    .split("/")
    .filter((component) => component !== "" && component !== ".");
  if (components.length === 0 || path.endsWith("/.")) throw refused("names no file");
  if (components.includes("..")) throw refused("leads out of its directory by ..");
  if (components.length > MAX_PATH_DEPTH) throw refused(`has more than ${MAX_PATH_DEPTH} components`);
  if (components.some((component) => Buffer.byteLength(component) > MAX_COMPONENT_BYTES)) {
    throw refused(`has a component of more than ${MAX_COMPONENT_BYTES} bytes`);
  }
  const relative = components.join("/");
  if (Buffer.byteLength(relative) > MAX_PATH_BYTES) throw refused(`has more than ${MAX_PATH_BYTES} bytes`);
  return relative;
}

/** The directories above a relative path, outermost first: `a`, `a/b` for `a/b/c`. */
export function parentDirectories(path: string): readonly string[] {
  const components = path.split("/").slice(0, -1);
  return components.map((_, index) => components.slice(0, index + 1).join("/"));
}

/** A relative path as commands and models see it. */
export function toAbsolutePath(path: string): string {
  return `${WORKSPACE_ROOT}/${path}`;
}

function relativePart(path: string): string {
  if (!path.startsWith("/")) return path;
  if (path === WORKSPACE_ROOT || path.startsWith(`${WORKSPACE_ROOT}/`)) return path.slice(WORKSPACE_ROOT.length + 1);
  throw refused(`is outside ${WORKSPACE_ROOT}`);
}

function refused(problem: string): RunError {
  return new RunError("path_refused", { message: `The path ${problem}.` });
}
