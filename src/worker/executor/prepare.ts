import { ERROR_TABLE, RunError } from "../../shared/errors.ts";
import type { Catalog, Skill } from "../catalog/catalog.ts";
import { effectiveCapabilities } from "../catalog/narrowing.ts";
import type { ModelRoute, ModelTool } from "../model/model.ts";
import type { AdmissionWindow } from "../tools/admission.ts";
import type { Execution, ExecutionDependencies } from "./execution.ts";

/** What a run runs with, settled before its first turn and not changed after. */
export interface Plan {
  readonly skill: Skill | undefined;
  readonly route: ModelRoute;
  /** The provider's name of the model. */
  readonly model: string;
  readonly window: AdmissionWindow;
}

/**
 * Settles skill, model and tools of a run: everything that can deny it before turn 1. A later attempt runs with the
 * skill that the first one ran with, or not at all.
 *
 * @throws {RunError} `skill_not_found`, `skill_invalid`, `skill_digest_mismatch`, `unknown_model`, `model_not_allowed`,
 *   `network_denied`, `unknown_capability`, `workspace_unavailable`.
 */
export function prepare(execution: Execution, dependencies: ExecutionDependencies): Plan {
  const { request, prior } = execution;
  const skill = request.skill === undefined ? undefined : findSkill(request.skill, dependencies.catalog);
  if (skill !== undefined && prior?.skill !== undefined && prior.skill.digest !== skill.digest) {
    throw mismatch(prior.skill.digest, skill);
  }
  const { route, model } = dependencies.models.resolve(request.model);
  if (request.limits.maxCostUsd !== undefined && route.pricePerMillion === undefined) {
    throw new RunError("model_not_allowed", {
      message: `The route ${route.id} has no price, so maxCostUsd cannot be kept.`,
    });
  }
  const requested = allowCapabilities(request.allowedCapabilities, dependencies);
  const { allowed, narrowedBy } = effectiveCapabilities([...requested], skill === undefined ? [] : [skill]);
  return { skill, route, model, window: { registry: dependencies.tools, requested, effective: allowed, narrowedBy } };
}

function findSkill(pinned: string, catalog: Catalog): Skill {
  const [ref = "", digest] = pinned.split("@");
  const skill = catalog.get(ref);
  if (skill === undefined) {
    const diagnostic = catalog.invalid(ref);
    if (diagnostic === undefined)
      throw new RunError("skill_not_found", { message: `No skill named ${ref} in the catalog.` });
    throw new RunError("skill_invalid", { message: `The skill ${ref} could not be loaded: ${diagnostic.message}` });
  }
  if (digest !== undefined && digest !== skill.digest) {
    throw mismatch(digest, skill);
  }
  return skill;
}

function mismatch(wanted: string, skill: Skill): RunError {
  return new RunError("skill_digest_mismatch", { details: { wanted, held: skill.digest } });
}

function allowCapabilities(ids: readonly string[], dependencies: ExecutionDependencies): ReadonlySet<string> {
  for (const id of ids) {
    if (id.startsWith("network.")) throw denied("network_denied", id);
    const capability = dependencies.tools.get(id);
    if (capability === undefined) throw denied("unknown_capability", id);
    if (capability.implementation.kind === "workspace" && dependencies.sandbox === undefined) {
      throw denied("workspace_unavailable", id);
    }
  }
  return new Set(ids);
}

function denied(code: "network_denied" | "unknown_capability" | "workspace_unavailable", capability: string): RunError {
  return new RunError(code, { message: `${ERROR_TABLE[code].message} It is ${capability}.`, details: { capability } });
}

/** The tools that the model is offered, in stable order. */
export function offeredTools(window: AdmissionWindow): readonly ModelTool[] {
  return [...window.registry.values()]
    .filter((capability) => window.effective.has(capability.id))
    .map((capability) => capability.modelTool);
}
