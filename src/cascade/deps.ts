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

/** Durable file work, handed in because only `backends/files.ts` may touch the disk. */
export interface CascadeFiles {
  writeDurable(path: string, bytes: string | Uint8Array, mode: number): void;
  /** A file that is not there is success. */
  removeDurable(path: string): void;
  ensureDir(path: string, mode: number): void;
  /** Names in a folder, sorted; empty when the folder does not exist. */
  listDir(path: string): string[];
  readText(path: string): string | null;
  /**
   * Durable byte copy (parents made; a symlink stays a symlink). Returns the SHA-256 of the content (of the target's
   * text for a symlink), or null when the source is not there.
   */
  copyInto(from: string, to: string): string | null;
}

export interface CascadeDeps {
  repoId: string;
  stateDir: string;
  db: Db;
  jj: JjRepo;
  /**
   * Runs one multi-step mutation with no other kiki command in this repository between its steps. Foreign commands
   * may still land; callers compare heads.
   */
  exclusive<T>(body: (jj: JjRepo) => Promise<T>): Promise<T>;
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
  }): void;
  /** Ready handshake: resolves true once the incarnation's ready transaction has committed. */
  waitReady(incarnation: string, timeoutMs: number): Promise<boolean>;
  sessionStarted(incarnation: string, sessionId: string): Promise<void>;
}

/** `[cascade]` of the configuration chapter, plus the named limits of this folder. */
export interface CascadeSettings {
  holdMs: number;
  drainMs: number;
  /** A told hold that is not confirmed within this time may have been allowed. */
  confirmMs: number;
  debounceMs: number;
  pollMs: number;
}

export const DEFAULT_SETTINGS: CascadeSettings = {
  holdMs: 30_000,
  drainMs: 5_000,
  confirmMs: 1_500,
  debounceMs: 250,
  pollMs: 5_000,
};

/** A hook's caller, proved by the daemon before it gets here. */
export interface HookCaller {
  threadId: string;
  incarnation: string;
}
