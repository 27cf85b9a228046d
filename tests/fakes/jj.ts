/**
 * A jj repository in memory, as far as making threads needs it: operations with full views, workspaces, bookmarks,
 * rewrites that carry descendants along. Stricter than jj: a mutation whose token was not persisted first, a base
 * that is hidden, or a name that is taken is an error.
 */
import { fail } from "../../src/core/errors.ts";
import { ROOT_OP, type CommitId, type OpId } from "../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../src/core/revset.ts";
import type {
  BookmarkView,
  CommitView,
  JjOperation,
  JjRepo,
  RepoLocation,
  StagedOperation,
  WorkspaceProbe,
  WorkspaceView,
} from "../../src/ports/jj.ts";
import type { FakeFiles } from "./files.ts";

interface Commit {
  id: CommitId;
  change: string;
  parents: CommitId[];
  description: string;
  files: Record<string, string>;
}

interface View {
  visible: Set<CommitId>;
  workspaces: Map<string, CommitId>;
  bookmarks: Map<string, CommitId>;
}

export class FakeJj implements JjRepo {
  readonly location: RepoLocation;
  readonly headsFolder = "/repo/.jj/repo/op_heads/heads";
  /** Every successful creation, for "nothing twice". */
  readonly made: string[] = [];
  /** Folders in git's list of worktrees. */
  readonly worktrees = new Set<string>();
  /** Whether a token is persisted; set by the world to look into the database. */
  attributed: (token: string) => boolean = () => true;
  /** Called in the middle of `addWorkspace` (`folder`, `tool-files`, `first-operation`) and after every mutation. */
  during: (moment: string) => void = () => undefined;
  readonly #files: FakeFiles;
  readonly #commits = new Map<CommitId, Commit>();
  readonly #operations: (JjOperation & { view: View })[] = [];
  readonly #roots = new Map<string, string>();
  #next = 1;

