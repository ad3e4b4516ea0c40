/** One regular file of an archive. The path is UTF-8, relative, and may have any length. */
export interface ArchiveFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly executable: boolean;
}

const BLOCK = 512;
const NAME_BYTES = 100;

/**
 * Makes a tar archive of regular files and nothing else: no directories, links or devices can be in it.
 *
 * Long names are given in GNU form, the one that GNU tar and busybox both read.
 *
 * @param modifiedAtSeconds The time of every file, seconds since the epoch.
 */
export function buildArchive(files: readonly ArchiveFile[], modifiedAtSeconds: number): Uint8Array {
  const blocks: Uint8Array[] = [];
  for (const { path, bytes, executable } of files) {
    const name = Buffer.from(path);
    if (name.byteLength > NAME_BYTES) {
      const longName = Buffer.concat([name, Buffer.alloc(1)]);
      const header = { name: Buffer.from("././@LongLink"), mode: 0o644, size: longName.byteLength, type: "L" };
      blocks.push(toHeader({ ...header, modifiedAtSeconds }), longName, padding(longName));
    }
    const header = {
      name: name.subarray(0, NAME_BYTES),
      mode: executable ? 0o755 : 0o644,
      size: bytes.byteLength,
      type: "0",
    };
    blocks.push(toHeader({ ...header, modifiedAtSeconds }), bytes, padding(bytes));
  }
  blocks.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(blocks);
}

interface Header {
  readonly name: Uint8Array;
  readonly mode: number;
  readonly size: number;
  readonly type: string;
  readonly modifiedAtSeconds: number;
}

/** @see GNU tar manual, "Basic Tar Format". */
function toHeader({ name, mode, size, type, modifiedAtSeconds }: Header): Uint8Array {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, "0");
  block.set(name, 0);
  block.write(octal(mode, 7), 100);
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(size, 11), 124);
  block.write(octal(modifiedAtSeconds, 11), 136);
  block.write("        ", 148);
  block.write(type, 156);
  block.write("ustar  \0", 257);
  const checksum = block.reduce((sum, byte) => sum + byte, 0);
  block.write(`${octal(checksum, 6)}\0 `, 148);
  return block;
}

function padding(bytes: Uint8Array): Uint8Array {
  return Buffer.alloc((BLOCK - (bytes.byteLength % BLOCK)) % BLOCK);
}

/** Their paths are arguments of one command. */
const FILES_PER_BATCH = 200;
const BYTES_PER_BATCH = 32_000_000;

/** Cuts files into batches of at most 200 files and 32 MB, in their order; a larger file has one of its own. */
export function toBatches<F extends { readonly bytes: Uint8Array }>(files: readonly F[]): readonly (readonly F[])[] {
  const batches: F[][] = [];
  let bytes = 0;
  for (const file of files) {
    const last = batches.at(-1);
    if (last === undefined || last.length === FILES_PER_BATCH || bytes + file.bytes.byteLength > BYTES_PER_BATCH) {
      batches.push([file]);
      bytes = 0;
    } else last.push(file);
    bytes += file.bytes.byteLength;
  }
  return batches;
}
