import { EXIT, exitCodeOfResult, type ExitCode } from "./exit-codes.ts";
import { onInterrupt } from "./interrupts.ts";
import { reportInterrupted, reportWaitExpired, type AnswerOptions } from "./report-error.ts";
import type { RunResult } from "../shared/contracts/result.ts";
import { formatDuration } from "./figures.ts";
import type { RunView } from "./run-view.ts";
import type { Terminal } from "./terminal.ts";

/** How long the end of a run that was cancelled for `--timeout` is waited for. */
const CANCEL_WAIT_MS = 15_000;

export interface RunControlOptions {
  readonly terminal: Terminal;
  readonly view: RunView;
  /** `--timeout`. */
  readonly timeoutMs: number | undefined;
  /** Asks for the run's end. What it rejects with is the caller's to handle. */
  readonly cancel: (reason: string) => void;
}

/**
 * The client's side of a run that is watched: Ctrl-C or `--timeout` cancels it, whichever comes first, and its end
 * is waited for. A second Ctrl-C leaves at once.
 */
export class RunControl implements Disposable {
  readonly #options: RunControlOptions;
  readonly #leave = new AbortController();
  readonly #interrupts: Disposable;
  readonly #timers: NodeJS.Timeout[] = [];
  #cause: "interrupt" | "timeout" | undefined;

  constructor(options: RunControlOptions) {
    this.#options = options;
    const { terminal, timeoutMs, view } = options;
    this.#interrupts = onInterrupt(terminal, (signal) => {
      view.notice(
        signal === "SIGINT" ? "cancelling the run; Ctrl-C again leaves at once" : `${signal}: cancelling the run`,
      );
      this.#stop("interrupt", "interrupted");
    });
    if (timeoutMs !== undefined) this.#timers.push(setTimeout(() => this.#expire(timeoutMs), timeoutMs));
  }

  /** Aborts when the run is not to be waited for any longer. */
  get leave(): AbortSignal {
    return AbortSignal.any([this.#leave.signal, this.#options.terminal.outputClosed]);
  }

  /** The exit status, once the run has ended or was left; prints what is missing of an answer. */
  conclude(result: RunResult | undefined, answer: AnswerOptions): ExitCode {
    const { terminal } = this.#options;
    if (this.#cause === "interrupt") {
      return result === undefined
        ? reportInterrupted(terminal, "Left before the run had ended.", answer)
        : EXIT.interrupted;
    }
    if (this.#cause === "timeout") {
      return result === undefined
        ? reportWaitExpired(terminal, "The run was cancelled and has not ended yet.", answer)
        : EXIT.timeRanOut;
    }
    return result === undefined ? EXIT.ok : exitCodeOfResult(result);
  }

  [Symbol.dispose](): void {
    this.#interrupts[Symbol.dispose]();
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #expire(timeoutMs: number): void {
    this.#options.view.notice(`the run has not ended in ${formatDuration(timeoutMs)}: cancelling it`);
    this.#stop("timeout", "timeout of the client");
    this.#timers.push(setTimeout(() => this.#leave.abort(), CANCEL_WAIT_MS));
  }

  #stop(cause: "interrupt" | "timeout", reason: string): void {
    if (this.#cause !== undefined) return;
    this.#cause = cause;
    this.#options.cancel(reason);
  }
}
