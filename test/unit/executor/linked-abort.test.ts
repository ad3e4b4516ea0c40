import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { linkAbort } from "../../../src/worker/executor/linked-abort.ts";

test("aborts with the other signal, for the same reason", () => {
  const outer = new AbortController();
  const link = linkAbort(outer.signal);
  const reason = new Error("why");
  outer.abort(reason);
  expect(link.signal.reason).toBe(reason);
});

test("is aborted at once where the other signal is", () => {
  const reason = new Error("why");
  expect(linkAbort(AbortSignal.abort(reason)).signal.reason).toBe(reason);
});

test("its own abort comes first and leaves the other signal alone", () => {
  const outer = new AbortController();
  const link = linkAbort(outer.signal);
  const first = new Error("first");
  link.abort(first);
  expect(outer.signal.aborted).toBe(false);
  outer.abort(new Error("second"));
  expect(link.signal.reason).toBe(first);
});

test("leaves no listener on the other signal once it is released, and no longer follows it", () => {
  const outer = new AbortController();
  const link = linkAbort(outer.signal);
  expect(getEventListeners(outer.signal, "abort")).toHaveLength(1);
  link.release();
  link.release();
  expect(getEventListeners(outer.signal, "abort")).toHaveLength(0);
  outer.abort();
  expect(link.signal.aborted).toBe(false);
});
