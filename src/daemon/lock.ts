/**
 * One daemon per state folder: flock(2) on `kkd.lock`, held for the daemon's life. The kernel frees it however the
 * daemon ends, kill -9 included, so there is no stale lock to judge. bun:ffi because neither Bun (1.4.5) nor node
 * offers flock.
 */
import { dlopen, read, type Pointer } from "bun:ffi";
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  statSync,
  writeSync,
} from "node:fs";
import { fail } from "../core/errors.ts";
import { formatRecord, parseRecord, type DaemonRecord } from "../rpc/find-socket.ts";

const MAC = process.platform === "darwin";
const LOCK_EX = 2;
const LOCK_NB = 4;
const EWOULDBLOCK = MAC ? 35 : 11;
const EINTR = 4;
const ERRNO_LOST = -1;
/** A lock file replaced under us is rare and cheap to try again; for ever would hide something odd. */
const MAX_REPLACED = 10;

export interface DaemonLock {
  /** Tells clients who holds the lock and where it listens. */
  record(socket: string): void;
  /** What the daemon that held the lock last had recorded; null when there was none. */
  readonly previous: DaemonRecord | null;
  /** False once the file was removed or replaced: then this lock excludes nobody who comes now. */
  stillCounts(): boolean;
  /** For tests and a clean end; the kernel does the same. */
  release(): void;
}

/** null when another process holds the lock. Throws `lock-failed` when the file system cannot lock. */
export function takeLock(file: string): DaemonLock | null {
  for (let replaced = 0; replaced < MAX_REPLACED; replaced += 1) {
    // Bun opens close-on-exec (checked in tests): a child that outlives the daemon must not keep the lock.
    const fd = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600);
    const errno = flock(fd);
    if (errno === EWOULDBLOCK) {
      closeSync(fd);
      return null;
    }
    if (errno !== 0) {
      closeSync(fd);
      throw fail(
        "failed",
        "lock-failed",
        `${file} cannot be locked (errno ${errno}): kiki's state must be on a local file system`,
        "set KIKI_PATHS__USER_STATE_DIR to a folder on a local disk",
      );
    }
    // Somebody may have removed the file between open and flock: then this lock excludes nobody.
    if (isAt(fd, file)) return held(fd, file);
    closeSync(fd);
  }
  throw fail("failed", "lock-failed", `${file} is replaced again and again by something else`);
}

function held(fd: number, file: string): DaemonLock {
  const previous = parseRecord(readFileSync(file, "utf8"));
  const record = (socket: string): void => {
    const text = formatRecord({ pid: process.pid, socket });
    ftruncateSync(fd, 0);
    writeSync(fd, text, 0);
  };
  record("");
  return { record, previous, stillCounts: () => isAt(fd, file), release: () => closeSync(fd) };
}

function isAt(fd: number, file: string): boolean {
  const held = fstatSync(fd);
  const there = statSync(file, { throwIfNoEntry: false });
  return there !== undefined && there.ino === held.ino && there.dev === held.dev;
}

type FlockLibrary = { flock(fd: number): number };
let library: FlockLibrary | undefined;

/** 0, or errno. */
function flock(fd: number): number {
  library ??= openLibrary();
  return library.flock(fd);
}

function openLibrary(): FlockLibrary {
  // errno is a function's result under another name on each system.
  const errno = MAC ? "__error" : "__errno_location";
  const symbols = {
    flock: { args: ["int", "int"], returns: "int" },
    [errno]: { args: [], returns: "ptr" },
  } as const;
  const libc = dlopen(MAC ? "libSystem.B.dylib" : "libc.so.6", symbols).symbols as unknown as {
    flock(fd: number, operation: number): number;
  } & Record<string, () => Pointer>;
  return {
    flock(fd) {
      for (;;) {
        if (libc.flock(fd, LOCK_EX | LOCK_NB) === 0) return 0;
        const code = read.i32(libc[errno]!(), 0);
        // A failure whose reason got lost must not read as success.
        if (code !== EINTR) return code === 0 ? ERRNO_LOST : code;
      }
    },
  };
}
