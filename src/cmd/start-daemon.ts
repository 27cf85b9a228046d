/**
 * Starting the daemon, for clients that find none.
 *
 * A process started with `detached` stays a child of its live starter (Bun 1.4.5), and one started from a pane would
 * be found among the pane's descendants, which kiki may stop. So the client starts an intermediate
 * (`kk __start-daemon`), that starts kkd and ends, and kkd serves only when its parent has gone.
 */
import { closeSync, mkdirSync, openSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { daemonEnv } from "../core/daemon-env.ts";
import { fail, type KikiError } from "../core/errors.ts";
import { statePaths } from "../core/paths.ts";
import { stateRoot } from "../core/state-root.ts";
import { STATUS_BY_KIND } from "../rpc/contract/wire.ts";
import { findSocket, readRecord, resolveFolder } from "../rpc/find-socket.ts";
import { ensurePrivateFolder } from "../rpc/private-folder.ts";
import { BUILD } from "../version.ts";
import { isAlive } from "./alive.ts";

/** From a start to an answer on the socket. */
export const START_TIMEOUT_MS = 5_000;
/** The daemon before may be finishing its work; it bounds its drain below this. */
const DRAIN_TIMEOUT_MS = 25_000;
const PROBE_TIMEOUT_MS = 1_000;
const POLL_MS = 20;
/** After kkd has ended without an answer and nobody else holds the lock: time for a racing winner to show up. */
const ORPHAN_GRACE_MS = 500;

export interface StartRequest {
  stateDir: string;
  /** argv of the intermediate, for tests; it gets `--state-dir <dir>` and prints kkd's pid. */
  starter?: readonly string[];
}

/**
 * Resolves with the socket once a daemon answers on it; starts one when none does. Racing calls end up with the same
 * daemon, and one that is stopping is waited for. Throws `daemon-start-failed` with the last line of the daemon's log.
 */
export async function startDaemon(request: StartRequest): Promise<{ socket: string }> {
  ensurePrivateFolder(request.stateDir);
  const stateDir = resolveFolder(request.stateDir);
  const log = statePaths(stateDir).log;
  const giveUp = performance.now() + DRAIN_TIMEOUT_MS;
  for (;;) {
    let daemon = await look(stateDir);
    while (daemon.state === "stopping" && performance.now() < giveUp) {
      await Bun.sleep(POLL_MS);
      daemon = await look(stateDir);
    }
    if (daemon.state === "serving") return { socket: daemon.socket };
    const logged = statSync(log, { throwIfNoEntry: false })?.size ?? 0;
    const started = await startOnce(stateDir, request.starter ?? selfCommand(["__start-daemon"]));
    if (started.outcome === "serving") return { socket: started.socket };
    // Ours gave way to a daemon that was on its way out: its turn now.
    if (started.outcome === "holder-left" && performance.now() < giveUp) continue;
    throw startFailed(log, logged, started.outcome === "ended");
  }
}

type Started =
  | { outcome: "serving"; socket: string }
  /** kkd has ended and nobody else is there. `holder-left`: somebody was. */
  | { outcome: "ended" | "holder-left" | "too-slow" };

async function startOnce(stateDir: string, starter: readonly string[]): Promise<Started> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  const pid = await runStarter(starter, stateDir);
  let lonelySince: number | null = null;
  let sawHolder = false;
  for (;;) {
    const daemon = await look(stateDir);
    if (daemon.state === "serving") return { outcome: "serving", socket: daemon.socket };
    const now = performance.now();
    const holder = otherHolder(stateDir, pid);
    sawHolder ||= holder;
    if (holder || isAlive(pid)) lonelySince = null;
    else lonelySince ??= now;
    if (lonelySince !== null && now - lonelySince > ORPHAN_GRACE_MS) {
      return { outcome: sawHolder ? "holder-left" : "ended" };
    }
    if (now >= deadline) return { outcome: sawHolder ? "holder-left" : "too-slow" };
    await Bun.sleep(POLL_MS);
  }
}

function startFailed(log: string, logged: number, ended: boolean): KikiError {
  const last = logSince(log, logged).findLast((line) => line.trim() !== "");
  const what = ended ? "ended at once" : `did not answer within ${START_TIMEOUT_MS / 1000} s`;
  return fail(
    "daemonUnavailable",
    "daemon-start-failed",
    `the daemon ${what}: ${last?.trim() ?? "it wrote nothing to its log"}`,
    `see ${log}`,
  );
}

