import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

/** The root of the repository. */
export const REPOSITORY = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** One import, as it stands in a source file. */
export interface ImportStatement {
  /** Path of the importing file from the repository's root. */
  readonly file: string;
  /** Path from the root for files of this repository, else the package's name. */
  readonly target: string;
  readonly kind: "static" | "dynamic" | "types-only";
}

/** `import … from "x"`, `export … from "x"`, `import "x"`, `import("x")`, `require("x")`. */
const STATEMENT =
  /(?:^|\n)\s*(?<verb>import|export)\s+(?<types>type\s+)?(?:[\w*{}\s,$]+?\sfrom\s*)?["'](?<from>[^"'\n]+)["']|\b(?:import|require)\(\s*["'](?<call>[^"'\n]+)["']/g;

/** Reads the imports of every TypeScript file under the folders. Comments are not imports. */
export function readImports(folders: readonly string[]): readonly ImportStatement[] {
  const files = globSync(
    folders.map((folder) => `${folder}/**/*.ts`),
    { cwd: REPOSITORY },
  );
  return files.flatMap((file) => findImports(file, readFileSync(join(REPOSITORY, file), "utf8")));
}

/** The imports in the text of one file. */
export function findImports(file: string, source: string): readonly ImportStatement[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$/gm, "");
  return [...code.matchAll(STATEMENT)].map(({ groups = {} }) => {
    const specifier = groups["from"] ?? groups["call"] ?? "";
    const kind = groups["from"] === undefined ? "dynamic" : groups["types"] === undefined ? "static" : "types-only";
    return { file, target: resolve(file, specifier), kind };
  });
}

function resolve(file: string, specifier: string): string {
  if (specifier.startsWith(".")) return relative(".", normalize(join(dirname(file), specifier)));
  if (specifier.startsWith("node:")) return specifier;
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? specifier);
}
