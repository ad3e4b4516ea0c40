import { systemClock, type Clock } from "../../shared/clock.ts";
import type { RunEvent } from "../../shared/contracts/event.ts";
import type { RunRequestInput } from "../../shared/contracts/request.ts";
import type { RunResult } from "../../shared/contracts/result.ts";
import { parseRunRequest } from "../../shared/contracts/validate.ts";
import { newNonce, newRunId } from "../../shared/ids.ts";
import type { SandboxBackend } from "../../sandbox/backend.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ModelRouter } from "../model/model.ts";
import { createToolRegistry } from "../tools/registry.ts";
import type { CallerTool } from "../tools/tool.ts";
import { auditor, type Audit } from "./audit.ts";
import { EventStamper } from "./event-stamper.ts";
import { execute } from "./execute.ts";
import { RunInterrupt, type ExecutionDependencies } from "./execution.ts";
import { SharedBackend } from "./shared-backend.ts";

/** Everything that an executor works with. Nothing is discovered, nothing is read from the environment. */
export interface ExecutorOptions {
  readonly catalog: Catalog;
  readonly models: ModelRouter;
  readonly tools?: readonly CallerTool[];
  /** Called once, at the first admitted workspace call. Absent: workspace capabilities are denied. */
  readonly sandbox?: () => SandboxBackend | Promise<SandboxBackend>;
  /** Told of every event, before it is yielded. What it throws or rejects with is dropped: it never touches a run. */
  readonly onEvent?: (event: RunEvent) => unknown;
  /** Told of skill events. What it throws or rejects with is dropped. */
  readonly audit?: Audit;
  readonly clock?: Clock;
  /** Which installation its sandboxes belong to. Default `local`. */
  readonly installation?: string;
}

/** As the producer bounds it. */
const MAX_REASON_CHARACTERS = 1_000;

/** A request for an in-process run: the tenant may be left out (`default`). */
export type LocalRunRequest = Omit<RunRequestInput, "tenantId"> & { readonly tenantId?: string };

/**
 * Runs requests in this process, by the same generator that workers use. No Redis, no queue.
 *
 * May run any number of requests at once. Dispose it to end the sandbox backend that it has opened.
 */
export class Executor {
  readonly #options: ExecutorOptions;
  readonly #dependencies: ExecutionDependencies;
  readonly #backend: SharedBackend | undefined;

  /** @throws {RunError} `invalid_configuration` for tools that cannot be registered. */
  constructor(options: ExecutorOptions) {
    this.#options = options;
    this.#backend = options.sandbox && new SharedBackend(options.sandbox);
    const backend = this.#backend;
    this.#dependencies = {
      catalog: options.catalog,
      models: options.models,
      tools: createToolRegistry(options.tools),
      ...(backend === undefined ? {} : { sandbox: () => backend.open() }),
      clock: options.clock ?? systemClock,
      worker: `local-${newNonce()}`,
      installation: options.installation ?? "local",
    };
  }

  /**
   * Executes one request.
   *
   * Yields every event, the terminal one last, then the result. Aborting `signal` cancels the run; the `cancelled`
   * result still comes to those who keep reading. Leaving early cleans up within 10 s.
   *
   * @throws {RunError} `invalid_request`, `not_supported`, before anything has run.
   */
  async *run(
    request: LocalRunRequest,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<RunEvent | RunResult, void, void> {
    const validated = parseRunRequest({ tenantId: "default", ...request }, { runId: newRunId() });
    const { clock } = this.#dependencies;
    const now = clock.now();
    const stamper = new EventStamper({
      runId: validated.runId,
      tenantId: validated.tenantId,
      attempt: 1,
      lastSequence: 0,
      now: () => clock.now(),
    });
    const tell = this.#teller();
    const cancel = cancellationOf(options.signal);
    const drafts = execute(
      { request: validated, attempt: 1, queuedAt: now, startedAt: now },
      this.#dependencies,
      cancel.signal,
    );
    try {
      for (;;) {
        const next = await drafts.next();
        if (next.done === true) {
          const { event, result } = stamper.seal(next.value);
          yield tell(event);
          yield result;
          return;
        }
        yield tell(stamper.stamp(next.value));
      }
    } finally {
      cancel.release();
      // Left early: the generator ends its sandbox before this returns.
      await drafts.return(undefined as never); // its value is not looked at
    }
  }

  /** Ends the sandbox backend, if one was opened. Safe to call again. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#backend?.[Symbol.asyncDispose]();
  }

  #teller(): (event: RunEvent) => RunEvent {
    const { onEvent } = this.#options;
    const audit = auditor(this.#options.audit);
    return (event) => {
      // What a listener throws or rejects with is not the run's.
      if (onEvent !== undefined) void (async () => onEvent(event))().catch(() => undefined);
      audit(event);
      return event;
    };
  }
}

/** The caller's signal, as the interrupt that the executor understands. */
function cancellationOf(signal: AbortSignal | undefined): {
  readonly signal: AbortSignal;
  readonly release: () => void;
} {
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(new RunInterrupt("cancelled", reasonOf(signal)));
  if (signal?.aborted === true) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  return { signal: controller.signal, release: () => signal?.removeEventListener("abort", onAbort) };
}

function reasonOf(signal: AbortSignal | undefined): string | undefined {
  return typeof signal?.reason === "string" ? signal.reason.toWellFormed().slice(0, MAX_REASON_CHARACTERS) : undefined;
}
