import fc from "fast-check";
import { expect, it } from "vitest";
import { OutputCollector } from "../../../src/sandbox/docker/output.ts";

interface Frame {
  readonly stream: 1 | 2;
  readonly payload: Uint8Array;
}

const frames = fc.array(
  fc.record({ stream: fc.constantFrom(1 as const, 2 as const), payload: fc.uint8Array({ maxLength: 40 }) }),
  { maxLength: 30 },
);

function encode(list: readonly Frame[]): Buffer {
  return Buffer.concat(
    list.flatMap(({ stream, payload }) => {
      const header = Buffer.alloc(8);
      header[0] = stream;
      header.writeUInt32BE(payload.byteLength, 4);
      return [header, payload];
    }),
  );
}

/** What the collector should keep, said the slow way. */
function expected(list: readonly Frame[], maxBytes: number): { stdout: Buffer; stderr: Buffer; exceeded: boolean } {
  const kept: { stdout: number[]; stderr: number[] } = { stdout: [], stderr: [] };
  let count = 0;
  for (const { stream, payload } of list) {
    for (const byte of payload) {
      count += 1;
      if (count <= maxBytes) (stream === 1 ? kept.stdout : kept.stderr).push(byte);
    }
  }
  return { stdout: Buffer.from(kept.stdout), stderr: Buffer.from(kept.stderr), exceeded: count > maxBytes };
}

it("frames are taken apart alike, however the stream was cut into chunks", () => {
  fc.assert(
    fc.property(frames, fc.nat(300), fc.array(fc.integer({ min: 1, max: 50 })), (list, maxBytes, cuts) => {
      let calls = 0;
      const collector = new OutputCollector({ maxBytes, onExceeded: () => (calls += 1) });
      const bytes = encode(list);
      let offset = 0;
      for (const size of [...cuts, bytes.byteLength]) {
        collector.push(bytes.subarray(offset, offset + size));
        offset += size;
      }
      const { stdout, stderr, exceeded } = expected(list, maxBytes);
      expect(Buffer.from(collector.stdout)).toEqual(stdout);
      expect(Buffer.from(collector.stderr)).toEqual(stderr);
      expect([collector.exceeded, calls]).toEqual([exceeded, exceeded ? 1 : 0]);
    }),
  );
});
