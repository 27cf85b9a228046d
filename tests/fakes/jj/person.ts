/**
 * Somebody at the fake jj who knows nothing of kiki: a person or an agent in one workspace. Every command does what
 * jj does there: merges heads, imports git HEAD, records the files, changes the view, brings the files along.
 */
import { fail } from "../../../src/core/errors.ts";
import { ROOT_OP, type CommitId, type OpId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { Caller, JjEngine } from "./engine.ts";
import { moveCommits } from "./mutations.ts";
import type { Commit } from "./store.ts";
import type { Transaction } from "./transaction.ts";
import { EMPTY_TREE } from "./tree.ts";
import { updateStale } from "./update-stale.ts";

export class FakePerson {
  readonly root: string;
  readonly #engine: JjEngine;
  readonly #workspace: string;
  readonly #at: OpId | null;

  /** `at`: every command runs with `--at-op`, on that operation and without files. */
  constructor(engine: JjEngine, workspace: string, at: OpId | null = null) {
    const root = engine.roots.get(workspace);
    if (root === undefined) throw new Error(`no workspace ${workspace}`);
    this.#engine = engine;
    this.#workspace = workspace;
    this.#at = at;
    this.root = root;
  }

  // ---- files -------------------------------------------------------------------------------------------------

  write(path: string, text: string, mode = 0o644): this {
    this.#engine.disk.files.put(`${this.root}/${path}`, text, mode);
    return this;
  }

  symlink(target: string, path: string): this {
    this.#engine.disk.files.symlink(target, `${this.root}/${path}`);
    return this;
  }

  remove(path: string): this {
    const full = `${this.root}/${path}`;
    const { files } = this.#engine.disk;
    if (files.entryNow(full) === null && !files.isFolder(full)) throw new Error(`no ${full}`);
    void files.removeTree(full);
    files.remove(full);
    return this;
  }

  read(path: string): string | null {
    return this.#engine.disk.files.get(`${this.root}/${path}`);
  }

  // ---- jj ----------------------------------------------------------------------------------------------------

  /** `@` by the newest operation. */
  get head(): CommitId {
    const id = this.#engine.newestHead().view.workspaces.get(this.#workspace);
    if (id === undefined) throw new Error(`jj records no workspace ${this.#workspace}`);
    return id;
  }

  /** `jj st`, `jj log`, …: any command that only records the files. */
  status(): void {
    this.#engine.begin(this.#caller("st"));
  }

  /** Edits files and lets jj record them. */
  amend(files: Record<string, string>): CommitId {
    for (const [path, text] of Object.entries(files)) this.write(path, text);
    this.status();
    return this.head;
  }

  describe(description: string, commit?: CommitId): void {
    this.#run(`describe -m ${description}`, (tx, at) => {
      const old = this.#mutable(commit ?? at);
      tx.rewrite(old, { description });
      return `describe commit ${old.id}`;
    });
  }

  new(options: { on?: readonly CommitId[]; message?: string } = {}): void {
    this.#run("new", (tx, at) => {
      const { on: parents = [at], message: description = "" } = options;
      tx.edit(this.#workspace, tx.write({ parents, description }).id);
      return "new empty commit";
    });
  }

  edit(commit: CommitId): void {
    this.#run(`edit ${commit}`, (tx) => {
      tx.edit(this.#workspace, this.#mutable(commit).id);
      return `edit commit ${commit}`;
    });
  }

  commit(description: string): void {
    this.#run(`commit -m ${description}`, (tx, at) => {
      const done = tx.rewrite(this.#mutable(at), { description });
      tx.view.workspaces.set(this.#workspace, tx.write({ parents: [done.id] }).id);
      return `commit ${at}`;
    });
  }

  /** `@` into its parent, whose description stays. */
  squash(): void {
    this.#run("squash -u", (tx, at) => {
      const source = this.#mutable(at);
      const into = this.#mutable(source.parents[0]!);
      tx.rewrite(into, { tree: source.tree, alsoFrom: [source.id] });
      tx.abandon(source);
      return `squash commits into ${into.id}`;
    });
  }

  abandon(commit: CommitId): void {
    this.#run(
      `abandon ${commit}`,
      (tx) => {
        tx.abandon(this.#mutable(commit));
        return `abandon commit ${commit}`;
      },
      true,
    );
  }

  /** `-s`: the commit and everything on it; `-r`: it alone. */
  rebase(which: "-s" | "-r", commit: CommitId, onto: CommitId): void {
    this.#run(`rebase ${which} ${commit} -o ${onto}`, (tx, _at, view) => {
      this.#mutable(commit);
      const { visible } = this.#engine.store.index(view);
      const chain = [...visible].filter(
        (id) => id === commit || (which === "-s" && this.#engine.store.isAncestor(commit, id)),
      );
      moveCommits(this.#engine, tx, view, { chain, onto });
      return `rebase commit ${commit}${which === "-s" ? " and descendants" : ""}`;
    });
  }

  bookmark(name: string, commit: CommitId): void {
    this.#run(`bookmark set ${name}`, (tx) => {
      tx.view.bookmarks.set(name, [commit]);
      tx.addHead(commit); // a hidden one comes back
      return `point bookmark ${name} to commit ${commit}`;
    });
  }

  deleteBookmark(name: string): void {
    this.#run(`bookmark delete ${name}`, (tx) => {
      tx.view.bookmarks.delete(name);
      return `delete bookmark ${name}`;
    });
  }

  renameBookmark(from: string, to: string): void {
    this.#run(`bookmark rename ${from} ${to}`, (tx) => {
      tx.view.bookmarks.set(to, tx.view.bookmarks.get(from)!);
      tx.view.bookmarks.delete(from);
      return `rename bookmark ${from} to ${to}`;
    });
  }

  /** Refuses, as jj does, what another workspace did. */
  undo(): void {
    const caller = this.#caller("undo");
    this.#engine.run(caller, (tx, head) => {
      // An undo after an undo goes one further back.
      const before = /^undo: restore to operation (\w+)$/.exec(head.description)?.[1];
      const op = before === undefined ? head : this.#engine.store.operation(before);
      const [parent] = op.parents;
      if (parent === undefined || parent === ROOT_OP || op.parents.length > 1)
        throw fail("failed", "jj-failed", "Cannot undo a merge operation");
      if (op.workspaceName !== this.#workspace)
        throw fail("failed", "jj-failed", "Refusing to undo another workspace's operation");
      tx.restore(this.#engine.store.operation(parent).view);
      return `undo: restore to operation ${parent}`;
    });
  }

  restoreOperation(id: OpId): void {
    this.#run(`op restore ${id}`, (tx) => {
      tx.restore(this.#engine.store.operation(id).view);
      return `restore to operation ${id}`;
    });
  }

  updateStale(): void {
    updateStale(this.#engine, this.#caller("workspace update-stale"));
  }

  forget(name = this.#workspace): void {
    this.#run(`workspace forget ${name}`, (tx) => {
      tx.leave(name);
      tx.view.workspaces.delete(name);
      return `forget workspace ${name}`;
    });
  }

  // ---- git ---------------------------------------------------------------------------------------------------

  /** `git add -A && git commit`: jj hears of it when it next runs here. */
  gitCommit(message: string): CommitId {
    const { store, git, disk } = this.#engine;
    const head = git.head(this.root);
    if (head === undefined) throw new Error(`${this.root} is not colocated`);
    const tree = disk.snapshot(this.root, head === null ? EMPTY_TREE : store.commit(head).tree);
    const parents = [head ?? ROOT_COMMIT];
    const commit = store.addCommit({ parents, description: message, tree });
    git.set(this.root, commit.id);
    return commit.id;
  }

  #run(
    command: string,
    body: (
      tx: Transaction,
      at: CommitId,
      view: ReturnType<JjEngine["newestHead"]>["view"],
    ) => string,
    deleteBookmarksOfAbandoned = false,
  ): void {
    this.#engine.run(
      this.#caller(command),
      (tx, op) => body(tx, op.view.workspaces.get(this.#workspace)!, op.view),
      { deleteBookmarksOfAbandoned, ...(this.#at === null ? {} : { at: this.#at }) },
    );
  }

  #mutable(id: CommitId): Commit {
    const op =
      this.#at === null ? this.#engine.newestHead() : this.#engine.store.operation(this.#at);
    this.#engine.checkMutable(op.view, [id]);
    return this.#engine.store.commit(id);
  }

  #caller(command: string): Caller {
    return {
      args: `jj ${this.#at === null ? "" : `--at-op ${this.#at} `}${command}`,
      workspace: this.#workspace,
      root: this.#at === null ? this.root : null,
    };
  }
}
