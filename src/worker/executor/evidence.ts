import type { Receipt } from "../../shared/contracts/receipt.ts";
import type { Evidence } from "../../shared/contracts/result.ts";
import type { Skill } from "../catalog/catalog.ts";
import { skillDirectory } from "./run-sandbox.ts";

/**
 * What stands behind a run: its skill, each resource that was read, each result that the model was given.
 *
 * A pure function of the receipts and the skill.
 */
export function evidenceOf(receipts: readonly Receipt[], skill: Skill | undefined): readonly Evidence[] {
  const evidence: Evidence[] = [];
  if (skill !== undefined) evidence.push({ kind: "skill", ref: skill.ref, digest: skill.digest });
  for (const { callId, capabilityId, resource, resultDigest, status } of receipts) {
    if (status !== "succeeded") continue;
    if (resource === undefined) {
      evidence.push({ kind: "tool_result", callId, capabilityId, digest: resultDigest });
    } else {
      const staged = skill !== undefined && resource.path.startsWith(`/workspace/${skillDirectory(skill.ref)}/`);
      evidence.push({ kind: "resource", callId, ...resource, ...(staged ? { ref: skill.ref } : {}) });
    }
  }
  return evidence;
}
