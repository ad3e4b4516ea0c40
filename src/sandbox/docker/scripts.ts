import type { WorkspaceEntry } from "../backend.ts";
import { MAX_PATH_DEPTH, WORKSPACE_ROOT } from "../workspace-path.ts";

/** Something of the workload was still alive, or no process could be made: try again. */
export const STILL_BUSY = 75;
/** The files did not fit; none of them is there. */
export const NOT_WRITTEN = 73;
/** The path is no regular file. */
export const NOT_REGULAR = 66;

/**
 * What every listing prints: each path with a NUL after it, an empty one, then a line of mode and size for each
 * path in the same order, then the cgroup's out-of-memory counter (cgroup v1 or v2, whichever is there).
 */
const LIST = `
find ${WORKSPACE_ROOT} -mindepth 1 -maxdepth ${MAX_PATH_DEPTH} -print0 || exit ${STILL_BUSY}
printf '\\0'
find ${WORKSPACE_ROOT} -mindepth 1 -maxdepth ${MAX_PATH_DEPTH} -exec stat -c '%f %s' {} + 2>/dev/null
cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null
exit 0`;

/** The init, the time limit and the tether of PID 1, and the asking shell itself. */
const QUIET_PROCESSES = 4;

/**
 * Ends every process of the workload but itself, until none is left, then lists. Its loop needs no fork, so that
 * it works in a container whose process limit is used up. Directories and files that a command locked are opened again.
 *
 * What is left is counted in /proc: `kill` reports success as long as the holder's processes are there, which it
 * may not touch.
 */
export const SETTLE_SCRIPT = `
n=0
while kill -KILL -1 2>/dev/null; set -- /proc/[0-9]*; [ "$#" -gt ${QUIET_PROCESSES} ]; do
  n=$((n+1))
  [ "$n" -lt 1000 ] || exit ${STILL_BUSY}
done
find ${WORKSPACE_ROOT} -mindepth 1 -maxdepth ${MAX_PATH_DEPTH} \\( -type d ! -perm -700 -o -type f ! -perm -600 \\) \\
  -exec chmod u+rwX {} \\; 2>/dev/null
${LIST}`;

/**
 * Unpacks the archive on stdin, then lists. Arguments: the paths that are new, \`//\`, then pairs of a temporary
 * path and the existing file whose place it takes. If anything does not fit, none of them stays.
 */
export const WRITE_SCRIPT = `
umask 022
cd ${WORKSPACE_ROOT} || exit ${STILL_BUSY}
failed=
tar -xf - 2>/dev/null || failed=1
while [ "$1" != // ]; do
  [ -z "$failed" ] || rm -f -- "$1"
  shift
done
shift
while [ "$#" -gt 0 ]; do
  if [ -z "$failed" ]; then
    [ ! -x "$2" ] || chmod a+x -- "$1"
    mv -fT -- "$1" "$2" || failed=1
  fi
  [ -z "$failed" ] || rm -f -- "$1"
  shift 2
done
[ -z "$failed" ] || exit ${NOT_WRITTEN}
${LIST}`;

/** Prints a range of a regular file. Arguments: absolute path, first byte (from 1), number of bytes. */
export const READ_SCRIPT = `
[ -f "$1" ] && [ ! -L "$1" ] || exit ${NOT_REGULAR}
if [ "$2" = 1 ]; then exec head -c "$3" "$1"; fi
tail -c "+$2" "$1" | head -c "$3"`;

/** Whether a program can be run from the workspace. Arguments: its name, a search path. */
export const RUNNABLE_SCRIPT = `
case "$1" in */*) [ -f "$1" ] && [ -x "$1" ]; exit ;; esac
IFS=:
for directory in $2; do
  [ -f "$directory/$1" ] && [ -x "$directory/$1" ] && exit 0
done
exit 1`;

/** A listing, read. */
export interface Listing {
  readonly entries: readonly WorkspaceEntry[];
  /** How often the kernel has killed for memory in this container; 0 where it keeps no such count. */
  readonly oomKills: number;
}

/** A directory above this path length could hold entries whose path is too long to be listed. */
const MAX_DIRECTORY_BYTES = 3_800;
const MAX_LISTED_BYTES = 4_095;
const FILE_TYPE_MASK = 0o170000;
const REGULAR = 0o100000;
const DIRECTORY = 0o040000;

/**
 * Reads what the listing scripts print.
 *
 * A name that is not UTF-8, a directory as deep as listings go, and one with an overlong path are `special`: what
 * they hold could not be told.
 *
 * @returns undefined where names and figures do not match: the listing is of no use.
 */
export function parseListing(printed: Uint8Array): Listing | undefined {
  const bytes = Buffer.from(printed.buffer, printed.byteOffset, printed.byteLength);
  const end = bytes.at(0) === 0 ? 0 : bytes.indexOf("\0\0") + 1;
  if (bytes.length === 0 || (end === 0 && bytes.at(0) !== 0)) return undefined;
  const paths = splitAtNul(bytes.subarray(0, end));
  const lines = bytes
    .subarray(end + 1)
    .toString("latin1")
    .split("\n");
  const figures = lines.map((line) => /^([0-9a-f]+) (\d+)$/u.exec(line)).filter((match) => match !== null);
  const entries: WorkspaceEntry[] = [];
  let next = 0;
  for (const path of paths) {
    const match = path.byteLength > MAX_LISTED_BYTES ? undefined : figures[next++];
    if (match === undefined && path.byteLength <= MAX_LISTED_BYTES) return undefined;
    entries.push(
      toEntry(path, match === undefined ? undefined : { mode: parseInt(match[1] ?? "", 16), size: Number(match[2]) }),
    );
  }
  if (next !== figures.length) return undefined;
  const counters = lines.map((line) => /^oom_kill (\d+)$/u.exec(line)?.[1]).filter((count) => count !== undefined);
  return { entries, oomKills: Number(counters[0] ?? 0) };
}

function toEntry(path: Buffer, figures: { readonly mode: number; readonly size: number } | undefined): WorkspaceEntry {
  const relative = path.subarray(WORKSPACE_ROOT.length + 1);
  const name = relative.toString("utf8");
  const special = { path: name, kind: "special", size: figures?.size ?? 0 } as const;
  if (figures === undefined || !relative.equals(Buffer.from(name))) return special;
  const type = figures.mode & FILE_TYPE_MASK;
  if (type === REGULAR) return { path: name, kind: "file", size: figures.size };
  const isListable = path.byteLength <= MAX_DIRECTORY_BYTES && name.split("/").length < MAX_PATH_DEPTH;
  return type === DIRECTORY && isListable ? { path: name, kind: "directory", size: 0 } : special;
}

function splitAtNul(bytes: Buffer): readonly Buffer[] {
  const parts: Buffer[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = bytes.indexOf(0, from);
    parts.push(bytes.subarray(from, to));
    from = to + 1;
  }
  return parts;
}
