import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

/** A directory of its own, gone at the end of the scope. */
export interface SkillTree extends Disposable {
  readonly path: string;
  /** Writes a file, making its directories. @returns Its absolute path. */
  write(path: string, content: string | Uint8Array): string;
  /** Writes a SKILL.md with this description and body. @returns The skill's absolute directory. */
  skill(directory: string, options?: { readonly header?: string; readonly body?: string }): string;
}

/** Makes an empty directory for skills below the system's temporary one. */
export function makeSkillTree(): SkillTree {
  const path = mkdtempSync(join(tmpdir(), "skilldock-catalog-"));
  const write = (inside: string, content: string | Uint8Array): string => {
    const file = join(path, inside);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    return file;
  };
  return {
    path,
    write,
    skill(directory, { header = "description: Does something useful.", body = "Do it.\n" } = {}) {
      return dirname(write(join(directory, "SKILL.md"), `---\n${header}\n---\n${body}`));
    },
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}