  constructor(files: FakeFiles, repoRoot = "/src/calc") {
    this.#files = files;
    this.location = {
      workspaceRoot: repoRoot,
      repoRoot,
      repoDir: `${repoRoot}/.jj/repo`,
      colocated: true,
    };
    this.#commits.set(ROOT_COMMIT, {
      id: ROOT_COMMIT,
      change: "z".repeat(32),
      parents: [],
      description: "",
      files: {},
    });
    const view: View = {
      visible: new Set([ROOT_COMMIT]),
      workspaces: new Map(),
      bookmarks: new Map(),
    };
    this.#operations.push({ ...blank(ROOT_OP, []), view });
  }

  // ---- what tests do as a person or an agent -----------------------------------------------------------------

  get head(): OpId {
    return this.#operations.at(-1)!.id;
  }

  /** A workspace that was there before kiki, with a new change on `parents`. */
  personWorkspace(
    name: string,
    root: string,
    parents: readonly CommitId[] = [ROOT_COMMIT],
  ): CommitId {
    const id = this.#commit({ parents: [...parents], description: "", files: {} });
    this.#roots.set(name, root);
    this.#files.makeFolders(root);
    this.#operate("", (view) => {
      view.visible.add(id);
      view.workspaces.set(name, id);
    });
    return id;
  }

  /** A commit outside every workspace. */
  personCommit(
    parent: CommitId,
    description: string,
    files: Record<string, string> = {},
  ): CommitId {
    const id = this.#commit({ parents: [parent], description, files });
    this.#operate("", (view) => view.visible.add(id));
    return id;
  }

  personBookmark(name: string, commit: CommitId): void {
    this.#operate("", (view) => view.bookmarks.set(name, commit));
  }

  /** Rewrites a workspace's `@`; descendants, workspaces and bookmarks come along. */
  amend(workspace: string, files: Record<string, string>): CommitId {
    const old = this.#now().workspaces.get(workspace)!;
    let fresh = old;
    this.#operate("", (view) => {
      fresh = this.#rewrite(view, old, { files: { ...this.#commits.get(old)!.files, ...files } });
    });
    return fresh;
  }

  at(workspace: string): CommitId | null {
    return this.#now().workspaces.get(workspace) ?? null;
  }

  bookmark(name: string): CommitId | null {
    return this.#now().bookmarks.get(name) ?? null;
  }

  isVisible(commit: CommitId): boolean {
    return this.#now().visible.has(commit);
  }

  /** What `jj workspace forget` by a person does. */
  personForget(name: string): void {
    this.#operate("", (view) => view.workspaces.delete(name));
  }

  /** A record without a folder, or with one kiki never made. */
  personRecord(name: string, root: string, commit: CommitId): void {
    this.#roots.set(name, root);
    this.#operate("", (view) => view.workspaces.set(name, commit));
  }

  // ---- reads -------------------------------------------------------------------------------------------------

  async heads(): Promise<OpId[]> {
    return [this.head];
  }

  async operations(head: OpId, limit: number): Promise<JjOperation[]> {
    const upTo = this.#operations.findIndex((op) => op.id === head) + 1;
    return this.#operations
      .slice(0, upTo)
      .reverse()
      .slice(0, limit)
      .map(({ view: _view, ...op }) => op);
  }

  async operationExists(id: OpId): Promise<boolean> {
    return this.#operations.some((op) => op.id === id);
  }

  async workspaces(op: OpId): Promise<WorkspaceView[]> {
    const view = this.#viewAt(op);
    return [...view.workspaces].map(([workspace, id]) => ({
      workspace,
      root: this.#roots.get(workspace) ?? null,
      ...this.#commitView(view, id),
    }));
  }

  async commits(op: OpId, revset: string): Promise<CommitView[]> {
    const view = this.#viewAt(op);
    const ids = this.#resolve(view, revset);
    return ids.map((id) => this.#commitView(view, id));
  }

  #resolve(view: View, revset: string): CommitId[] {
    const at = /^"(.+)"@(-?)$/.exec(revset);
    if (at !== null) {
      const head = view.workspaces.get(at[1]!);
      if (head === undefined) throw fail("failed", "jj-revset", `no workspace ${at[1]}`);
      return at[2] === "-" ? this.#commits.get(head)!.parents : [head];
    }
    if (revset === "trunk()") return [view.bookmarks.get("main") ?? ROOT_COMMIT];
    if (revset === "all()") return [...view.visible];
    if (revset === "none()") return [];
    const named = view.bookmarks.get(revset) ?? (this.#commits.has(revset) ? revset : null);
    if (named === null) throw fail("failed", "jj-revset", `Revision \`${revset}\` doesn't exist`);
    return [named];
  }

  async existing(op: OpId, ids: readonly CommitId[]): Promise<CommitView[]> {
    const view = this.#viewAt(op);
    return ids.filter((id) => this.#commits.has(id)).map((id) => this.#commitView(view, id));
  }

  async isAncestor(_op: OpId, ancestor: CommitId, of: CommitId): Promise<boolean> {
    return ancestor === of || this.#commits.get(of)!.parents.includes(ancestor);
  }

  async evolvedFrom(_op: OpId, commit: CommitId): Promise<CommitId[]> {
    return [commit]; // nothing is rewritten in this model
  }

  async bookmarks(op: OpId): Promise<BookmarkView[]> {
    return [...this.#viewAt(op).bookmarks].map(([name, id]) => ({ name, targets: [id] }));
  }

  async changedPaths(
    _op: OpId,
    from: CommitId,
    to: CommitId,
  ): Promise<{ status: string; path: string }[]> {
    if (from !== ROOT_COMMIT) throw new Error("only from the root commit");
    return Object.keys(this.#tree(to)).map((path) => ({ status: "A", path }));
  }

  async probe(workspaceRoot: string, workspace: string, op: OpId): Promise<WorkspaceProbe> {
    const id = this.#viewAt(op).workspaces.get(workspace) ?? null;
    const tree = id === null ? {} : this.#tree(id);
    const present = await this.#files.listFiles(workspaceRoot, [".jj", ".git"]);
    // `*.ignored` files are what jj does not look at.
    const changed = [...new Set([...Object.keys(tree), ...present])]
      .filter((path) => !path.endsWith(".ignored"))
      .filter((path) => this.#files.get(`${workspaceRoot}/${path}`) !== (tree[path] ?? null))
      .map((path) => `M ${path}`);
    return {
      state: changed.length === 0 ? "FreshClean" : "FreshDirty",
      fingerprint: changed.join(),
      checkoutOp: op,
      recordedCommit: id,
      changed,
      reason: null,
    };
  }

  // ---- mutations ---------------------------------------------------------------------------------------------

  async ensureNeutral(): Promise<void> {}

  async addWorkspace(input: Parameters<JjRepo["addWorkspace"]>[0]): Promise<void> {
    const { name, path, base, token } = input;
    this.#check(token);
    if (this.#now().workspaces.has(name)) {
      throw fail("failed", "jj-workspace-exists", `Workspace named '${name}' already exists`);
    }
    const kind = this.#files.kindNow(path);
    if (kind !== "absent" && kind !== "empty-folder") throw new Error(`${path} is not empty`);
    if (!this.#now().visible.has(base)) throw new Error(`${base} is hidden: it would come back`);
    this.#files.makeFolders(path);
    this.during("folder");
    this.#files.put(`${path}/.jj/repo`, "../../calc/.jj/repo");
    this.#files.put(`${path}/.git`, "gitdir: elsewhere");
    this.worktrees.add(path);
    this.during("tool-files");
    const temporary = this.#commit({ parents: [ROOT_COMMIT], description: "", files: {} });
    this.#roots.set(name, path);
    // The first of the two operations carries no arguments (jj 0.46).
    this.#operate("", (view) => {
      view.visible.add(temporary);
      view.workspaces.set(name, temporary);
    });
    this.during("first-operation");
    const id = this.#commit({ parents: [base], description: input.description, files: {} });
    this.#operate(`jj workspace add --config kiki.token=${token}`, (view) => {
      view.visible.delete(temporary);
      view.visible.add(id);
      view.workspaces.set(name, id);
    });
    for (const [file, text] of Object.entries(this.#tree(id)))
      this.#files.put(`${path}/${file}`, text);
    this.made.push(`workspace ${name}`);
    this.during("workspace");
  }

  async forgetWorkspace(name: string, token: string): Promise<void> {
    this.#check(token);
    if (!this.#now().workspaces.has(name)) throw new Error(`No such workspace: ${name}`);
    this.#operate(`jj workspace forget --config kiki.token=${token}`, (view) => {
      const id = view.workspaces.get(name)!;
      view.workspaces.delete(name);
      const commit = this.#commits.get(id)!;
      if (commit.description === "" && Object.keys(commit.files).length === 0)
        view.visible.delete(id);
    });
    this.during("forget");
  }

  async forgetWorktree(path: string): Promise<void> {
    if (this.#files.kindNow(path) === "absent") this.worktrees.delete(path);
  }

  async abandon(commits: readonly CommitId[], token: string): Promise<void> {
    this.#check(token);
    this.#operate(`jj abandon --config kiki.token=${token}`, (view) => {
      for (const id of commits) {
        view.visible.delete(id);
        for (const [workspace, head] of view.workspaces) {
          if (head !== id) continue;
          const { parents } = this.#commits.get(id)!;
          const fresh = this.#commit({ parents, description: "", files: {} });
          view.visible.add(fresh);
          view.workspaces.set(workspace, fresh);
        }
      }
    });
    this.during("abandon");
  }

  async createBookmark(name: string, commit: CommitId, token: string): Promise<void> {
    this.#check(token);
    if (this.#now().bookmarks.has(name)) {
      throw fail("failed", "jj-bookmark-exists", "Bookmark already exists");
    }
    if (!this.#now().visible.has(commit))
      throw new Error(`${commit} is hidden: it would come back`);
    this.#operate(`jj bookmark create --config kiki.token=${token}`, (view) =>
      view.bookmarks.set(name, commit),
    );
    this.made.push(`bookmark ${name}`);
    this.during("bookmark");
  }

  async deleteBookmark(name: string, token: string): Promise<void> {
    this.#check(token);
    this.#operate(`jj bookmark delete --config kiki.token=${token}`, (view) =>
      view.bookmarks.delete(name),
    );
    this.during("delete-bookmark");
  }

  // ---- not part of making a thread ---------------------------------------------------------------------------

  conflictedPaths(): Promise<string[]> {
    throw new Error("not in this fake");
  }
  diff(): Promise<string> {
    throw new Error("not in this fake");
  }
  diffStat(): Promise<string> {
    throw new Error("not in this fake");
  }
  statusText(): Promise<string> {
    throw new Error("not in this fake");
  }
  snapshot(): Promise<void> {
    throw new Error("not in this fake");
  }
  updateStale(): Promise<void> {
    throw new Error("not in this fake");
  }
  stageRebase(): Promise<StagedOperation> {
    throw new Error("not in this fake");
  }
  integrate(): Promise<void> {
    throw new Error("not in this fake");
  }

  // ---- inside ------------------------------------------------------------------------------------------------

  #now(): View {
    return this.#operations.at(-1)!.view;
  }

  #viewAt(op: OpId): View {
    const found = this.#operations.find((o) => o.id === op);
    if (found === undefined)
      throw fail("failed", "jj-op-missing", `No operation ID matching ${op}`);
    return found.view;
  }

  #check(token: string): void {
    if (!this.attributed(token))
      throw new Error(`token ${token} was not persisted before its command`);
  }

  #operate(args: string, change: (view: View) => unknown): void {
    const before = this.#operations.at(-1)!;
    const view: View = {
      visible: new Set(before.view.visible),
      workspaces: new Map(before.view.workspaces),
      bookmarks: new Map(before.view.bookmarks),
    };
    change(view);
    const id = this.#next.toString(16).padStart(128, "0");
    this.#next += 1;
    this.#operations.push({ ...blank(id, [before.id]), args, view });
  }

  #commit(of: Omit<Commit, "id" | "change"> & { change?: string }): CommitId {
    const id = this.#next.toString(16).padStart(40, "c");
    const change = of.change ?? this.#next.toString(16).padStart(32, "k");
    this.#next += 1;
    this.#commits.set(id, { ...of, id, change });
    return id;
  }

  #rewrite(view: View, old: CommitId, to: Partial<Commit>): CommitId {
    const before = this.#commits.get(old)!;
    const fresh = this.#commit({ ...before, ...to, change: before.change });
    view.visible.delete(old);
    view.visible.add(fresh);
    for (const [name, id] of view.workspaces) if (id === old) view.workspaces.set(name, fresh);
    for (const [name, id] of view.bookmarks) if (id === old) view.bookmarks.set(name, fresh);
    const children = [...view.visible].filter((id) => this.#commits.get(id)!.parents.includes(old));
    for (const id of children) {
      const { parents } = this.#commits.get(id)!;
      this.#rewrite(view, id, { parents: parents.map((p) => (p === old ? fresh : p)) });
    }
    return fresh;
  }

  /** Files of a commit: its own over its ancestors'. */
  #tree(id: CommitId): Record<string, string> {
    const commit = this.#commits.get(id)!;
    return Object.assign({}, ...commit.parents.map((p) => this.#tree(p)), commit.files) as Record<
      string,
      string
    >;
  }

  #commitView(view: View, id: CommitId): CommitView {
    const commit = this.#commits.get(id)!;
    const twins = [...view.visible].filter((v) => this.#commits.get(v)!.change === commit.change);
    return {
      commitId: id,
      changeId: commit.change,
      parents: commit.parents,
      description: commit.description,
      conflict: false,
      empty: Object.keys(commit.files).length === 0,
      divergent: twins.length > 1,
      immutable: id === ROOT_COMMIT,
      hidden: !view.visible.has(id),
    };
  }
}

function blank(id: OpId, parents: OpId[]): JjOperation {
  return { id, parents, description: "", isSnapshot: false, workspaceName: null, args: "" };
}
