/** From a command to the daemon: where it is, who asks, starting it when nobody is there, replacing an old one. */
import { lstatSync, statSync } from "node:fs";
import { fail, KikiError } from "../core/errors.ts";
import { stateRoot } from "../core/state-root.ts";
import { daemonIs } from "../core/version-order.ts";
import type { Client } from "../rpc/client.ts";
import type { Output } from "../rpc/contract/methods.ts";
import { findSocket } from "../rpc/find-socket.ts";
import { BUILD, VERSION } from "../version.ts";
import { isAlive } from "./alive.ts";
import { clientFor, clientWith } from "./credentials.ts";
import { note } from "./out.ts";
import { startDaemon } from "./start-daemon.ts";

export type DaemonStatus = Output<"DaemonStatus">;

export interface Connection {
  client: Client;
  daemon: DaemonStatus;
  stateDir: string;
}

const STATUS_TIMEOUT_MS = 5_000;
/** The daemon drains for a bounded time and then exits; this is above that bound. */
const EXIT_TIMEOUT_MS = 20_000;
const POLL_MS = 25;

/** Absolute state root. Throws KikiError `state-dir`. */
export function stateDir(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const root = stateRoot(env);
  if (root !== null) return root;
  throw fail(
    "usage",
    "state-dir",
    "kiki cannot tell where its state is: HOME is not set, or the state folder is not an absolute path",
    "set HOME, or KIKI_PATHS__USER_STATE_DIR to an absolute path",
  );
}

/** Connects, starting or replacing the daemon as needed. Throws KikiError of kind daemonUnavailable. */
export async function connect(): Promise<Connection> {
  const dir = stateDir();
  let daemon = await runningDaemon(dir);
  if (daemon === null) {
    refuseBlockedSocket(dir);
    await startDaemon({ stateDir: dir });
    daemon = await mustRun(dir);
  } else if (isOlder(daemon)) {
    const old = daemon;
    await stopDaemon(dir, old, `replaced by ${VERSION}`);
    await startDaemon({ stateDir: dir });
    daemon = await mustRun(dir);
    note(replacement(old, daemon));
  }
  return { client: clientFor(dir), daemon, stateDir: dir };
}

/** The daemon that answers on this state root; null when nobody does. A socket that answers nonsense is an error. */
export async function runningDaemon(dir: string): Promise<DaemonStatus | null> {
  try {
    return await anonymous(dir).call("DaemonStatus", {}, { timeoutMs: STATUS_TIMEOUT_MS });
  } catch (error) {
    const code = error instanceof KikiError ? error.code : "";
    // A stopping daemon is as good as gone: starting one waits for its lock.
    if (code === "daemon-unreachable" || code === "daemon-stopping") return null;
    throw error;
  }
}

/**
 * Asks exactly this daemon to drain and exit, and waits until its process is gone, and with it the lock. Somebody
 * else's replacement of it in the meantime is left alone.
 */
export async function stopDaemon(dir: string, daemon: DaemonStatus, reason: string): Promise<void> {
  try {
    await anonymous(dir).call(
      "DaemonShutdown",
      { reason, pid: daemon.pid },
      { timeoutMs: STATUS_TIMEOUT_MS },
    );
  } catch (error) {
    if (!(error instanceof KikiError) || error.kind !== "daemonUnavailable") throw error;
  }
  const deadline = performance.now() + EXIT_TIMEOUT_MS;
  while (isAlive(daemon.pid)) {
    if (performance.now() > deadline) {
      throw fail(
        "daemonUnavailable",
        "daemon-stuck",
        `daemon ${daemon.pid} did not end within ${EXIT_TIMEOUT_MS / 1000} s`,
        `look at kk daemon logs; end it with: kill ${daemon.pid}`,
      );
    }
    await Bun.sleep(POLL_MS);
  }
}

/** Something else in the socket's place would only show as a daemon that never answers. */
function refuseBlockedSocket(dir: string): void {
  const socket = findSocket(dir, process.env["XDG_RUNTIME_DIR"]);
  const there = lstatSync(socket, { throwIfNoEntry: false });
  if (there === undefined || there.isSocket()) return;
  throw fail(
    "daemonUnavailable",
    "socket-blocked",
    `${socket} is ${there.isDirectory() ? "a folder" : "a file"}, where the daemon's socket has to be`,
    "move it away and try again",
  );
}

async function mustRun(dir: string): Promise<DaemonStatus> {
  const daemon = await runningDaemon(dir);
  if (daemon !== null) return daemon;
  throw fail(
    "daemonUnavailable",
    "daemon-start",
    "the daemon was started but does not answer",
    "kk daemon logs",
  );
}

function anonymous(dir: string): Client {
  return clientWith(dir, null);
}

function isOlder(daemon: DaemonStatus): boolean {
  return (
    daemonIs(
      { version: daemon.version, build: daemon.build, startedAt: Date.parse(daemon.startedAt) },
      { version: VERSION, build: BUILD, installedAt: installedAt(), now: Date.now() },
    ) === "older"
  );
}

/** When this program's file was put where it is. */
function installedAt(): number | null {
  try {
    const { mtimeMs, ctimeMs } = statSync(process.execPath);
    // A copy may keep the old modification time; the inode change is then the installation.
    return Math.max(mtimeMs, ctimeMs);
  } catch {
    return null;
  }
}

/** Builds are named only where the versions do not tell the two apart. */
function replacement(old: DaemonStatus, current: DaemonStatus): string {
  const same = old.version === current.version;
  const label = (d: DaemonStatus): string => (same ? `${d.version} (${d.build})` : d.version);
  return `daemon ${label(old)} replaced by ${label(current)}`;
}
