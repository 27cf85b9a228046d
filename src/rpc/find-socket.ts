/** The client's view of a daemon that runs, or ran: its lock file and its socket. */
import { readFileSync, realpathSync } from "node:fs";
import { statePaths } from "../core/paths.ts";
import { socketIsInside, socketName, socketPath } from "./socket-path.ts";

/** What the holder of `kkd.lock` writes into it: `<pid>\n<socket>\n`. A hint; only the lock itself proves anything. */
export interface DaemonRecord {
  pid: number;
  /** "" until the daemon has bound it. */
  socket: string;
}

export function formatRecord(record: DaemonRecord): string {
  return `${record.pid}\n${record.socket}\n`;
}

/** null when no daemon ever ran on this state folder, or the file makes no sense. */
export function readRecord(stateDir: string): DaemonRecord | null {
  try {
    return parseRecord(readFileSync(statePaths(stateDir).lock, "utf8"));
  } catch {
    return null;
  }
}

export function parseRecord(text: string): DaemonRecord | null {
  const [pid = "", socket = ""] = text.split("\n");
  return /^[1-9]\d*$/.test(pid) ? { pid: Number(pid), socket } : null;
}

/**
 * Path of the daemon's socket for `stateDir`, whether or not a daemon runs. Outside the state folder the path depends
 * on XDG_RUNTIME_DIR, which differs between a desktop, ssh and cron; there the daemon's record wins, so that all of
 * them, and hooks of agents started before a daemon's restart, meet at one socket.
 */
export function findSocket(stateDir: string, runtimeDir: string | undefined): string {
  const resolved = resolveFolder(stateDir);
  if (!socketIsInside(resolved)) {
    const recorded = readRecord(resolved)?.socket ?? "";
    if (recorded.startsWith("/") && recorded.endsWith(`/${socketName(resolved)}`)) return recorded;
  }
  return socketPath(resolved, runtimeDir, process.getuid?.() ?? 0);
}

/** One spelling per folder. A folder that is not there yet keeps the spelling it has. */
export function resolveFolder(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path.length > 1 ? path.replace(/\/+$/, "") : path;
  }
}
