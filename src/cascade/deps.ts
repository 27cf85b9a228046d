/** What the cascade needs from the world, as one plain object. */
import type { IntentCrashPoint } from "../core/intent.ts";
import type { SerialQueues } from "../core/serial-queue.ts";
import type { Clock } from "../ports/clock.ts";
import type { FsEvents } from "../ports/fs-events.ts";
import type { Harness, HarnessName } from "../ports/harness.ts";
import type { Ids } from "../ports/ids.ts";
import type { JjRepo } from "../ports/jj.ts";
import type { Log } from "../ports/log.ts";
import type { Processes } from "../ports/processes.ts";
import type { Db } from "../store/db.ts";

/** Durable file work, and second names of files, handed in because only backends may touch the disk. */
export interface CascadeFiles {
  writeDurable(path: string, bytes: string | Uint8Array, mode: number): void;
  /** A file that is not there is success. */
  removeDurable(path: string): void;
  ensureDir(path: string, mode: number): void;
  /** Names in a folder, sorted; empty when the folder does not exist. */
  listDir(path: string): string[];
  readText(path: string): string | null;
  /**
   * Durable byte copy (parents made; a symlink stays a symlink, an executable one executable). Returns the SHA-256 of
   * the content (of the target's text for a symlink), or null when the source is not there. `from` may be raw bytes.
   */
  copyInto(from: string | Uint8Array, to: string): string | null;
  /** SHA-256 as `copyInto` would give it; null when there is no file. */
  sha256(path: string): string | null;
  /** When a file, not what a link leads to, was last changed in any way: milliseconds of the wall clock; null: not there. */
  changedAt(path: string): number | null;
  /**
   * What changes when a file, or symlink, is written into, and when another one takes its name; `recent`: it was last
   * written so short a time ago that the next write may leave the same. null: there is neither.
   */
  stamp(path: string): { text: string; recent: boolean } | null;
  /** A second name for a file, parents made. Not across file systems; a name that is taken already is replaced. */
  hardLink(from: string, to: string): "linked" | "absent" | "other-device";
  /** A folder of kiki's own with all it holds. One that is not there is success. */
  removeTree(path: string): void;
  /** A parent of `path` below `root` is a symlink: what is found there is not in the folder. */
  isBehindLink(root: string, path: string): boolean;
  /** Renames a file or symlink within a file system, parents made; what has the name is replaced. False: not there. */
  moveFile(from: string, to: string): boolean;
  /**
   * Gives a kept file its place in a workspace again, under both names; parents made as anybody makes them. False when
   * it is not there, or something has the name or a parent's, which stays.
   */
  putBack(kept: string, root: string, path: string): boolean;
  /** Empty folders from `folder` upwards, below `root`; anything else stays. */
  removeEmptyFolders(folder: string, root: string): void;
}

export interface CascadeDeps {
  repoId: string;
  stateDir: string;
  db: Db;
  jj: JjRepo;
  /**
   * Runs one multi-step mutation with no other kiki command in this repository between its steps. Foreign commands
   * may still land; callers compare heads. `stopped`: an agent stands still for it, so that each jj command, reads
   * included, gets five seconds, and is then ended with all it started (`jj-timeout`, `git-timeout`, `jj-locked`).
   */
  exclusive<T>(body: (jj: JjRepo) => Promise<T>, how?: { stopped: boolean }): Promise<T>;
  /**
   * The agent's processes, but for its harness and hooks, stand still from `hold` to `release` (a neighbour's work; what
   * it stopped is durable on the intent's account). `open`: paths of the workspace that one of them keeps open: what jj
   * would replace there is still written into. `still: false`: nothing may be changed now.
   */
  standStill: {
    hold(of: {
      threadId: string;
      intentId: string;
      incarnation: string | null;
      workspacePath: string;
      /** Stopped already, on the same account, with the harness: they stay so where it cannot be proved this time. */
      paused: boolean;
    }): Promise<{ still: true; open: string[] } | { still: false; reason: string }>;
    /** The hard pause: the harness stands still as well, until `release`. null, or who does not. */
    pause(of: {
      threadId: string;
      intentId: string;
      incarnation: string | null;
      workspacePath: string;
      paused: boolean;
    }): Promise<string | null>;
    release(intentId: string): Promise<void>;
  };
  harness(name: HarnessName): Harness;
  files: CascadeFiles;
  fsEvents: FsEvents;
  processes: Processes;
  clock: Clock;
  ids: Ids;
  /** Points by their names in core/intent.ts. */
  crash: { at(name: IntentCrashPoint): void };
  log: Log;
  queues: SerialQueues;
  settings: CascadeSettings;
  sha256(text: string): string;
  raiseAttention(row: {
    threadId: string;
    kind: string;
    dedupKey: string;
    message: string;
    loud: boolean;
    /** Once acknowledged, the same is another event. */
    recurs?: boolean;
  }): void;
  /** Ready handshake: resolves true once the incarnation's ready transaction has committed. */
  waitReady(incarnation: string, timeoutMs: number): Promise<boolean>;
  sessionStarted(incarnation: string, sessionId: string): Promise<void>;
  agents: Agents;
}

