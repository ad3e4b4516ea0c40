import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { RunError } from "../shared/errors.ts";
import type { CallerTool } from "../worker/tools/tool.ts";

/**
 * Imports caller tools: a module's export `tools`, or its default export, an array.
 *
 * @param specifier A path, relative to the working directory, a `file://` URL, or the name of a package that is
 *   installed there. Undefined: there are no tools.
 * @returns What the array holds is checked when it is registered.
 * @throws {RunError} `invalid_configuration`: the module cannot be imported, or exports no such array.
 */
export async function loadTools(specifier: string | undefined): Promise<readonly CallerTool[]> {
  if (specifier === undefined) return [];
  const name = basename(specifier);
  let module: { readonly tools?: unknown; readonly default?: unknown };
  try {
    module = (await import(locate(specifier))) as typeof module; // a module is an object
  } catch (error) {
    throw refuse(`The tools module ${name} cannot be imported: ${reasonOf(error)}`, error);
  }
  const tools = module.tools ?? module.default;
  if (Array.isArray(tools)) return tools as CallerTool[]; // the tool registry checks each
  throw refuse(`The tools module ${name} must export an array named tools.`);
}

function locate(specifier: string): string {
  if (specifier.startsWith("file:")) return specifier;
  const path = resolve(specifier);
  if (existsSync(path) || /^[./]/.test(specifier)) return pathToFileURL(path).href;
  return pathToFileURL(createRequire(resolve("package.json")).resolve(specifier)).href;
}

/** The first line of what went wrong. The module is the operator's own: its text may be shown. */
function reasonOf(error: unknown): string {
  return error instanceof Error ? (error.message.split("\n", 1)[0] ?? error.name) : String(error);
}

function refuse(message: string, cause?: unknown): RunError {
  return new RunError("invalid_configuration", { message, cause });
}