/** Runs the intermediate to its end; the pid of the kkd it started. */
async function runStarter(command: readonly string[], stateDir: string): Promise<number> {
  const child = Bun.spawn([...command, "--state-dir", stateDir], {
    ...commandOptions("kk"),
    cwd: "/",
    // A session of its own: a Ctrl-C at the client must not end it half-way.
    detached: true,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: START_TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  const [out, err] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  const pid = Number(out.trim());
  if (child.exitCode === 0 && pid > 0) return pid;
  const why = err.trim().split("\n").at(-1) || `exit ${child.exitCode ?? child.signalCode}`;
  throw fail(
    "daemonUnavailable",
    "daemon-start-failed",
    `the daemon could not be started: ${why}`,
    `see ${statePaths(stateDir).log}`,
  );
}

// The intermediate -------------------------------------------------------------------------------

/** `kk __start-daemon [--state-dir D]`: starts kkd, prints its pid and returns. */
export function runStartDaemon(args: readonly string[]): number {
  const at = args.indexOf("--state-dir");
  const stateDir = (at < 0 ? undefined : args[at + 1]) ?? stateRoot(process.env);
  if (stateDir === null) throw fail("usage", "state-dir", "kk __start-daemon needs --state-dir");
  console.log(String(launchDaemon(stateDir, selfCommand([]))));
  return 0;
}

/**
 * Starts `command` as a daemon on `stateDir`: own session, allow-listed environment, output to the log. Returns its
 * pid; the caller must end, see above.
 */
export function launchDaemon(stateDir: string, command: readonly string[]): number {
  ensurePrivateFolder(stateDir);
  const folder = resolveFolder(stateDir);
  const tmp = join(folder, "tmp");
  mkdirSync(tmp, { recursive: true, mode: 0o700 });
  const log = openSync(statePaths(folder).log, "a", 0o600);
  try {
    const options = commandOptions("kkd");
    const child = Bun.spawn([...command], {
      argv0: options.argv0,
      cwd: folder,
      env: {
        ...daemonEnv(process.env),
        ...options.env,
        KIKI_PATHS__USER_STATE_DIR: folder,
        KIKI_STARTER_PID: String(process.pid),
        // Bun unpacks native modules there (facts, Bun §3); /tmp may be noexec, or swept while the daemon runs.
        BUN_TMPDIR: tmp,
      },
      detached: true,
      stdio: ["ignore", log, log],
    });
    child.unref();
    return child.pid;
  } finally {
    closeSync(log);
  }
}

// This program itself: compiled, argv[0] selects what it is; from the sources, main.ts and KIKI_AS do.
const COMPILED = BUILD !== "dev";

function selfCommand(args: readonly string[]): string[] {
  const main = COMPILED ? [] : [join(import.meta.dir, "..", "main.ts")];
  return [process.execPath, ...main, ...args];
}

function commandOptions(as: "kk" | "kkd"): { argv0: string; env: Record<string, string> } {
  const env: Record<string, string> = as === "kk" ? inherited() : {};
  return COMPILED ? { argv0: as, env } : { argv0: process.execPath, env: { ...env, KIKI_AS: as } };
}

function inherited(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );
}

// Looking ----------------------------------------------------------------------------------------

/** What is on the socket now. Where that is, is looked up each time: outside the state folder the daemon's record tells. */
async function look(
  stateDir: string,
): Promise<{ state: "serving" | "stopping" | "absent"; socket: string }> {
  const socket = findSocket(stateDir, process.env["XDG_RUNTIME_DIR"]);
  try {
    const response = await fetch("http://kiki/v1/DaemonStatus", {
      method: "POST",
      unix: socket,
      headers: { "content-type": "application/json" },
      body: "{}",
      signal: AbortSignal.timeout(PROBE_TIMEOUT_MS),
    });
    await response.arrayBuffer();
    // Any other status is a daemon that serves; what it says is the caller's business.
    return {
      state: response.status === STATUS_BY_KIND.daemonUnavailable ? "stopping" : "serving",
      socket,
    };
  } catch {
    return { state: "absent", socket };
  }
}

/** Another daemon has the lock and will serve: ours ended because of it. */
function otherHolder(stateDir: string, pid: number): boolean {
  const holder = readRecord(stateDir)?.pid;
  return holder !== undefined && holder !== pid && isAlive(holder);
}

/** Lines written after the file had `size` bytes. */
function logSince(file: string, size: number): string[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch {
    return [];
  }
  // Shorter than before: it was rotated meanwhile.
  return bytes
    .subarray(bytes.length < size ? 0 : size)
    .toString("utf8")
    .split("\n");
}
