/**
 * jj in memory: a model of commits, changes, trees, operations, workspaces and their files that does what jj 0.46
 * does to each of them (the parts lie in `jj/`; tests/contract compares it with the real one). Stricter than jj:
 * a mutation whose token was not persisted first, an abbreviated id, a hidden or immutable commit to be changed, a
 * read that would write are errors.
 */
import { fail } from "../../src/core/errors.ts";
import type { CommitId, OpId } from "../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../src/core/revset.ts";
import type {
  BookmarkView,
  CommitRelations,
  CommitView,
  JjDiff,
  JjOperation,
  JjRepo,
  LooseFile,
  RepoLocation,
  StagedOperation,
  WorkspaceHead,
  WorkspaceProbe,
  WorkspaceView,
} from "../../src/ports/jj.ts";
import type { FakeFiles } from "./files.ts";
import { JjEngine, type Caller } from "./jj/engine.ts";
import { JjFaults, type JjMethod } from "./jj/faults.ts";
import * as mutations from "./jj/mutations.ts";
import { FakePerson } from "./jj/person.ts";
import { probe } from "./jj/probe.ts";
import * as reads from "./jj/reads.ts";
import * as recovery from "./jj/recovery.ts";
import type { Operation } from "./jj/store.ts";
import { addsOf } from "./jj/targets.ts";
import * as setup from "./jj/setup.ts";
import { updateStale } from "./jj/update-stale.ts";

const PERSON: Caller = { args: "", workspace: null, root: null };

export class FakeJj implements JjRepo {
  readonly location: RepoLocation;
  readonly headsFolder: string;
  /** Every successful creation, for "nothing twice". */
  readonly made: string[] = [];
  /** Folders in git's list of worktrees. */
  readonly worktrees = new Set<string>();
  /** git refs of kiki's own. */
  readonly pins = new Map<string, CommitId>();
  readonly faults = new JjFaults();
  /** The model itself, for what no method below does. */
  readonly engine: JjEngine;
  /** Whether a token is persisted; set by the world to look into the database. */
  attributed: (token: string) => boolean = () => true;
  /**
   * Called in the middle of `addWorkspace` (`folder`, `tool-files`, `first-operation`, `second-operation`), of a
   * snapshot (`snapshot-published`), of an update (`stale-snapshot`, `files-updated`), and after every mutation.
   */
  during: (moment: string) => void = () => undefined;
  /** Workspace folder → `kind: text`, for a probe that cannot answer (sparse, submodule, unusual settings). */
  readonly unproved = new Map<string, string>();
  /** kiki's own folder. */
  neutral = "/state/neutral";
  #lingering = 0;

  constructor(files: FakeFiles, repoRoot = "/src/calc", options: { colocated?: boolean } = {}) {
    const repoDir = `${repoRoot}/.jj/repo`;
    this.location = {
      workspaceRoot: repoRoot,
      repoRoot,
      repoDir,
      colocated: options.colocated ?? true,
    };
    this.headsFolder = `${repoDir}/op_heads/heads`;
    this.engine = new JjEngine(files, this.location);
    this.engine.onMoment = (moment) => this.during(moment);
  }

  // ---- what tests do as a person or an agent -----------------------------------------------------------------

  /** The newest operation head. */
  get head(): OpId {
    return this.engine.newestHead().id;
  }

  /** Somebody in a workspace. */
  in(workspace: string): FakePerson {
    return new FakePerson(this.engine, workspace);
  }

  /** Somebody whose command saw only `op`: what it does becomes a head of its own beside what came after `op`. */
  personAt(op: OpId, workspace: string): FakePerson {
    return new FakePerson(this.engine, workspace, op);
  }

  /** `count` operations of a person in a row. */
  storm(count: number, workspace = "default"): void {
    const person = this.in(workspace);
    for (let n = 0; n < count; n += 1) person.describe(`storm ${n}`);
  }

  /** The next `listings` of the heads also show a head that has just been replaced, as a racing readdir does. */
  lingerHead(listings = 1): void {
    this.#lingering = listings;
  }

  /** `jj op abandon` and garbage collection: nothing of the operation can be read any more. */
  loseOperation(op: OpId): void {
    this.engine.lost.add(op);
  }

  /** A workspace that was there before kiki, with a new change on `parents`. */
  personWorkspace(
    name: string,
    root: string,
    parents: readonly CommitId[] = [ROOT_COMMIT],
  ): CommitId {
    return setup.workspace(this.engine, this.headsFolder, { name, root, parents });
  }

  /** A commit outside every workspace: `files` on top of its parent's. */
  personCommit(
    parent: CommitId,
    description: string,
    files: Record<string, string> = {},
  ): CommitId {
    return setup.commit(this.engine, { parent, description, files });
  }

