/**
 * Prints what Skilldock costs beside what its baselines cost, measured in the same run.
 *
 *     npm run bench                    all
 *     npm run bench -- append loop     these
 *     npm run bench -- --quick         shows that it works, in seconds; the figures mean nothing
 *
 * A missed goal is printed and is no failure; a measurement that breaks ends the process with code 1.
 */
import { benchAppend } from "./append.ts";
import { benchLatency } from "./latency.ts";
import { benchLoop } from "./loop.ts";
import { FULL, QUICK, type Figure, type Scale } from "./measure.ts";
import { benchNoop } from "./noop.ts";
import { benchPath } from "./path.ts";
import { describeFigure, describeMachine } from "./print.ts";

const BENCHES: Readonly<Record<string, (scale: Scale) => Promise<readonly Figure[]>>> = {
  noop: benchNoop,
  latency: benchLatency,
  loop: benchLoop,
  path: benchPath,
  append: benchAppend,
};
/** All together take a third of this on a quiet machine. */
const LONGEST_MS = 300_000;

async function main(args: readonly string[]): Promise<void> {
  const scale = args.includes("--quick") ? QUICK : FULL;
  const named = args.filter((arg) => arg !== "--quick");
  const unknown = named.filter((name) => !Object.hasOwn(BENCHES, name));
  if (unknown.length > 0) {
    throw new Error(`no such bench: ${unknown.join(", ")}; there are ${Object.keys(BENCHES).join(", ")}`);
  }
  console.log(`${describeMachine()}; median of ${scale.repeats} (least–most)`);
  for (const [name, bench] of Object.entries(BENCHES)) {
    if (named.length > 0 && !named.includes(name)) continue;
    for (const figure of await bench(scale)) console.log(`\n${describeFigure(figure)}`);
  }
}

const watchdog = setTimeout(() => {
  console.error(`The bench took longer than ${LONGEST_MS / 1_000} s.`);
  process.exit(1);
}, LONGEST_MS);
try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  clearTimeout(watchdog);
}
