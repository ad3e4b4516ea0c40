import { hash } from "node:crypto";
import type { ManifestEntry } from "./catalog.ts";

/** `sha256:<hex>` of bytes or of a text's UTF-8. */
export function sha256(content: Uint8Array | string): string {
  return `sha256:${hash("sha256", content, "hex")}`;
}

/**
 * The digest of a skill: over SKILL.md's bytes as they are on disk and over path, size, content and executable bit
 * of every file of the manifest. One JSON line an item, so that no two skills write the same text.
 *
 * @param manifest Sorted by path.
 */
export function skillDigest(skillFile: Uint8Array, manifest: readonly ManifestEntry[]): string {
  const lines = [JSON.stringify(["SKILL.md", skillFile.length, sha256(skillFile)])];
  for (const entry of manifest) lines.push(JSON.stringify([entry.path, entry.size, entry.digest, entry.executable]));
  return sha256(`${lines.join("\n")}\n`);
}

/** The digest of a catalog: over the sorted digests of its skills, one a line. */
export function catalogDigest(skillDigests: readonly string[]): string {
  return sha256(
    skillDigests
      .toSorted()
      .map((digest) => `${digest}\n`)
      .join(""),
  );
}