  /** A bookmark `main` stands for a trunk: what it reaches is immutable. */
  personBookmark(name: string, commit: CommitId): void {
    this.engine.run(PERSON, (tx) => {
      tx.view.bookmarks.set(name, [commit]);
      tx.addHead(commit);
      return `point bookmark ${name} to commit ${commit}`;
    });
  }

  /** Edits files in a workspace and lets jj record them; descendants, workspaces and bookmarks come along. */
  amend(workspace: string, files: Record<string, string>): CommitId {
    return this.in(workspace).amend(files);
  }

  at(workspace: string): CommitId | null {
    return this.#now().view.workspaces.get(workspace) ?? null;
  }

  /** null also while it is conflicted. */
  bookmark(name: string): CommitId | null {
    const target = this.#now().view.bookmarks.get(name) ?? [];
    return target.length === 1 ? (addsOf(target)[0] ?? null) : null;
  }

  isVisible(commit: CommitId): boolean {
    return this.engine.store.index(this.#now().view).visible.has(commit);
  }

  /** What `jj workspace forget` by a person does. */
  personForget(name: string): void {
    mutations.forgetWorkspace(this.engine, name, PERSON);
  }

  /** A record without a folder, or with one kiki never made. */
  personRecord(name: string, root: string, commit: CommitId): void {
    this.engine.roots.set(name, root);
    this.engine.run(PERSON, (tx) => {
      tx.view.workspaces.set(name, commit);
      return `add workspace '${name}'`;
    });
  }

  // ---- reads -------------------------------------------------------------------------------------------------

  async heads(): Promise<OpId[]> {
    const listed = [...this.engine.heads];
    if (this.#lingering > 0 && listed.length === 1) {
      this.#lingering -= 1;
      listed.push(...this.#now().parents);
    }
    return this.#read("heads", () => listed.sort());
  }

  operations(head: OpId, limit: number): Promise<JjOperation[]> {
    return this.#read("operations", () => reads.operations(this.engine, head, limit));
  }

  operationExists(id: OpId): Promise<boolean> {
    return this.#read(
      "operationExists",
      () => this.engine.store.operations.has(id) && !this.engine.lost.has(id),
    );
  }

  workspaces(op: OpId): Promise<WorkspaceView[]> {
    return this.#readAt("workspaces", op, (at) => reads.workspaces(this.engine, at));
  }

  workspaceHeads(ops: readonly OpId[]): Promise<Map<OpId, WorkspaceHead[]>> {
    return this.#read("workspaceHeads", () => reads.workspaceHeads(this.engine, ops));
  }

  /** A look at files: it neither fails nor takes time. */
  async workspaceCommits(op: OpId): Promise<ReadonlyMap<string, CommitId> | null> {
    return this.engine.lost.has(op)
      ? null
      : (this.engine.store.operations.get(op)?.view.workspaces ?? null);
  }

  commits(op: OpId, revset: string): Promise<CommitView[]> {
    return this.#readAt("commits", op, (at) => reads.commits(this.engine, at, revset));
  }

  existing(op: OpId, ids: readonly CommitId[]): Promise<CommitView[]> {
    mutations.checkFullIds(ids);
    const revset = ids.length === 0 ? "none()" : ids.map((id) => `present(${id})`).join("|");
    return this.#readAt("existing", op, (at) => reads.commits(this.engine, at, revset));
  }

  relations(
    op: OpId,
    ids: readonly CommitId[],
    of: readonly CommitId[],
  ): Promise<CommitRelations[]> {
    mutations.checkFullIds([...ids, ...of]);
    return this.#readAt("relations", op, (at) => reads.relations(this.engine, at, ids, of));
  }

  isAncestor(op: OpId, ancestor: CommitId, of: CommitId): Promise<boolean> {
    mutations.checkFullIds([ancestor, of]);
    return this.#readAt("isAncestor", op, (at) => {
      if (ancestor === of) return true;
      reads.checkKnown(this.engine, at, of);
      return this.engine.store.knows(at, ancestor) && this.engine.store.isAncestor(ancestor, of);
    });
  }

  evolvedFrom(op: OpId, commit: CommitId): Promise<CommitId[]> {
    mutations.checkFullIds([commit]);
    return this.#readAt("evolvedFrom", op, (at) => reads.evolvedFrom(this.engine, at, commit));
  }

  bookmarks(op: OpId): Promise<BookmarkView[]> {
    return this.#readAt("bookmarks", op, (at) => reads.bookmarks(at));
  }

  changedPaths(
    op: OpId,
    from: CommitId,
    to: CommitId,
  ): Promise<{ status: string; path: string }[]> {
    return this.#between("changedPaths", op, from, to, reads.changedPaths);
  }

  conflictedPaths(op: OpId, commit: CommitId): Promise<string[]> {
    mutations.checkFullIds([commit]);
    return this.#readAt("conflictedPaths", op, (at) =>
      reads.conflicts(reads.treeOf(this.engine, at, commit)),
    );
  }

  sameChange(op: OpId, from: CommitId, to: CommitId): Promise<boolean> {
    mutations.checkFullIds([from, to]);
    return this.#readAt("sameChange", op, (at) => recovery.sameChange(this.engine, at, from, to));
  }

  touchedPaths(from: CommitId, to: CommitId): Promise<string[]> {
    mutations.checkFullIds([from, to]);
    const { store } = this.engine;
    return this.#read("touchedPaths", () =>
      recovery.touchedPaths(store.commit(from).tree, store.commit(to).tree),
    );
  }

  differing(commit: CommitId, folder: string, paths: readonly string[]): Promise<string[]> {
    mutations.checkFullIds([commit]);
    return this.#read("differing", () =>
      recovery.differing(this.engine, this.engine.store.commit(commit).tree, folder, paths),
    );
  }

  updateProgress(
    op: OpId,
    from: CommitId,
    to: CommitId,
    folder: string,
  ): ReturnType<JjRepo["updateProgress"]> {
    return this.#between("updateProgress", op, from, to, (a, b) =>
      recovery.updateProgress(this.engine, a, b, folder),
    );
  }

  gitHead(workspaceRoot: string, workspace: string, op: OpId): ReturnType<JjRepo["gitHead"]> {
    return this.#readAt("gitHead", op, (at) =>
      recovery.gitHead(this.engine, workspaceRoot, workspace, at),
    );
  }

  looseFiles(workspaceRoot: string): Promise<LooseFile[]> {
    return this.#read("looseFiles", () => recovery.looseFiles(this.engine, workspaceRoot));
  }

  diff(op: OpId, from: CommitId, to: CommitId): Promise<JjDiff> {
    return this.#between("diff", op, from, to, (a, b) => ({
      stat: reads.diffStat(a, b),
      text: reads.diffText(a, b),
    }));
  }

  statusText(workspaceRoot: string): Promise<string> {
    return this.#read("statusText", () => reads.statusText(this.engine, workspaceRoot));
  }

  probe(workspaceRoot: string, workspace: string, op: OpId): Promise<WorkspaceProbe> {
    return this.#read("probe", () =>
      probe(this.engine, {
        root: workspaceRoot,
        workspace,
        op,
        busy: this.faults.isHeld(workspaceRoot),
        unproved: this.unproved.get(workspaceRoot) ?? null,
      }),
    );
  }

  // ---- mutations ---------------------------------------------------------------------------------------------

  /** Like the real one it records the main workspace's files once, and leaves no workspace behind. */
  async ensureNeutral(token: string): Promise<void> {
    const { files } = this.engine.disk;
    if (files.kindNow(`${this.neutral}/.jj/repo`) !== "absent") return;
    await this.#mutate("ensureNeutral", token, null, () =>
      mutations.makeNeutral(this.engine, this.neutral, token),
    );
  }

  async addWorkspace(input: mutations.NewWorkspace): Promise<void> {
    await this.#mutate("addWorkspace", input.token, null, () => {
      mutations.addWorkspace(this.engine, input, (moment) => {
        if (moment === "tool-files" && this.location.colocated) this.worktrees.add(input.path);
        this.during(moment);
      });
      this.made.push(`workspace ${input.name}`);
      this.during("workspace");
    });
  }

  async forgetWorkspace(name: string, token: string): Promise<void> {
    await this.#mutate("forgetWorkspace", token, null, () => {
      const caller = mutations.fromNeutral(token, `workspace forget ${name}`);
      mutations.forgetWorkspace(this.engine, name, caller);
      this.during("forget");
    });
  }

  async forgetWorktree(path: string): Promise<void> {
    if (this.engine.disk.files.kindNow(path) !== "absent") return;
    this.worktrees.delete(path);
    this.engine.git.remove(path);
  }

  async abandon(commits: readonly CommitId[], token: string): Promise<void> {
    if (commits.length === 0) return;
    await this.#mutate("abandon", token, null, () => {
      const caller = mutations.fromNeutral(token, `abandon ${commits.join("|")}`);
      mutations.abandon(this.engine, commits, caller);
      this.during("abandon");
    });
  }

  async edit(workspaceRoot: string, commit: CommitId, token: string): Promise<void> {
    mutations.checkFullIds([commit]);
    await this.#mutate("edit", token, workspaceRoot, () => {
      recovery.edit(this.engine, this.#inFolder(workspaceRoot, token, `edit ${commit}`), commit);
      this.during("edit");
    });
  }

  async pinCommit(ref: string, commit: CommitId): Promise<void> {
    mutations.checkFullIds([commit]);
    if (!ref.startsWith("refs/kiki/")) throw new Error(`not a ref of kiki's: ${ref}`);
    await this.faults.mutate("pinCommit", null, () => void this.pins.set(ref, commit));
  }

  async setGitHead(workspaceRoot: string, commit: CommitId): Promise<void> {
    mutations.checkFullIds([commit]);
    await this.faults.mutate("setGitHead", null, () => this.engine.git.set(workspaceRoot, commit));
  }

  async createBookmark(name: string, commit: CommitId, token: string, of?: string): Promise<void> {
    await this.#mutate("createBookmark", token, null, () => {
      const caller = mutations.fromNeutral(token, `bookmark create -r ${commit} ${name}`);
      mutations.createBookmark(this.engine, name, { commit, of }, caller);
      this.made.push(`bookmark ${name}`);
      this.during("bookmark");
    });
  }

  async setBookmark(name: string, commit: CommitId, token: string): Promise<void> {
    await this.#mutate("setBookmark", token, null, () => {
      const caller = mutations.fromNeutral(token, `bookmark set -r ${commit} ${name}`);
      recovery.setBookmark(this.engine, name, commit, caller);
      this.during("set-bookmark");
    });
  }

  async deleteBookmark(name: string, token: string): Promise<void> {
    await this.#mutate("deleteBookmark", token, null, () => {
      const caller = mutations.fromNeutral(token, `bookmark delete ${name}`);
      mutations.deleteBookmark(this.engine, name, caller);
      this.during("delete-bookmark");
    });
  }

  async mergeHeads(token: string): Promise<void> {
    await this.#mutate("mergeHeads", token, null, () => {
      this.engine.reconcile(mutations.fromNeutral(token, "op log"));
      this.during("merge-heads");
    });
  }

  async snapshot(workspaceRoot: string, token: string): Promise<void> {
    await this.#mutate("snapshot", token, workspaceRoot, () => {
      this.engine.begin(this.#inFolder(workspaceRoot, token, "util snapshot"));
      this.during("snapshot");
    });
  }

  async updateStale(workspaceRoot: string, token: string): Promise<void> {
    await this.#mutate("updateStale", token, workspaceRoot, () => {
      updateStale(this.engine, this.#inFolder(workspaceRoot, token, "workspace update-stale"));
      this.during("update-stale");
    });
  }

  stageRebase(input: Parameters<JjRepo["stageRebase"]>[0]): Promise<StagedOperation> {
    return this.#mutate("stageRebase", input.token, null, () => {
      const caller = mutations.fromNeutral(input.token, `rebase --onto=${input.onto}`);
      const staged = mutations.stageRebase(this.engine, input, caller);
      this.during("stage");
      return staged;
    });
  }

  async integrate(op: OpId, token: string): Promise<void> {
    await this.#mutate("integrate", token, null, () => {
      reads.operationAt(this.engine, op);
      this.engine.integrate(op, mutations.fromNeutral(token, `op integrate ${op}`));
      this.during("integrate");
    });
  }

  // ---- inside ------------------------------------------------------------------------------------------------

  #now(): Operation {
    return this.engine.newestHead();
  }

  #inFolder(root: string, token: string, command: string): Caller {
    const record = this.engine.disk.record(root);
    if (record === null) throw fail("failed", "jj-failed", `There is no jj repo in "${root}"`);
    const args = `jj --config kiki.token=${token} -R ${root} ${command}`;
    return { args, workspace: record.workspace, root };
  }

  #mutate<T>(method: JjMethod, token: string, root: string | null, body: () => T): Promise<T> {
    return this.faults.mutate(method, root, () => {
      if (!this.attributed(token))
        throw new Error(`token ${token} was not persisted before its command`);
      return body();
    });
  }

  #readAt<T>(method: JjMethod, op: OpId, body: (at: Operation) => T): Promise<T> {
    return this.#read(method, () => body(reads.operationAt(this.engine, op)));
  }

  #between<T>(
    method: JjMethod,
    op: OpId,
    from: CommitId,
    to: CommitId,
    body: (from: ReturnType<typeof reads.treeOf>, to: ReturnType<typeof reads.treeOf>) => T,
  ): Promise<T> {
    mutations.checkFullIds([from, to]);
    return this.#readAt(method, op, (at) =>
      body(reads.treeOf(this.engine, at, from), reads.treeOf(this.engine, at, to)),
    );
  }

  /** A read that made an operation, or moved a head, is a bug of the fake. */
  #read<T>(method: JjMethod, body: () => T): Promise<T> {
    return this.faults.read(method, () => {
      const before = [this.engine.store.operations.size, ...this.engine.heads].join();
      const result = body();
      const after = [this.engine.store.operations.size, ...this.engine.heads].join();
      if (after !== before) throw new Error(`${method} wrote`);
      return result;
    });
  }
}
