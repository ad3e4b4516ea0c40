import { EXIT } from "./exit-codes.ts";
import type { Terminal } from "./terminal.ts";

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/**
 * Hears Ctrl-C (and SIGTERM) for a scope: the first calls `onFirst`, the second ends the process at once.
 *
 *     using _ = onInterrupt(terminal, () => cancel());
 */
export function onInterrupt(terminal: Terminal, onFirst: (signal: NodeJS.Signals) => void): Disposable {
  let heard = false;
  const listener = (signal: NodeJS.Signals): void => {
    if (heard) terminal.exitNow(EXIT.interrupted);
    heard = true;
    onFirst(signal);
  };
  for (const signal of SIGNALS) process.on(signal, listener);
  return {
    [Symbol.dispose]() {
      for (const signal of SIGNALS) process.off(signal, listener);
    },
  };
}
