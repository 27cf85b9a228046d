/** How a jj command runs in the fake: load the heads (merging them), look at the files, change the view, write back. */
import { fail } from "../../../src/core/errors.ts";
import { ROOT_OP, short, type CommitId, type OpId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { JjOperation, RepoLocation } from "../../../src/ports/jj.ts";
import type { FakeFiles } from "../files.ts";
import { JjDisk, type DiskRecord } from "./disk.ts";
import { GitHeads } from "./git-heads.ts";
import { mergeView } from "./op-merge.ts";
import { JjStore, type Operation, type View } from "./store.ts";
import { addsOf } from "./targets.ts";
import { Transaction } from "./transaction.ts";
import { sameTree, type Tree } from "./tree.ts";

/** Who runs a command and where. */
export interface Caller {
  args: string;
  /** Name recorded in the operation; null for none. */
  workspace: string | null;
  /** Folder whose files the command looks at and may change; null from kiki's neutral folder. */
  root: string | null;
}

export interface PublishOptions {
  isSnapshot?: boolean;
  deleteBookmarksOfAbandoned?: boolean;
  /** Operations the new one stands on; default the one the transaction began at. */
  parents?: readonly OpId[];
  /** False for `--no-integrate-operation`. */
  integrate?: boolean;
  /** `--at-op`: the command sees this operation alone, and no files. */
  at?: OpId;
}

export class JjEngine {
  readonly store = new JjStore();
  readonly disk: JjDisk;
  readonly git: GitHeads;
  readonly location: RepoLocation;
  readonly heads = new Set<OpId>([ROOT_OP]);
  /** Recorded path of each workspace; like jj's, not operation-versioned. */
  readonly roots = new Map<string, string>();
  /** `immutable_heads()` beyond what is trunk. Repository configuration, not operation-versioned. */
  readonly immutableHeads = new Set<CommitId>();
  /** Operations whose record was garbage-collected. */
  readonly lost = new Set<OpId>();
  /** Told of moments inside a command. */
  onMoment: (moment: string) => void = () => undefined;
  readonly #immutable = new WeakMap<View, ReadonlySet<CommitId>>();

  constructor(files: FakeFiles, location: RepoLocation) {
    this.disk = new JjDisk(files);
    this.location = location;
    this.git = new GitHeads(files, location);
  }

  // ---- operations --------------------------------------------------------------------------------------------

  /** The newest published head; with several, none of them is *the* view. */
  newestHead(): Operation {
    const all = [...this.heads].map((id) => this.store.operation(id));
    return all.reduce((a, b) => (b.seq > a.seq ? b : a));
  }

  /** What every command but a pure read does first: one operation with all heads as parents. */
  reconcile(caller: Caller): Operation {
    const heads = [...this.heads].map((id) => this.store.operation(id));
    heads.sort((a, b) => a.seq - b.seq);
    const [first, ...others] = heads;
    if (others.length === 0) return first!;
    const tx = new Transaction(this.store, first!.view);
    const merged = [first!];
    for (const other of others) {
      const base = this.store.nearestCommon(merged, other);
      mergeView(this.store, tx, base.view, other.view);
      tx.rebaseDescendants();
      merged.push(other);
    }
    const away = { ...caller, root: null }; // a merge leaves git HEAD alone
    return this.publish(tx, first!, "reconcile divergent operations", away, {
      parents: heads.map(({ id }) => id),
    });
  }

  /** Makes an operation of a transaction; descendants follow, immutable `@`s get a commit on top. */
  publish(
    tx: Transaction,
    base: Operation,
    description: string,
    caller: Caller,
    options: PublishOptions = {},
  ): Operation {
    tx.rebaseDescendants(options);
    for (const [name, id] of tx.view.workspaces) {
      if (id !== ROOT_COMMIT && this.immutableIn(tx.view).has(id)) tx.checkOut(name, id);
    }
    tx.rebaseDescendants(options);
    tx.normaliseHeads();
    const at = caller.workspace === null ? undefined : tx.view.workspaces.get(caller.workspace);
    if (caller.root !== null && at !== undefined && options.isSnapshot !== true)
      this.git.reset(caller.root, caller.workspace!, tx.view, this.store.commit(at).parents);
    const parents = [...(options.parents ?? [base.id])];
    const operation = this.store.addOperation(
      {
        parents,
        description,
        isSnapshot: options.isSnapshot ?? false,
        workspaceName: caller.workspace,
        args: caller.args,
      },
      tx.view,
      tx.made,
    );
    if (options.integrate !== false) this.#integrate(operation);
    return operation;
  }

  #integrate(operation: Operation): void {
    for (const parent of operation.parents) this.heads.delete(parent);
    this.heads.add(operation.id);
  }

  /** `jj op integrate`. Nothing when it is part of the history already; otherwise heads are merged at once. */
  integrate(id: OpId, caller: Caller): Operation {
    const operation = this.store.operation(id);
    const head = this.reconcile(caller);
    if (this.store.isAncestorOp(operation, head)) return head;
    this.#integrate(operation);
    return this.reconcile(caller);
  }

  immutableIn(view: View): ReadonlySet<CommitId> {
    const heads = [
      ROOT_COMMIT,
      ...this.immutableHeads,
      ...addsOf(view.bookmarks.get("main") ?? []),
    ];
    const known = this.#immutable.get(view);
    // Published views never change, but the configuration may; the views of transactions do.
    if (known !== undefined && heads.every((id) => known.has(id))) return known;
    const immutable = this.store.ancestors(heads);
    this.#immutable.set(view, immutable);
    return immutable;
  }

  checkMutable(view: View, ids: readonly CommitId[]): void {
    const { visible } = this.store.index(view);
    for (const { id } of ids.map((each) => this.store.commit(each))) {
      if (this.immutableIn(view).has(id))
        throw fail("failed", "jj-immutable", `Commit ${short(id)} is immutable`);
      if (!visible.has(id))
        throw fail("failed", "jj-failed", `Commit ${short(id)} is hidden: it would come back`);
    }
  }

  // ---- files -------------------------------------------------------------------------------------------------

  /** Start of a command: heads merged, git's commits imported, the files recorded. Throws `jj-stale`. */
  begin(caller: Caller): Operation {
    let op = this.reconcile(caller);
    const { root, workspace } = caller;
    if (root === null || workspace === null || !op.view.workspaces.has(workspace)) return op;
    op = this.importGitHead(op, caller);
    const record = this.#record(root);
    const freshness = this.freshness(record, op, workspace);
    if (freshness !== "fresh") {
      throw fail(
        "failed",
        freshness === "stale" ? "jj-stale" : "jj-failed",
        `The working copy is ${freshness} (not updated since operation ${short(record.op)})`,
      );
    }
    return this.snapshot(op, caller);
  }

  freshness(
    record: DiskRecord,
    op: Operation,
    workspace: string,
  ): "fresh" | "stale" | "sibling" | "lost" {
    const from = this.store.operations.get(record.op);
    if (from === undefined || this.lost.has(record.op)) return "lost";
    if (this.store.isAncestorOp(op, from)) return "fresh";
    if (!this.store.isAncestorOp(from, op)) return "sibling";
    return sameTree(record.tree, this.treeOf(op.view, workspace)) ? "fresh" : "stale";
  }

  treeOf(view: View, workspace: string): Tree {
    return this.store.commit(view.workspaces.get(workspace)!).tree;
  }

  /** `op` with the files recorded in `@`; `op` itself when there is nothing to record. */
  snapshot(op: Operation, caller: Caller): Operation {
    const [root, workspace] = [caller.root!, caller.workspace!];
    const record = this.#record(root);
    const tree = this.disk.snapshot(root, record.tree);
    const at = this.store.commit(op.view.workspaces.get(workspace)!);
    if (sameTree(tree, at.tree)) {
      if (record.op !== op.id || record.tree !== at.tree)
        this.disk.setRecord(root, { op: op.id, workspace, tree: at.tree });
      return op;
    }
    const tx = new Transaction(this.store, op.view);
    if (this.immutableIn(op.view).has(at.id)) {
      tx.edit(workspace, tx.write({ parents: [at.id], tree }).id);
    } else tx.rewrite(at, { tree });
    const next = this.publish(tx, op, "snapshot working copy", caller, { isSnapshot: true });
    this.onMoment("snapshot-published");
    this.disk.setRecord(root, { op: next.id, workspace, tree });
    return next;
  }

  /** A git HEAD that jj did not set becomes the parent of a new `@`; the files stay as they are. */
  importGitHead(op: Operation, caller: Caller): Operation {
    const [root, workspace] = [caller.root!, caller.workspace!];
    const actual = this.git.head(root);
    if (actual === undefined || actual === (op.view.gitHeads.get(workspace) ?? null)) return op;
    const tx = new Transaction(this.store, op.view);
    if (actual === null) {
      tx.view.gitHeads.delete(workspace);
      return this.publish(tx, op, "import git head", { ...caller, root: null });
    }
    tx.view.gitHeads.set(workspace, actual);
    for (const id of this.store.ancestors([actual]))
      if (this.store.commit(id).op === null) tx.made.add(id);
    tx.addHead(actual);
    const { tree } = tx.checkOut(workspace, actual);
    const next = this.publish(tx, op, "import git head", { ...caller, root: null });
    this.disk.setRecord(root, { op: next.id, workspace, tree });
    return next;
  }

  /** A whole command: `body` changes the view; nothing changed makes no operation. The caller's files follow. */
  run(
    caller: Caller,
    body: (tx: Transaction, op: Operation) => string,
    options: PublishOptions = {},
  ): Operation {
    const op = options.at === undefined ? this.begin(caller) : this.store.operation(options.at);
    const tx = new Transaction(this.store, op.view);
    const description = body(tx, op);
    tx.rebaseDescendants(options);
    tx.normaliseHeads();
    if (tx.made.size === 0 && sameView(tx.view, op.view)) return op;
    const next = this.publish(tx, op, description, caller, options);
    this.updateFiles(next, caller);
    return next;
  }

  /** Brings the caller's files to its `@`; returns the paths jj left alone. */
  updateFiles(op: Operation, caller: Caller): string[] {
    const { root, workspace } = caller;
    if (root === null || workspace === null || !op.view.workspaces.has(workspace)) return [];
    const tree = this.treeOf(op.view, workspace);
    const skipped = this.disk.update(root, this.#record(root).tree, tree);
    this.onMoment("files-updated");
    this.disk.setRecord(root, { op: op.id, workspace, tree });
    return skipped;
  }

  #record(root: string): DiskRecord {
    const record = this.disk.record(root);
    if (record === null) throw fail("failed", "jj-failed", `There is no jj repo in "${root}"`);
    return record;
  }
}

/** Operation of a command that leaves no trace of who ran it: the first half of `workspace add`. */
export function anonymous(caller: Caller): Caller {
  return { ...caller, args: "", workspace: null, root: null };
}

/** What `JjRepo.operations` shows of one. */
export function shownOperation(operation: Operation): JjOperation {
  const { id, parents, description, isSnapshot, workspaceName, args } = operation;
  return { id, parents: [...parents], description, isSnapshot, workspaceName, args };
}

function sameView(a: View, b: View): boolean {
  return (
    a.heads.size === b.heads.size &&
    [...a.heads].every((id) => b.heads.has(id)) &&
    sameMap(a.workspaces, b.workspaces, (x, y) => x === y) &&
    sameMap(a.bookmarks, b.bookmarks, (x, y) => x.join() === y.join())
  );
}

function sameMap<V>(
  a: ReadonlyMap<string, V>,
  b: ReadonlyMap<string, V>,
  same: (x: V, y: V) => boolean,
): boolean {
  return (
    a.size === b.size &&
    [...a].every(([key, value]) => {
      const other = b.get(key);
      return other !== undefined && same(value, other);
    })
  );
}
