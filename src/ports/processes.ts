/** Facts about processes of this user, and the signals kiki sends them. */
import type { ProcessFacts, ProcessIdentity } from "../core/process-tree.ts";

export type { ProcessIdentity } from "../core/process-tree.ts";

export interface ProcessSample {
  processes: ProcessFacts[];
  /**
   * False where the system cannot show what a proof needs (no /proc): the list is then only what is known, and
   * nothing may be concluded from what is missing in it.
   */
  complete: boolean;
}

/**
 * `stopped`: no thread of it can run a further instruction of its own until somebody continues it. `traced`: halted by
 * a debugger, which alone can let it go on.
 */
export type RunState = "gone" | "running" | "stopped" | "traced";

export interface Observation {
  state: RunState;
  /** Pid of the debugger of a `traced` process. */
  tracer: number | null;
}

/** One way a process keeps a folder in use. */
export interface Hold {
  kind: "cwd" | "root" | "map" | "descriptor";
  /** As the kernel shows it to kiki; may end in ` (deleted)`. */
  path: string;
}

export interface Holder extends ProcessIdentity {
  name: string;
  /** At least one, at most `MAX_HOLDS`. */
  holds: Hold[];
}

export const MAX_HOLDS = 8;

export interface HolderReport {
  holders: Holder[];
  /** Same-user processes that do not let themselves be looked at: whether they hold the folder is unknown. */
  unreadable: (ProcessIdentity & { name: string })[];
  /** False where the system cannot enumerate: `holders` is then a part of the truth. */
  complete: boolean;
}

/** The first two hold a process still and let it go on; the others end what kiki itself has started. */
export type ProcessSignal = "SIGSTOP" | "SIGCONT" | "SIGTERM" | "SIGKILL";

export interface Processes {
  /** null when no such process. A zombie is none. */
  identify(pid: number): ProcessIdentity | null;
  parentOf(pid: number): number | null;
  /** Identities of processes whose argument vector contains `text`; used to await kiki's own surviving jj. */
  withArgument(text: string): ProcessIdentity[];

  /**
   * Every process once, those forked while it was looked included. `marks` are whole entries of an environment
   * (`KIKI_INCARNATION=<id>`); a process that has one of them is `marked`. Not one instant: processes may have begun,
   * ended or moved when it returns. Throws when the process table cannot be read at all.
   */
  sample(marks: readonly string[]): ProcessSample;
  /** null when it cannot be read, or the process is gone. */
  argvOf(process: ProcessIdentity): string[] | null;
  observe(process: ProcessIdentity): Observation;
  /**
   * Sends to exactly this process, never to another one that has its number now. `gone`: nobody was signalled.
   * `refused`: not ours to signal.
   */
  signal(process: ProcessIdentity, signal: ProcessSignal): "sent" | "gone" | "refused";
  /** Lock files of jj and git (core/freeze.ts, `isLockFile`) it has open; null when it cannot be read. */
  openLocks(process: ProcessIdentity): string[] | null;
  /**
   * Same-user processes with working directory, root, a mapped file or an open descriptor in `folder` or below,
   * through symbolic links and bind mounts, kiki's own included. Not seen: descriptors in flight over a socket.
   */
  holders(folder: string): Promise<HolderReport>;
}
