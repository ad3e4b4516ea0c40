const HEADER_BYTES = 8;
const STDERR = 2;

/**
 * Takes an exec's multiplexed stream apart as it comes, and keeps the first `maxBytes` bytes of both outputs
 * together. What is over is counted and dropped: the stream must be read to its end, or the container wedges.
 *
 * @see Docker Engine API, container attach, "Stream format": a header of 8 bytes (stream, 3 zeros, big-endian size).
 */
export class OutputCollector {
  readonly #maxBytes: number;
  readonly #onExceeded: () => void;
  readonly #stdout = new GrowingBuffer();
  readonly #stderr = new GrowingBuffer();
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #stream = 0;
  #frameBytesLeft = 0;
  #kept = 0;
  #exceeded = false;

  /** @param options.onExceeded Called once, at the first byte too many. */
  constructor(options: { readonly maxBytes: number; readonly onExceeded: () => void }) {
    this.#maxBytes = options.maxBytes;
    this.#onExceeded = options.onExceeded;
  }

  /** Whether there was more than was kept. */
  get exceeded(): boolean {
    return this.#exceeded;
  }

  get stdout(): Uint8Array {
    return this.#stdout.bytes();
  }

  get stderr(): Uint8Array {
    return this.#stderr.bytes();
  }

  push(chunk: Uint8Array): void {
    let offset = 0;
    while (offset < chunk.byteLength) {
      if (this.#frameBytesLeft === 0) {
        const take = Math.min(HEADER_BYTES - this.#headerBytes, chunk.byteLength - offset);
        this.#header.set(chunk.subarray(offset, offset + take), this.#headerBytes);
        this.#headerBytes += take;
        offset += take;
        if (this.#headerBytes < HEADER_BYTES) return;
        this.#headerBytes = 0;
        this.#stream = this.#header[0] ?? 0;
        this.#frameBytesLeft = this.#header.readUInt32BE(4);
      } else {
        const take = Math.min(this.#frameBytesLeft, chunk.byteLength - offset);
        this.#keep(chunk.subarray(offset, offset + take));
        this.#frameBytesLeft -= take;
        offset += take;
      }
    }
  }

  #keep(payload: Uint8Array): void {
    const room = this.#maxBytes - this.#kept;
    const kept = payload.byteLength > room ? payload.subarray(0, room) : payload;
    this.#kept += kept.byteLength;
    (this.#stream === STDERR ? this.#stderr : this.#stdout).append(kept);
    if (payload.byteLength > room && !this.#exceeded) {
      this.#exceeded = true;
      this.#onExceeded();
    }
  }
}

/** Bytes in one block that doubles: thousands of one-byte frames cost no object each. */
class GrowingBuffer {
  #block = Buffer.alloc(0);
  #length = 0;

  append(bytes: Uint8Array): void {
    const needed = this.#length + bytes.byteLength;
    if (needed > this.#block.byteLength) {
      const grown = Buffer.alloc(Math.max(needed, this.#block.byteLength * 2, 1_024));
      grown.set(this.#block.subarray(0, this.#length));
      this.#block = grown;
    }
    this.#block.set(bytes, this.#length);
    this.#length = needed;
  }

  bytes(): Uint8Array {
    return this.#block.subarray(0, this.#length);
  }
}
