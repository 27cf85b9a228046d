/**
 * What kiki needs from jj (0.46). Two promises hold for every implementation:
 * - a read takes a full operation id and writes nothing, anywhere (`--at-op <full id>` is the only pure read;
 *   `--ignore-working-copy` alone merges divergent heads);
 * - a mutation carries the token the caller persisted first, so that its operations can be attributed for ever.
 * Failures are thrown as KikiError with a `jj-…` code.
 */
import type { ChangeId, CommitId, OpId } from "../core/ids.ts";
import type { ProbeState } from "../core/intent.ts";

export interface RepoLocation {
  /** Folder of the workspace that was asked for. */
  workspaceRoot: string;
  /** Folder of the workspace that holds the repository itself (`.jj/repo` is a directory there). */
  repoRoot: string;
  /** `<repoRoot>/.jj/repo`, resolved. The canonical identity of a repository. */
  repoDir: string;
  /** The git store is shared with a plain git checkout at `repoRoot`. */
  colocated: boolean;
}

export interface JjOperation {
  id: OpId;
  parents: OpId[];
  description: string;
  isSnapshot: boolean;
  workspaceName: string | null;
  /** Full argument vector as one string; "" for operations that have none (the first half of `workspace add`). */
  args: string;
}

/** What never changes about one workspace's `@` in one operation's view. */
export interface WorkspaceHead {
  workspace: string;
  changeId: ChangeId;
  commitId: CommitId;
  parents: CommitId[];
}

/** One workspace's `@` in one operation's view, with what only the whole view tells. */
export interface WorkspaceView extends WorkspaceHead {
  /** Recorded path; not operation-versioned. */
  root: string | null;
  conflict: boolean;
  empty: boolean;
  divergent: boolean;
  immutable: boolean;
  /** First line. */
  description: string;
}

export interface CommitView {
  commitId: CommitId;
  changeId: ChangeId;
  parents: CommitId[];
  description: string;
  conflict: boolean;
  empty: boolean;
  divergent: boolean;
  immutable: boolean;
  hidden: boolean;
}

/** A commit and those of the commits asked about that it is an ancestor of, or equal to. */
export interface CommitRelations extends CommitView {
  behind: CommitId[];
}

export interface BookmarkView {
  name: string;
  /** One commit, or several when the bookmark is conflicted. */
  targets: CommitId[];
}

export interface WorkspaceProbe {
  state: ProbeState;
  /** Hash over what was looked at: checkout, tree state, inventory, content hashes used, recorded `@`. */
  fingerprint: string;
  /** Operation the files were last written for; "" when unreadable. */
  checkoutOp: OpId;
  /** Commit jj's view at the probed operation records for this workspace; null when it records none. */
  recordedCommit: CommitId | null;
  /**
   * Workspace-relative paths that differ, sorted, each after a letter: M modified, A added, D deleted, T type,
   * C colliding; besides paths `H HEAD` (git HEAD is not what jj expects) and `W working copy` (jj's record of the
   * files is not the checkout's commit: a snapshot was not finished).
   */
  changed: string[];
  /** For `Unknown`: what could not be proved, as `kind: text`. Kind `busy` may be otherwise in a moment: pin again. */
  reason: string | null;
}

export interface LooseFile {
  /** Relative to the workspace; need not be UTF-8. */
  path: Uint8Array;
  tracked: boolean;
}

/** One path of an update of files that was ended in the middle. */
export interface PathProgress {
  path: string;
  /**
   * `from`, `to`: as in that commit (nothing, where it has none). `begun`: the old one is gone, and there is nothing, or no
   * more than a beginning of the new file (also all of it without its executable bit, also zeros where bytes were lost).
   */
  state: "from" | "to" | "begun" | "other";
  /** `from` has something there. */
  had: boolean;
  /** Of what lies there now; null where that is nothing. */
  sha256: string | null;
}

export interface StagedOperation {
  id: OpId;
  /** What jj said on stderr, for logs. */
  notes: string;
}

export interface JjBackend {
  /** Throws KikiError `jj-missing` / `jj-too-old` / `git-missing` / `git-too-old`, each with its remedy. */
  checkVersions(): Promise<{ jj: string; git: string }>;
  /**
   * Where jj's configuration turns `snapshot.auto-update-stale` on for the workspace at `folder`: the file, or `""` where
   * it is none; null when it is off. Then any jj command in a stale workspace updates it behind kiki's back.
   */
  autoUpdateStale(folder: string): Promise<string | null>;
  /** null when `folder` is in no jj workspace. */
  locate(folder: string): Promise<RepoLocation | null>;
  /**
   * `neutral`: a folder of kiki's own from which mutations run without snapshotting anybody's working copy.
   * `commandLimit`: asked when a command starts, how many milliseconds it gets before it and all it started are ended
   * (`jj-timeout`, `git-timeout`, `jj-locked`); null: the usual half a minute.
   */
  open(repo: RepoLocation, neutral: string, commandLimit?: () => number | null): JjRepo;
}

