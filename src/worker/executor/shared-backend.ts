import type { SandboxBackend } from "../../sandbox/backend.ts";
import { RunError } from "../../shared/errors.ts";

/** The one sandbox backend of a process: made by its factory at first use, shared by all runs. */
export class SharedBackend implements AsyncDisposable {
  readonly #make: () => SandboxBackend | Promise<SandboxBackend>;
  #opening: Promise<SandboxBackend> | undefined;

  constructor(make: () => SandboxBackend | Promise<SandboxBackend>) {
    this.#make = make;
  }

  /**
   * @throws {RunError} `sandbox_unavailable`, whatever the factory throws. The next call tries again, since an engine that
   *   was down may be up by then.
   */
  async open(): Promise<SandboxBackend> {
    this.#opening ??= Promise.resolve().then(this.#make);
    try {
      return await this.#opening;
    } catch (error) {
      this.#opening = undefined;
      const known = error instanceof RunError ? { message: error.message, details: error.details ?? {} } : {};
      throw new RunError("sandbox_unavailable", { ...known, cause: error });
    }
  }

  /** The backend, if it has been opened and works. */
  async opened(): Promise<SandboxBackend | undefined> {
    return this.#opening?.catch(() => undefined);
  }

  /** Safe to call again. */
  async [Symbol.asyncDispose](): Promise<void> {
    const backend = await this.opened();
    this.#opening = undefined;
    await backend?.[Symbol.asyncDispose]();
  }
}
