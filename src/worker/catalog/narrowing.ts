import type { AllowedTool, Skill } from "./catalog.ts";

/** What the active skills leave of a request's capabilities. */
export interface EffectiveCapabilities {
  readonly allowed: ReadonlySet<string>;
  /** Refs of the active skills that declare a list, in the order given. Empty: nothing was narrowed. */
  readonly narrowedBy: readonly string[];
}

/** Names that skills use for tools of other products, and the one capability that each stands for. */
export const TOOL_ALIASES: ReadonlyMap<string, string> = new Map([
  ["Read", "workspace.read@1"],
  ["Write", "workspace.write@1"],
  ["Edit", "workspace.write@1"],
  ["Glob", "workspace.list@1"],
  ["LS", "workspace.list@1"],
  ["Bash", "workspace.execute_command@1"],
]);

const VERSION = /@[1-9][0-9]*$/;

/**
 * The request's capabilities that the active skills leave: the union of the lists of those that declare one, if any
 * does, and never more than the request allows.
 *
 * @param allowed Capability ids of the request.
 */
export function effectiveCapabilities(
  allowed: readonly string[],
  activeSkills: readonly Skill[],
): EffectiveCapabilities {
  const narrowing = activeSkills.filter((skill) => skill.allowedTools !== undefined);
  if (narrowing.length === 0) return { allowed: new Set(allowed), narrowedBy: [] };
  const entries = narrowing.flatMap((skill) => skill.allowedTools ?? []);
  return {
    allowed: new Set(allowed.filter((id) => entries.some((entry) => entryAllows(entry, id)))),
    narrowedBy: narrowing.map((skill) => skill.ref),
  };
}

/**
 * Whether an `allowed-tools` entry names a capability. Names are compared exactly: an alias, the stable id, the id
 * without its version, or the name that the model sees.
 *
 * An entry with a scope allows part of a tool. A part cannot be granted here, so it grants nothing.
 */
export function entryAllows(entry: AllowedTool, capabilityId: string): boolean {
  if (entry.scope !== undefined) return false;
  const unversioned = capabilityId.replace(VERSION, "");
  return (
    TOOL_ALIASES.get(entry.name) === capabilityId ||
    entry.name === capabilityId ||
    entry.name === unversioned ||
    entry.name === toModelName(unversioned)
  );
}

function toModelName(unversioned: string): string {
  return unversioned.replaceAll(".", "_");
}