export interface JjDiff {
  /** One line for each file, and a last one with the sums. */
  stat: string;
  /** In git's format; empty where nothing differs. */
  text: string;
}

export interface JjRepo {
  readonly location: RepoLocation;
  /** Folder whose changes mean "new operation heads": `<repoDir>/op_heads/heads`. */
  readonly headsFolder: string;

  // ---- pure reads -------------------------------------------------------------------------------------------
  /** Current operation heads, sorted; listed again until a transient second head has settled. */
  heads(): Promise<OpId[]>;
  /**
   * The first `limit` operations from `head` on, children before parents, with every parent. Concurrent operations
   * come one branch after the other, not by time: a limit may leave out the newest of a branch (jj 0.46).
   */
  operations(head: OpId, limit: number): Promise<JjOperation[]>;
  /** Which of `ids` exist in the operation store. */
  operationExists(id: OpId): Promise<boolean>;
  workspaces(op: OpId): Promise<WorkspaceView[]>;
  /**
   * Every workspace's `@` in the views of many operations, by few processes however many they are. The last of `ops`
   * should descend from as many of the others as possible.
   */
  workspaceHeads(ops: readonly OpId[]): Promise<Map<OpId, WorkspaceHead[]>>;
  /**
   * The commit of every workspace's `@` in the view of `op`, read without a process; null where the store's files do not
   * say.
   */
  workspaceCommits(op: OpId): Promise<ReadonlyMap<string, CommitId> | null>;
  /**
   * Commits of a revset, newest first. Hidden commits resolve by full commit id. `trunk()` is the root commit (40
   * zeros) where there is no trunk; a bare `@` is the main workspace's. `jj-revset` on a bad revset.
   */
  commits(op: OpId, revset: string): Promise<CommitView[]>;
  /** Like `commits`, limited to `ids` that exist (`present()`). */
  existing(op: OpId, ids: readonly CommitId[]): Promise<CommitView[]>;
  /**
   * Which of `commits` are behind which of `of` in the graph: many ancestry questions in one read. Ids that do not exist
   * at `op` are left out of the answer, and nothing is behind them.
   */
  relations(
    op: OpId,
    commits: readonly CommitId[],
    of: readonly CommitId[],
  ): Promise<CommitRelations[]>;
  /** `ancestor` is an ancestor of, or equal to, `of`. */
  isAncestor(op: OpId, ancestor: CommitId, of: CommitId): Promise<boolean>;
  /** Every commit that `commit` evolved from by recorded rewrites (amend, rebase, squash), itself included. */
  evolvedFrom(op: OpId, commit: CommitId): Promise<CommitId[]>;
  bookmarks(op: OpId): Promise<BookmarkView[]>;
  /** Paths that differ between two commits, `{status: M|A|D|R|C, path}`. */
  changedPaths(op: OpId, from: CommitId, to: CommitId): Promise<{ status: string; path: string }[]>;
  conflictedPaths(op: OpId, commit: CommitId): Promise<string[]>;
  /**
   * Whether `to` is `from` moved and nothing else: on `to`'s parents it makes the change, and has the description, that
   * `from` has on its own. Conflicts that only the move brings about are no difference.
   */
  sameChange(op: OpId, from: CommitId, to: CommitId): Promise<boolean>;
  /**
   * Paths whose entries in two commits differ, of a conflicted commit in any of its terms, sorted: all that jj may
   * replace on the way from the files of one to those of the other, whatever a rename is called. No jj process.
   */
  touchedPaths(from: CommitId, to: CommitId): Promise<string[]>;
  /**
   * Of `paths`, those that in `commit` are not what lies under the same name below `folder`: content, kind, executable
   * bit. Absent is equal to absent, or to a folder; a conflict differs from everything.
   */
  differing(commit: CommitId, folder: string, paths: readonly string[]): Promise<string[]>;
  /**
   * How far a command got that was to bring the files below `folder` from one commit to another: every path it has to
   * replace, in the order in which jj 0.46 does that, one after the other. `op`: where both commits can be read.
   */
  updateProgress(op: OpId, from: CommitId, to: CommitId, folder: string): Promise<PathProgress[]>;
  /** git HEAD of a colocated workspace and the one jj expects (probe: `H HEAD`); null is unborn. null: not colocated. */
  gitHead(
    workspaceRoot: string,
    workspace: string,
    op: OpId,
  ): Promise<{ actual: CommitId | null; expected: CommitId | null } | null>;
  /**
   * Every path in a workspace's folder that jj tracks or git does not ignore, as its raw bytes; of a nested repository
   * only its folder, with a slash. Works where a probe says `Unknown`: what cannot be read of jj's record is left out.
   */
  looseFiles(workspaceRoot: string): Promise<LooseFile[]>;
  /** Between two commits, as text, cut where it is very long. */
  diff(op: OpId, from: CommitId, to: CommitId): Promise<JjDiff>;
  /** `jj st` of a workspace as of now, literal text, written so that reading never starts a cascade. */
  statusText(workspaceRoot: string): Promise<string>;
  /** Byte-free probe against the view at `op` (facts: jj §3). Takes no lock and writes nothing. */
  probe(workspaceRoot: string, workspace: string, op: OpId): Promise<WorkspaceProbe>;

