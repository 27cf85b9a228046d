/**
 * Reading /proc. A process that ends while it is looked at is simply not there (ENOENT, ESRCH); one that does not let
 * itself be looked at (EACCES, EPERM: another user's, or one that made itself undumpable) is told apart from that.
 */
import { closeSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs";

/** It is there, and closed to this user. */
export const DENIED = Symbol("denied");
type Denied = typeof DENIED;
/** There is no such file any more. */
type Absent = null;

/** One buffer for all reads: nothing here is asynchronous. Grows with the largest file seen. */
let buffer = Buffer.alloc(64 * 1024);

/**
 * The bytes of a file of /proc, valid until the next call. `short`: the file is known to be less than a page, which one
 * read returns whole; the read that would only say "no more" is a third of the cost.
 */
function readBytes(path: string, short = false): Buffer | Denied | Absent {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    return isDenied(error) ? DENIED : null;
  }
  try {
    if (short) return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, 0));
    // A file of /proc has no size of its own.
    for (;;) {
      const length = readAll(fd);
      if (length < buffer.length) return buffer.subarray(0, length);
      buffer = Buffer.alloc(buffer.length * 2);
    }
  } catch (error) {
    return isDenied(error) ? DENIED : null;
  } finally {
    closeSync(fd);
  }
}

function readAll(fd: number): number {
  let length = 0;
  while (length < buffer.length) {
    const read = readSync(fd, buffer, length, buffer.length - length, length);
    if (read === 0) break;
    length += read;
  }
  return length;
}

/** Text of a file of /proc. */
export function readProc(path: string): string | Denied | Absent {
  const bytes = readBytes(path);
  return bytes === null || bytes === DENIED ? bytes : bytes.toString("utf8");
}

/** Which of `needles` occurs in a file of /proc; `empty` when there is nothing in it. */
export function searchProc(
  path: string,
  needles: readonly Buffer[],
): "found" | "not-found" | "empty" | Denied | Absent {
  const bytes = readBytes(path);
  if (bytes === null || bytes === DENIED) return bytes;
  if (bytes.length === 0) return "empty";
  return needles.some((needle) => bytes.includes(needle)) ? "found" : "not-found";
}

/** Entries of the environment in `/proc/<…>/environ` are ended by NUL; the first has none before it. */
export function searchEnvironment(
  path: string,
  entries: readonly string[],
): "found" | "not-found" | "empty" | Denied | Absent {
  const bytes = readBytes(path);
  if (bytes === null || bytes === DENIED) return bytes;
  if (bytes.length === 0) return "empty";
  const found = entries.some((entry) => {
    const needle = Buffer.from(`${entry}\0`);
    for (let at = bytes.indexOf(needle); at >= 0; at = bytes.indexOf(needle, at + 1)) {
      if (at === 0 || bytes[at - 1] === 0) return true;
    }
    return false;
  });
  return found ? "found" : "not-found";
}

/** Whether a variable of this name is set in `/proc/<…>/environ`, to anything. */
export function hasVariable(path: string, name: string): boolean | Denied | Absent {
  const bytes = readBytes(path);
  if (bytes === null || bytes === DENIED) return bytes;
  const start = Buffer.from(`${name}=`);
  return bytes.subarray(0, start.length).equals(start) || bytes.includes(Buffer.from(`\0${name}=`));
}

export function readLink(path: string): string | Denied | Absent {
  try {
    return readlinkSync(path);
  } catch (error) {
    return isDenied(error) ? DENIED : null;
  }
}

export function listFolder(path: string): string[] | Denied | Absent {
  try {
    return readdirSync(path);
  } catch (error) {
    return isDenied(error) ? DENIED : null;
  }
}

/** Numbers of all processes, kernel threads included, ascending. Throws when /proc cannot be read. */
export function listPids(): number[] {
  const pids: number[] = [];
  for (const name of readdirSync("/proc")) {
    const first = name.charCodeAt(0);
    if (first >= 48 && first <= 57) pids.push(Number(name));
  }
  return pids;
}

function isDenied(error: unknown): boolean {
  const code = (error as { code?: string }).code;
  return code === "EACCES" || code === "EPERM";
}

// /proc/<pid>/stat -------------------------------------------------------------------------------

/** Fields as proc(5) of man-pages 6.03 numbers them, in brackets. */
export interface Stat {
  /** [2], at most 15 bytes. */
  name: string;
  /** [3] One letter. */
  state: string;
  /** [4], [5], [6] */
  parent: number;
  pgid: number;
  session: number;
  /** [7] Number of the controlling terminal, 0 for none; [8] process group that owns it. */
  tty: number;
  terminalGroup: number;
  /** [9] */
  flags: number;
  /** [20] Threads not yet reaped, a leader that has ended before the others included. */
  threads: number;
  /** [22] */
  startTime: string;
  /** [51] 0 in the middle of an exec, and where it may not be seen. */
  environmentEnd: string;
}

const PF_KTHREAD = 0x0020_0000;

/**
 * null for a file that is not there. The second field is the program's name in parentheses and may hold anything,
 * spaces and parentheses included, so counting starts after the last one.
 */
export function readStat(path: string): Stat | null {
  const bytes = readBytes(path, true);
  if (bytes === null || bytes === DENIED) return null;
  const text = bytes.toString("utf8");
  const end = text.lastIndexOf(")");
  const rest = text.slice(end + 2).split(" ");
  const startTime = rest[19];
  if (end < 0 || startTime === undefined) return null;
  return {
    name: text.slice(text.indexOf("(") + 1, end),
    state: rest[0] ?? "",
    parent: Number(rest[1]),
    pgid: Number(rest[2]),
    session: Number(rest[3]),
    tty: Number(rest[4]),
    terminalGroup: Number(rest[5]),
    flags: Number(rest[6]),
    threads: Number(rest[17]),
    startTime,
    environmentEnd: rest[48] ?? "0",
  };
}

/** A live process of user space, or null. A zombie leader with other threads left still runs. */
export function liveStat(pid: number): Stat | null {
  if (!Number.isInteger(pid) || pid <= 0) return null;
  const stat = readStat(`/proc/${pid}/stat`);
  if (stat === null || (stat.flags & PF_KTHREAD) !== 0) return null;
  return hasEnded(stat.state) && stat.threads <= 1 ? null : stat;
}

/** Z zombie, X or x dead. */
export function hasEnded(state: string): boolean {
  return state === "Z" || state === "X" || state === "x";
}
