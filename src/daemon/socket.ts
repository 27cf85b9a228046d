/** The daemon's socket: chosen, made safe and cleared of a dead daemon's remains. Only the lock's holder comes here. */
import { lstatSync, unlinkSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { fail } from "../core/errors.ts";
import { ensurePrivateFolder } from "../rpc/private-folder.ts";
import { socketIsInside, socketName, socketPath } from "../rpc/socket-path.ts";

export interface SocketRequest {
  /** Absolute and resolved. */
  stateDir: string;
  /** `$XDG_RUNTIME_DIR` */
  runtimeDir: string | undefined;
  uid: number;
  /** Where the daemon before listened (`DaemonLock.previous`): hooks of running agents know that path. "" if none. */
  recorded: string;
}

/**
 * Path to bind, with nothing in its place and a folder around it that only this user may enter. Throws
 * `socket-blocked` when something that is not a socket of this user is in the way, `folder-unsafe` for the folder.
 */
export function prepareSocket(request: SocketRequest): string {
  const path = choose(request);
  const folder = dirname(path);
  const shared = folder !== request.stateDir;
  ensurePrivateFolder(folder, { noLink: shared });
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return path;
  if (!there.isSocket() || there.uid !== request.uid) {
    throw fail(
      "failed",
      "socket-blocked",
      `${path} is ${kindOf(there)}, where kiki's socket has to be`,
      "move it away and try again",
    );
  }
  // The lock is ours, so whoever listened here has ended.
  unlinkSync(path);
  return path;
}

/** Device and inode of what is at `path` itself; null when nothing is, or nobody can tell. */
export function identityOf(path: string): string | null {
  try {
    const { dev, ino } = lstatSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return null;
  }
}

function choose(request: SocketRequest): string {
  const { stateDir, recorded, runtimeDir, uid } = request;
  if (!socketIsInside(stateDir) && recorded.endsWith(`/${socketName(stateDir)}`)) {
    const info = lstatSync(dirname(recorded), { throwIfNoEntry: false });
    if (info?.isDirectory() && info.uid === uid) return recorded;
  }
  return socketPath(stateDir, runtimeDir, uid);
}

function kindOf(info: Stats): string {
  if (info.isDirectory()) return "a folder";
  if (info.isSymbolicLink()) return "a symbolic link";
  if (info.isSocket()) return `a socket of user ${info.uid}`;
  return "a file of another kind";
}

const OWNER_ONLY_UMASK = 0o177;

/** Runs `bind` so that the socket it makes is 0600 from its first moment; a chmod afterwards would be too late. */
export function bindPrivately<T>(bind: () => T): T {
  const before = process.umask(OWNER_ONLY_UMASK);
  try {
    return bind();
  } finally {
    process.umask(before);
  }
}
