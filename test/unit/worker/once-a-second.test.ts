import { expect, test, vi } from "vitest";
import { onceASecond } from "../../../src/worker/once-a-second.ts";

test("each message is passed on at most once a second, with the number of those held back", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  try {
    const told: [string, number][] = [];
    const report = onceASecond((error, more) => void told.push([error.message, more]));
    for (let count = 0; count < 100; count++) report(new Error("refused"));
    report(new Error("another"));
    vi.advanceTimersByTime(1_000);
    report(new Error("refused"));
    expect(told).toEqual([
      ["refused", 0],
      ["another", 0],
      ["refused", 99],
    ]);
  } finally {
    vi.useRealTimers();
  }
});
