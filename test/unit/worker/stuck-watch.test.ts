import { expect, test } from "vitest";
import { StuckWatch } from "../../../src/worker/stuck-watch.ts";

function watched(active = 0): {
  readonly watch: StuckWatch;
  readonly told: boolean[];
  readonly pass: (seconds: number, waiting?: number) => void;
} {
  let now = 0;
  const told: boolean[] = [];
  const watch = new StuckWatch({ concurrency: 2, active: { size: active }, clock: { monotonic: () => now } });
  watch.onStuck = ({ again }) => void told.push(again);
  const pass = (seconds: number, waiting = 1): void => {
    for (let passed = 0; passed < seconds; passed += 5) {
      now += 5_000;
      watch.sawWaiting(waiting);
    }
  };
  return { watch, told, pass };
}

test("a worker that takes nothing for a minute although runs wait is stuck; a minute later it gives up", () => {
  const { watch, told, pass } = watched();
  pass(60);
  expect([watch.stuck, told]).toEqual([false, []]);
  pass(5);
  expect([watch.stuck, told]).toEqual([true, [false]]);
  pass(65);
  expect(told).toEqual([false, true]);
});

test("a run that is taken sets it right", () => {
  const { watch, told, pass } = watched();
  pass(65);
  watch.tookOne();
  expect(watch.stuck).toBe(false);
  pass(60);
  expect(told).toEqual([false]);
});

test("a worker without room, or without anything that waits, is not stuck", () => {
  const full = watched(2);
  full.pass(600);
  expect(full.told).toEqual([]);
  const idle = watched();
  idle.pass(600, 0);
  expect(idle.told).toEqual([]);
});
