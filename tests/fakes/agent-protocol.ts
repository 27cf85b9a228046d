/**
 * What the hooks of a fake agent can reach: the daemon, when it is there, and the thread's folder, which is always
 * there. The agent itself knows nothing of kiki; its hooks do what the launcher and kk-hook do.
 */
import type { HookDecision } from "../../src/core/hook-decision.ts";

/** A hook payload as the harness writes it on standard input. */
export type HookPayload = Readonly<Record<string, unknown>>;

/** A text field of a payload; "" where it has none. */
export function fieldOf(payload: HookPayload, name: string): string {
  const value = payload[name];
  return typeof value === "string" ? value : "";
}

/** The four hook methods of the daemon, with the caller's identity already proved. Throws `DaemonAway`. */
export interface HookDaemon {
  preToolUse(raw: HookPayload): Promise<HookDecision>;
  hold(token: string, signal: AbortSignal): Promise<HookDecision>;
  markDelivered(intentId: string, turn: number, batch: number): Promise<void>;
  event(raw: HookPayload): Promise<void>;
}

/** Nobody took the connection, or it ended before an answer. */
export class DaemonAway extends Error {
  constructor() {
    super("the daemon is away");
    this.name = "DaemonAway";
  }
}

/** The thread's folder, as far as a hook touches it. */
export interface HookDisk {
  /** The barrier marker is there. */
  barred(): boolean;
  /** Creates a `passed/` file and returns its removal. `payload` is null where the launcher alone wrote it. */
  recordPass(payload: HookPayload | null): () => void;
  spool(raw: HookPayload): void;
  log(line: string): void;
}

/** The agent's working folder. Paths are absolute. */
export interface AgentFiles {
  get(path: string): string | null;
  put(path: string, text: string): void;
  remove(path: string): void;
}

interface CascadeLike {
  preToolUse(caller: Caller, raw: unknown): Promise<HookDecision>;
  hold(caller: Caller, token: string, signal: AbortSignal): Promise<HookDecision>;
  markDelivered(caller: Caller, intentId: string, turn: number, batch: number): boolean;
  event(caller: Caller, raw: unknown): Promise<void>;
}
interface Caller {
  threadId: string;
  incarnation: string;
}

/** One life of a daemon. `dead` fires when it is killed: its connections end, whatever they wait for. */
export interface DaemonLife {
  cascade: CascadeLike;
  dead: AbortSignal;
}

/** The daemon's hook methods on a cascade. `life` is asked for every request; null means that nobody is there. */
export function daemonOn(life: () => DaemonLife | null, caller: Caller): HookDaemon {
  /** An answer of a daemon that has died meanwhile never arrives. */
  const answered = <T>(ask: (cascade: CascadeLike) => Promise<T> | T): Promise<T> => {
    const now = life();
    if (now === null) return Promise.reject(new DaemonAway());
    return new Promise<T>((resolve, reject) => {
      const ended = (): void => reject(new DaemonAway());
      now.dead.addEventListener("abort", ended, { once: true });
      Promise.resolve(ask(now.cascade))
        .then(resolve, reject)
        .finally(() => now.dead.removeEventListener("abort", ended));
    });
  };
  return {
    preToolUse: (raw) => answered((c) => c.preToolUse(caller, structuredClone(raw))),
    hold: (token, signal) => answered((c) => c.hold(caller, token, signal)),
    markDelivered: (intentId, turn, batch) =>
      answered((c) => void c.markDelivered(caller, intentId, turn, batch)),
    event: (raw) => answered((c) => c.event(caller, structuredClone(raw))),
  };
}

interface DiskFiles {
  writeDurable(path: string, text: string, mode: number): void;
  removeDurable(path: string): void;
  ensureDir(path: string, mode: number): void;
  listDir(path: string): string[];
  readText(path: string): string | null;
}

const TIME_DIGITS = 15;

/** The folder's files by the names the real hook gives them. `now` is the wall clock, which names spooled events. */
export function diskOn(
  files: DiskFiles,
  paths: { passed: string; spool: string; barrier: string; errorLog: string },
  incarnation: string,
  now: () => number,
): HookDisk {
  // A hook's process id: used in names only, never twice by one agent.
  let pid = 100;
  const write = (folder: string, name: string, text: string): string => {
    files.ensureDir(folder, 0o700);
    const path = `${folder}/${name}`;
    if (files.readText(path) !== null) throw new Error(`${path} exists already`);
    files.writeDurable(path, text, 0o600);
    return path;
  };
  return {
    barred: () => files.readText(paths.barrier) !== null,
    recordPass(payload) {
      pid += 1;
      const text = payload === null ? "" : JSON.stringify(payload);
      const path = write(paths.passed, `${incarnation}.${pid}`, text);
      return () => files.removeDurable(path);
    },
    spool(event) {
      pid += 1;
      const time = String(now()).padStart(TIME_DIGITS, "0");
      const entry = { incarnation, secret: "", event };
      write(paths.spool, `${time}-${pid}-0.json`, `${JSON.stringify(entry)}\n`);
    },
    log(line) {
      const before = files.readText(paths.errorLog) ?? "";
      files.ensureDir(paths.errorLog.slice(0, paths.errorLog.lastIndexOf("/")), 0o700);
      files.writeDurable(paths.errorLog, `${before}${line}\n`, 0o600);
    },
  };
}
