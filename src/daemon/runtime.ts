/** What the daemon holds while it runs. Built by `wire.ts`, used by the handlers, taken down by `boot.ts`. */
import type { AuditWriter } from "../authority/audit.ts";
import { fail, type KikiError } from "../core/errors.ts";
import type { RepoId } from "../core/ids.ts";
import type { RepoPaths, StatePaths } from "../core/paths.ts";
import type { Cascade } from "../cascade/cascade.ts";
import type { StandStill } from "../lifecycle/stand-still.ts";
import type { Creation } from "../lifecycle/creation.ts";
import type { Proving } from "../lifecycle/proving.ts";
import type { Clock } from "../ports/clock.ts";
import type { Harness, HarnessName } from "../ports/harness.ts";
import type { Ids } from "../ports/ids.ts";
import type { JjBackend, JjRepo, RepoLocation } from "../ports/jj.ts";
import type { EdgeRepairs } from "../repair/edge-repairs.ts";
import type { Repairs } from "../repair/repairs.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Processes } from "../ports/processes.ts";
import type { Terminals } from "../ports/terminals.ts";
import type { Log } from "../ports/log.ts";
import type { TmuxBackend } from "../ports/tmux.ts";
import type { Db } from "../store/db.ts";
import type { RepoRow } from "../store/repos.ts";
import type { Config } from "./config.ts";

/** One registered repository that could be opened. */
export interface RepoRuntime {
  readonly repoId: RepoId;
  readonly row: RepoRow;
  readonly location: RepoLocation;
  readonly paths: RepoPaths;
  readonly db: Db;
  readonly jj: JjRepo;
  readonly creation: Creation;
  readonly repairs: Repairs;
  readonly edgeRepairs: EdgeRepairs;
  readonly standStill: StandStill;
  readonly cascade: Cascade;
}

/** Durable file work of the daemon shell itself. */
export interface DaemonFiles {
  ensureDir(path: string, mode: number): void;
  writeDurable(path: string, bytes: string, mode: number): void;
  removeDurable(path: string): void;
  readText(path: string): string | null;
  /** Names, sorted; empty when there is no such folder. */
  listDir(path: string): string[];
  /** Moves a folder within its file system; nothing happens when it is not there. */
  moveAway(from: string, to: string): void;
  /** Identity of the file a path leads to, in its present state; null when there is none. */
  fileStamp(path: string): string | null;
  removeTree(path: string): Promise<void>;
}

/** The world as the daemon sees it; everything but the database and the repositories. */
export interface World {
  readonly clock: Clock;
  readonly ids: Ids;
  readonly files: DaemonFiles;
  readonly jj: JjBackend;
  readonly tmux: (socket: string | null) => TmuxBackend;
  readonly config: Config;
  readonly processes: Processes;
  readonly terminals: Terminals;
  readonly crash: CrashPoints;
  /** Throws KikiError when the repository, its workspace folder or its database cannot be used. */
  openRepo(row: RepoRow, socket: string, proving: Proving): Promise<RepoRuntime>;
  /** Throws `harness-unavailable`. */
  harness(name: HarnessName): Harness;
}

/** A repository that is registered and cannot be used now, and why. */
export interface BrokenRepo {
  row: RepoRow;
  error: KikiError;
}

export interface Daemon {
  readonly stateDir: string;
  readonly paths: StatePaths;
  readonly socket: string;
  readonly startedAt: number;
  readonly userDb: Db;
  readonly audit: AuditWriter;
  readonly proving: Proving;
  /** Time that approvals expire by, in milliseconds: it never jumps. */
  readonly steadyNow: () => number;
  readonly world: World;
  readonly log: Log;
  readonly repos: Map<RepoId, RepoRuntime>;
  readonly broken: Map<RepoId, BrokenRepo>;
  /** Begins the end of the daemon; returns at once. */
  requestStop(reason: string): void;
}

/** The runtime of a registered repository. Throws KikiError `repo-unavailable` or `not-registered`. */
export function repoById(daemon: Daemon, repoId: RepoId): RepoRuntime {
  const open = daemon.repos.get(repoId);
  if (open !== undefined) return open;
  const broken = daemon.broken.get(repoId);
  if (broken === undefined) {
    throw fail("notFound", "not-registered", `no registered repository ${repoId}`, "kk repo ls");
  }
  throw repoUnavailable(broken);
}

export function repoUnavailable({ row, error }: BrokenRepo): KikiError {
  return fail(
    "failed",
    "repo-unavailable",
    `${row.repoRoot} cannot be used: ${error.message}`,
    error.hint ?? "kk doctor",
  );
}
