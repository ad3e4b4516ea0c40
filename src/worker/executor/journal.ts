import type { Receipt } from "../../shared/contracts/receipt.ts";
import type { Evidence } from "../../shared/contracts/result.ts";
import type { Skill } from "../catalog/catalog.ts";
import type { ToolOutcome } from "../tools/outcome.ts";
import { skillDirectory } from "./run-sandbox.ts";

/** The receipts of a run, over its attempts, and the resources that its reads brought. */
export class Journal {
  readonly #receipts: Receipt[];
  readonly #resources = new Map<string, NonNullable<ToolOutcome["resource"]>>();

  constructor(prior: { readonly receipts: readonly Receipt[] } | undefined) {
    this.#receipts = [...(prior?.receipts ?? [])];
  }

  get receipts(): readonly Receipt[] {
    return this.#receipts;
  }

  add(receipt: Receipt, resource: ToolOutcome["resource"]): void {
    this.#receipts.push(receipt);
    if (resource !== undefined) this.#resources.set(receipt.callId, resource);
  }

  /** What stands behind the run: its skill, each resource that was read, each result that the model was given. */
  evidence(skill: Skill | undefined): readonly Evidence[] {
    const evidence: Evidence[] = [];
    if (skill !== undefined) evidence.push({ kind: "skill", ref: skill.ref, digest: skill.digest });
    for (const receipt of this.#receipts) {
      if (receipt.status !== "succeeded") continue;
      const { callId, capabilityId } = receipt;
      const resource = this.#resources.get(callId);
      if (resource === undefined) {
        evidence.push({ kind: "tool_result", callId, capabilityId, digest: receipt.resultDigest });
      } else {
        const staged = skill !== undefined && resource.path.startsWith(`/workspace/${skillDirectory(skill.ref)}/`);
        evidence.push({ kind: "resource", callId, ...resource, ...(staged ? { ref: skill.ref } : {}) });
      }
    }
    return evidence;
  }
}
