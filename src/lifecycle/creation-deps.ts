/** What making a thread needs from the world, and what its steps share. */
import type { CreateStep } from "../core/plans/agent.ts";
import type { SetupRecipe } from "../core/setup.ts";
import type { CommitId, IncarnationId, OpId, RepoId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import type { SerialQueues } from "../core/serial-queue.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { CodexSettings, Harness, HarnessName } from "../ports/harness.ts";
import type { Ids } from "../ports/ids.ts";
import type { JjBackend, JjRepo } from "../ports/jj.ts";
import type { Log } from "../ports/log.ts";
import type { Processes } from "../ports/processes.ts";
import type { Recipes } from "../ports/recipes.ts";
import type { TmuxBackend } from "../ports/tmux.ts";
import type { Db } from "../store/db.ts";
import { stepsOf } from "../store/lifecycle-ops.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import type { Proving } from "./proving.ts";
import type { Signals } from "./signals.ts";

/** `other`: a file, a symlink, anything a workspace cannot be. Symlinks are never followed. */
export type PathKind = "absent" | "empty-folder" | "folder" | "other";

/** File work, handed in because backends are chosen by the daemon alone. Paths are absolute. */
export interface CreationFiles {
  ensureDir(path: string, mode: number): Promise<void>;
  writeDurable(path: string, bytes: string, mode: number): Promise<void>;
  /** Success when it is gone already. */
  removeDurable(path: string): Promise<void>;
  /** null when there is no such file. */
  readText(path: string): Promise<string | null>;
  /** Hex SHA-256 of a file's bytes; null when there is no such file. */
  sha256(path: string): Promise<string | null>;
  kind(path: string): Promise<PathKind>;
  /** Device and inode of a folder: its identity, whatever its name. null when absent. */
  inode(path: string): Promise<string | null>;
  /** Everything below `folder` that is no folder, relative, except below its top-level entries `skip`. */
  listFiles(folder: string, skip: readonly string[]): Promise<string[]>;
  /**
   * Removes `files` (relative), the top-level entries `trees` whole, then every folder that is empty by then,
   * `folder` last. Whatever else is there stays, and with it the folders above it. True when nothing stayed.
   */
  removeListed(
    folder: string,
    files: readonly string[],
    trees: readonly string[],
  ): Promise<boolean>;
  /** Only for folders below kiki's own state root. */
  removeTree(path: string): Promise<void>;
}

/** `[setup]` as configured for the repository, and which layer the recipe comes from. */
export interface SetupSettings {
  /** Files and globs, relative to the main workspace's root. */
  copy: readonly string[];
  /** A command line for `sh -c`; "" for none. */
  run: string;
  timeoutS: number;
  /** The highest layer that set `copy` or `run`; `repo-shared` is the file that everybody who pushes can change. */
  source: string;
}

/** `[ui] shell_pane*`: the pane beside the agent's, and from which height of the terminal on there is one. */
export interface ShellPaneSettings {
  wanted: boolean;
  position: "below" | "right";
  sizePercent: number;
  minRows: number;
}

export interface CreationSettings {
  setup: SetupSettings;
  /** `[paths] workspaces_root`, absolute; null puts workspaces beside the repository. */
  workspacesRoot: string | null;
  briefing: boolean;
  /** `[agent] env`: what agent and shell get on top of the person's own environment. */
  agentEnv: Readonly<Record<string, string>>;
  claudeCode: { pretrust: boolean };
  shellPane: ShellPaneSettings;
  codex: CodexSettings;
}

export const NO_SETUP: SetupSettings = { copy: [], run: "", timeoutS: 600, source: "default" };
const NOTHING_CONFIGURED: CreationSettings = {
  setup: NO_SETUP,
  workspacesRoot: null,
  briefing: true,
  agentEnv: {},
  claudeCode: { pretrust: false },
  shellPane: { wanted: true, position: "below", sizePercent: 25, minRows: 24 },
  codex: { boundary: "soft", auth: "copy" },
};

/** Configuration as it is now; the defaults where a caller has none. */
export function settingsOf(deps: Pick<CreationDeps, "settings">): CreationSettings {
  return deps.settings?.() ?? NOTHING_CONFIGURED;
}

/** The layer whose recipes come with the repository itself. */
export const SHARED_LAYER = "repo-shared";

export interface CreationDeps {
  repoId: RepoId;
  stateDir: string;
  db: Db;
  /** Each mutation waits for its turn, `exclusive` for one turn for several (`daemon/exclusive.ts`). */
  jj: JjRepo;
  exclusive<T>(body: (jj: JjRepo) => Promise<T>): Promise<T>;
  jjBackend: JjBackend;
  /** The tmux server behind a socket; null is the person's default one. */
  tmux(socket: string | null): TmuxBackend;
  harness(name: HarnessName): Harness;
  /** What a version can do on this machine. Default: only what the release gate has proved. */
  proving?: Pick<Proving, "of">;
  processes: Processes;
  files: CreationFiles;
  recipes: Recipes;
  clock: Clock;
  ids: Ids;
  crash: CrashPoints;
  log: Log;
  queues: SerialQueues;
  /** Absolute paths of the executables that panes and hooks run, and of the daemon's socket. */
  kkPath: string;
  hookPath: string;
  socketPath: string;
  /** Configuration as it is now, read anew for each plan. Default: none. */
  settings?(): CreationSettings;
  /** Reads every new operation of the repository to the end and returns the one head; throws while there are several. */
  refreshToFrontier(repoId: RepoId): Promise<OpId>;
  /**
   * Creates the intent an edge is missing, from its anchor to the parent's exact `@`. The watcher cannot: the parent
   * may have moved before the child's head was known. Idempotent.
   */
  classifyEdge(child: ThreadId): Promise<void>;
  /** Whether diagnosing the thread anew still gives the repair of this id. */
  repairHolds(threadId: ThreadId, repairId: string): Promise<boolean>;
  /** The thread has become `Active`. */
  onActive(threadId: ThreadId): void;
  /**
   * What deliveries are recorded in the same transaction as an incarnation's handshake or end. What they return is
   * called once it has committed.
   */
  deliveries?: {
    ready(threadId: ThreadId, incarnation: string): () => void;
    ended(threadId: ThreadId, incarnation: string): () => void;
  };
  /** An incarnation has ended: its open calls are resolved, its credential may be rotated. */
  onRetired?(threadId: ThreadId, incarnation: string): void;
}

/** What `kk new` sends, without the repository. */
export interface CreateInput {
  name: string | null;
  prompt: string | null;
  follows: string | null;
  noFollow: boolean;
  base: string | null;
  harness: string | null;
  harnessArgs: string[];
  harnessExecutable: string | null;
  contextThread: string | null;
  folder: string;
  tmuxSocket: string | null;
  columns: number;
  rows: number;
  shell: string;
  env: Record<string, string>;
}

/** Exactly the declared fields, whatever else the caller's object has: they are what a plan's digest covers. */
export function pickInput(input: CreateInput): CreateInput {
  const { name, prompt, follows, noFollow, base, harness, harnessArgs, harnessExecutable } = input;
  const { contextThread, folder, tmuxSocket, columns, rows, shell, env } = input;
  return {
    name,
    prompt,
    follows,
    noFollow,
    base,
    harness,
    harnessArgs,
    harnessExecutable,
    contextThread,
    folder,
    tmuxSocket,
    columns,
    rows,
    shell,
    env,
  };
}

/** The part of the approved plan the journal keeps. No secrets: the environment has a file of its own. */
export interface CreateArgs {
  /** Of the plan the person confirmed: by it a call whose answer was lost finds its creation. */
  digest?: string;
  follows: ThreadId | null;
  /** Exact base when nothing is followed; a followed parent's `@` is read anew when the thread is allocated. */
  base: CommitId;
  /** How the base was asked for, so that a retry can ask again. Absent in older journals. */
  baseAsked?: { revset: string | null; folder: string };
  /** null or absent: nothing is configured. */
  setup?: SetupRecipe | null;
  columns: number;
  rows: number;
  shell: string;
  /** The shell's pane; null for none. Absent in journals from before it could be configured. */
  shellPane?: { position: ShellPaneSettings["position"]; sizePercent: number } | null;
}

/** `harness/<thread>/env.json`: the allow-listed environment, 0600, for this launch and every later one. */
export function envFile(harnessFolder: string): string {
  return `${harnessFolder}/env.json`;
}

/** `harness/<thread>/launch.json`: argv, environment and folder of the incarnation whose gate is open, 0600. */
export function launchFile(harnessFolder: string): string {
  return `${harnessFolder}/launch.json`;
}

/** One creation as its steps see it; everything it says comes from the database, so a restart sees the same. */
export interface CreateContext {
  readonly deps: CreationDeps;
  readonly signals: Signals;
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal;
  readonly operationId: string;
  readonly threadId: ThreadId;
  readonly args: CreateArgs;
  /** Something outside the journal that must end the creation, for example changed settings found at the gate. */
  trouble(): Error | null;
  /** The agent's composer stands in its pane. */
  composerSeen(incarnation: IncarnationId): Promise<void>;
}

export function threadOf(ctx: CreateContext): ThreadRow {
  const row = threadById(ctx.deps.db, ctx.threadId);
  if (row === null) throw new Error(`no thread ${ctx.threadId}`);
  return row;
}

/** `harness/<thread>/`: everything kiki generates for the thread's agent. */
export function harnessFolder(ctx: CreateContext): string {
  return threadPaths(ctx.deps.stateDir, ctx.deps.repoId, ctx.threadId).harness;
}

/** What a completed step recorded. A step that asks for one that has not completed is in the wrong place. */
export function evidenceOf<E>(ctx: CreateContext, step: CreateStep): E {
  const row = stepsOf(ctx.deps.db, ctx.operationId).find((s) => s.name === step);
  if (row === undefined || row.result === null) throw new Error(`step ${step} has no evidence yet`);
  return row.result as E;
}

export function sha256Hex(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
