import { sha256Digest } from "../../shared/contracts/digest.ts";
import type { RunEventDraft } from "../../shared/contracts/event.ts";
import type { RunRequest } from "../../shared/contracts/request.ts";
import { RunError, toRunError } from "../../shared/errors.ts";
import type { Skill } from "../catalog/catalog.ts";
import { Attempt } from "./attempt.ts";
import { concludeRun, toEndingError, type Ending } from "./conclude.ts";
import { RunInterrupt, type Execution, type ExecutionDependencies, type UnsealedResult } from "./execution.ts";
import { linkAbort } from "./linked-abort.ts";
import { prepare, type Plan } from "./prepare.ts";

/**
 * The executor: one attempt of a run, as a bounded loop of model turns and tool calls.
 *
 *     started → (model turn → whole batch judged → calls dispatched in order)* → ended
 *
 * E1 It yields every event of the attempt but the terminal one, and returns the result.
 * E2 No model is called before the `model.started` of that turn was taken by the host, and no tool is dispatched
 *    before its `tool.call` was. A host that stops asking stops the run.
 * E3 Every `tool.call` is followed by its `tool.result`, unless the attempt is interrupted without a result.
 * E4 Turns, tool calls, output bytes, tokens, cost and wall clock are bounded, over all attempts.
 * E5 However it is left, the model call is aborted, the sandbox is ended and no timer is left.
 *
 * @throws {RunInterrupt} Other than `cancelled`: this attempt has no result.
 */
export async function* execute(
  execution: Execution,
  dependencies: ExecutionDependencies,
  signal: AbortSignal,
): AsyncGenerator<RunEventDraft, UnsealedResult, void> {
  const { request } = execution;
  const { clock } = dependencies;
  const endsAt = execution.startedAt + request.limits.wallClockMs;
  const stop = linkAbort(signal);
  const cancelTimer = clock.after(endsAt - clock.now(), () => stop.abort(new RunError("wall_clock")));
  const receipts = [...(execution.prior?.receipts ?? [])];
  let noticedAt = clock.monotonic();
  const onAbort = (): void => void (noticedAt = clock.monotonic());
  signal.addEventListener("abort", onAbort, { once: true });
  let attempt: Attempt | undefined;
  try {
    const settled = settle(execution, dependencies);
    const plan = settled instanceof RunError ? undefined : settled;
    let ending: Ending;
    try {
      yield openingEvent(execution, dependencies, plan);
      if (settled instanceof RunError) throw settled;
      if (settled.skill !== undefined) yield activation(settled.skill, request);
      attempt = new Attempt({ execution, dependencies, plan: settled, receipts, endsAt, signal: stop.signal });
      ending = { status: "succeeded", ...(yield* attempt.turns()) };
    } catch (caught) {
      ending = toEnding(stop.signal.aborted ? stop.signal.reason : caught);
      if (ending.status === "stopped") dependencies.onFault?.({ error: ending.error });
    }
    const { confirmed } = (await attempt?.close()) ?? { confirmed: true };
    const cancelledAfterMs = Math.round(clock.monotonic() - noticedAt);
    return concludeRun({
      execution,
      dependencies,
      plan,
      receipts,
      meter: attempt?.meter,
      sandboxMs: attempt?.sandboxMs ?? 0,
      ending,
      confirmed,
      cancelledAfterMs,
    });
  } finally {
    signal.removeEventListener("abort", onAbort);
    cancelTimer();
    stop.release();
    await attempt?.close();
  }
}

/** What the attempt will run with, or why it may not run. */
function settle(execution: Execution, dependencies: ExecutionDependencies): Plan | RunError {
  if (execution.refusal !== undefined) return execution.refusal;
  try {
    return prepare(execution, dependencies);
  } catch (error) {
    return toRunError(error);
  }
}

/** The attempt's first event. What it will run with is named as far as it is settled. */
function openingEvent(
  execution: Execution,
  dependencies: ExecutionDependencies,
  plan: Plan | undefined,
): RunEventDraft {
  const { request, prior } = execution;
  const runsWith = {
    worker: dependencies.worker,
    catalogDigest: dependencies.catalog.digest,
    ...(request.skill === undefined ? {} : { skill: request.skill.split("@")[0] }),
    ...(plan?.skill === undefined ? {} : { skillDigest: plan.skill.digest }),
    ...(plan === undefined ? {} : { model: `${plan.route.id}:${plan.model}` }),
  };
  if (prior === undefined) return { type: "run.started", data: runsWith };
  return { type: "run.resumed", data: { ...runsWith, fromSequence: prior.lastSequence, reason: prior.reason } };
}

/** The request's own skill is active before turn 1, by the service's own word. */
function activation(skill: Skill, request: RunRequest): RunEventDraft {
  const argumentsDigest = sha256Digest(request.arguments ?? "");
  return { type: "skill.activated", data: { ref: skill.ref, digest: skill.digest, argumentsDigest } };
}

/**
 * @param cause What stopped the attempt; where it was aborted, the abort's reason and not what the abort broke.
 * @throws {RunInterrupt} For interrupts that end only the attempt.
 */
function toEnding(cause: unknown): Ending {
  if (!(cause instanceof RunInterrupt)) return { status: "stopped", error: toEndingError(cause) };
  if (cause.kind !== "cancelled") throw cause;
  return { status: "cancelled", reason: cause.reason };
}