/** What a replacement is started for. */
export interface Startup {
  intentId: string;
  epoch: number;
  payloadSha256: string;
  /**
   * The mandatory first input, given the one-use id that it has to carry. `begunWith`: first prompt of a conversation that
   * cannot be taken up again; null: it can.
   */
  prompt(deliveryId: string, begunWith: string | null): string;
}

/** First input of an agent that is started though nothing is owed to it; null: its conversation goes on as it was. */
export interface PlainStart {
  words: string | null;
}

/** The neighbour that stops, ends and starts the processes of a thread's agent. */
export interface Agents {
  /**
   * Stops every process of the thread's agent, the harness included, on the intent's account. null: all stand still;
   * else why not, and then everybody goes on as before.
   */
  stop(threadId: string, intentId: string): Promise<string | null>;
  /** Ends the harness of a live incarnation; nobody is to take that for a crash. null once it is gone, else why not. */
  end(incarnation: string): Promise<string | null>;
  /** Continues whom `stop` stopped, as they were found. */
  release(intentId: string): Promise<void>;
  /** The same for every intent that does not need it, first thing after a start of the daemon. */
  releaseAllBut(needed: (intentId: string) => boolean): Promise<void>;
  /**
   * Starts the next incarnation in the agent's pane, with exclusive hooks proved anew and settings generated anew. One
   * transaction retires the one before and makes the new one; `claim` runs inside it, and what it returns after it.
   * Throws KikiError when that is not possible now: then nothing was started and nothing is counted.
   */
  replace(
    threadId: string,
    input: Startup | PlainStart,
    claim: (made: { incarnation: string; deliveryId: string }) => () => void,
  ): Promise<string>;
  /** Waits until it is ready or has ended, and ends one that does not become ready in time. */
  settled(incarnation: string): Promise<"ready" | "ended" | "suspended">;
}

/** `[cascade]` of the configuration chapter, plus the named limits of this folder. */
export interface CascadeSettings {
  holdMs: number;
  drainMs: number;
  /** A told hold that is not confirmed within this time may have been allowed. */
  confirmMs: number;
  /** A jj command of a daemon that was killed gets this long to end by itself, and as long again once it is ended. */
  survivorMs: number;
  debounceMs: number;
  pollMs: number;
  /** Restarts of one delivery epoch. */
  attempts: number;
  snapshot: "turn-end" | "never";
}

export const DEFAULT_SETTINGS: CascadeSettings = {
  holdMs: 30_000,
  drainMs: 5_000,
  confirmMs: 1_500,
  // What a command gets for which an agent stands still.
  survivorMs: 5_000,
  debounceMs: 250,
  pollMs: 5_000,
  attempts: 3,
  snapshot: "turn-end",
};

/** A hook's caller, proved by the daemon before it gets here. */
export interface HookCaller {
  threadId: string;
  incarnation: string;
}
