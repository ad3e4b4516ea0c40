import type { EventData } from "../../shared/contracts/event.ts";
import type { ModelToolCall } from "../model/model.ts";
import { parseArguments } from "./arguments.ts";
import type { Capability, ToolRegistry } from "./registry.ts";

/** What the calls of a turn are judged against. */
export interface AdmissionWindow {
  readonly registry: ToolRegistry;
  /** Capability ids that the request allows and this process serves. */
  readonly requested: ReadonlySet<string>;
  /** What of them the active skills leave. */
  readonly effective: ReadonlySet<string>;
  /** Refs of the active skills that narrow. */
  readonly narrowedBy: readonly string[];
}

export type BlockRule = EventData<"tool.blocked">["rule"];

export type Verdict =
  | {
      readonly kind: "admitted";
      readonly call: ModelToolCall;
      readonly capability: Capability;
      readonly args: Readonly<Record<string, unknown>>;
    }
  /** Allowed, but its arguments are refused: a failed receipt, and nothing is dispatched. */
  | {
      readonly kind: "invalid";
      readonly call: ModelToolCall;
      readonly capability: Capability;
      readonly problem: string;
    }
  | {
      readonly kind: "blocked";
      readonly call: ModelToolCall;
      readonly capability: Capability | undefined;
      readonly rule: BlockRule;
      readonly problem: string;
    };

/**
 * Judges the whole batch of a turn, before any of it is dispatched. Names are compared exactly: another case,
 * a blank or a look-alike letter is another name.
 *
 * @param options.truncated The turn was cut while the model wrote its calls: none of them can be trusted.
 * @returns One verdict a call, in order.
 */
export function admitBatch(
  calls: readonly ModelToolCall[],
  window: AdmissionWindow,
  options: { readonly truncated: boolean },
): readonly Verdict[] {
  const byModelName = new Map<string, Capability>();
  for (const capability of window.registry.values()) {
    // Two versions share a model name; the one that the request allows speaks for it.
    if (!byModelName.has(capability.modelTool.name) || window.requested.has(capability.id)) {
      byModelName.set(capability.modelTool.name, capability);
    }
  }
  return calls.map((call) => judge(call, byModelName.get(call.name), window, options));
}

function judge(
  call: ModelToolCall,
  capability: Capability | undefined,
  window: AdmissionWindow,
  options: { readonly truncated: boolean },
): Verdict {
  const block = (rule: BlockRule, problem: string): Verdict => ({ kind: "blocked", call, capability, rule, problem });
  if (capability === undefined) return block("unknown_tool", "There is no tool of this name.");
  if (!window.requested.has(capability.id)) return block("not_allowed", "This run may not use this tool.");
  if (!window.effective.has(capability.id)) return block("narrowed", "The active skill does not allow this tool.");
  if (options.truncated)
    return block("truncated", "The turn was cut off at the output limit, so none of its calls was carried out.");
  const parsed = parseArguments(call.arguments);
  if (!parsed.ok) return { kind: "invalid", call, capability, problem: parsed.problem };
  const problems = capability.checkArguments(parsed.value);
  if (problems.length > 0) return { kind: "invalid", call, capability, problem: problems.slice(0, 5).join(" ") };
  return { kind: "admitted", call, capability, args: parsed.value };
}