  // ---- mutations --------------------------------------------------------------------------------------------
  /** Makes the neutral folder (idempotent) and leaves no recorded workspace behind. */
  ensureNeutral(token: string): Promise<void>;
  /**
   * Adds workspace `name` at `path` with a new empty change described `description` on exactly `base`.
   * Colocated exactly when the repository is. Does not snapshot any other workspace. `at`: an operation that shows `base`;
   * where others have landed since, jj makes the workspace beside them, and the merge of the heads, which is left to
   * whoever needs one view, moves the new change with a base that they have rewritten. Without it such a base would be
   * brought back beside its rewrite (jj 0.46).
   */
  addWorkspace(input: {
    name: string;
    path: string;
    base: CommitId;
    at?: OpId;
    description: string;
    token: string;
  }): Promise<void>;
  forgetWorkspace(name: string, token: string): Promise<void>;
  /**
   * Takes a colocated workspace folder that is gone out of git's list of worktrees, exactly that one. Nothing to do,
   * or a folder that is still there: success, and nothing is changed. No jj operation.
   */
  forgetWorktree(path: string): Promise<void>;
  abandon(commits: readonly CommitId[], token: string): Promise<void>;
  /** `jj edit` in a managed workspace: its `@` becomes exactly `commit`, and its files follow. */
  edit(workspaceRoot: string, commit: CommitId, token: string): Promise<void>;
  /** Points a git ref of kiki's own (`refs/kiki/…`) at a commit, which git then keeps. No jj operation. */
  pinCommit(ref: string, commit: CommitId): Promise<void>;
  /** Detaches git HEAD of a colocated workspace at `commit`; index, files and branches stay. No jj operation. */
  setGitHead(workspaceRoot: string, commit: CommitId): Promise<void>;
  /**
   * `of`: only while that workspace's `@` is exactly `commit`; else `jj-moved`, and nothing was done. Without it jj brings a
   * commit back that was rewritten since (0.46, measured).
   */
  createBookmark(name: string, commit: CommitId, token: string, of?: string): Promise<void>;
  /** Puts a bookmark that exists, conflicted or not, on exactly `commit`. */
  setBookmark(name: string, commit: CommitId, token: string): Promise<void>;
  deleteBookmark(name: string, token: string): Promise<void>;
  /**
   * Merges the operation heads there are into one operation with all of them as parents, as every jj command does that
   * loads the repository: its arguments carry the token. Of one head nothing is made. No working copy is looked at, no
   * file changes, and nobody's lock on a workspace is waited for. Two at the same time make one operation.
   */
  mergeHeads(token: string): Promise<void>;
  /** `jj util snapshot` in a managed workspace. */
  snapshot(workspaceRoot: string, token: string): Promise<void>;
  /** `jj workspace update-stale`. Exits 0 in every case: the caller re-probes and verifies. */
  updateStale(workspaceRoot: string, token: string): Promise<void>;
  /**
   * Rebases exactly `chain` (root first) onto `onto`, starting from `at`, without publishing the operation. Commits
   * on top of the chain that are not named stay behind on its old base, so follows children that shall come along
   * are named as well. `jj-nothing-staged` when everything is in place.
   */
  stageRebase(input: {
    at: OpId;
    chain: readonly CommitId[];
    onto: CommitId;
    token: string;
  }): Promise<StagedOperation>;
  /** Publishes a staged operation. Not a compare-and-swap: the caller checks heads before and after. */
  integrate(op: OpId, token: string): Promise<void>;
}
