/**
 * One change of a view in the making, as jj's `MutableRepo`: rewrites are noted, then descendants, workspaces and
 * bookmarks follow them. Nothing of it is visible until an operation is made of it.
 */
import type { CommitId } from "../../../src/core/ids.ts";
import { copyView, type Commit, type JjStore, type View } from "./store.ts";
import { addsOf, isAbsent, mergeTargets, replacedBy } from "./targets.ts";
import { mergeTrees, type Tree } from "./tree.ts";

type Rewrite = { kind: "rewritten" | "divergent" | "abandoned"; to: readonly CommitId[] };

export interface CommitChange {
  parents?: readonly CommitId[];
  tree?: Tree;
  description?: string;
  /** Besides the commit itself: where a squash takes from. */
  alsoFrom?: readonly CommitId[];
}

export class Transaction {
  readonly view: View;
  readonly made = new Set<CommitId>();
  readonly #store: JjStore;
  readonly #rewrites = new Map<CommitId, Rewrite>();

  constructor(store: JjStore, base: View) {
    this.#store = store;
    this.view = copyView(base);
  }

  /** A new commit; a copy of the parents' tree unless `tree` is given. */
  write(of: { parents: readonly CommitId[]; description?: string; tree?: Tree }): Commit {
    const commit = this.#store.addCommit({
      parents: of.parents,
      description: of.description ?? "",
      tree: of.tree ?? this.#store.parentTree(of.parents),
    });
    this.#show(commit);
    return commit;
  }

  rewrite(old: Commit, to: CommitChange): Commit {
    const commit = this.#store.addCommit({
      change: old.change,
      parents: to.parents ?? old.parents,
      description: to.description ?? old.description,
      tree: to.tree ?? old.tree,
      predecessors: [old.id, ...(to.alsoFrom ?? [])],
    });
    this.#show(commit);
    this.setRewritten(old.id, [commit.id]);
    return commit;
  }

  /** The same change on other parents, with the difference it makes. */
  rebase(old: Commit, parents: readonly CommitId[]): Commit {
    const short = (id: CommitId): string => id.slice(0, 8);
    const tree = mergeTrees(
      this.#store.parentTree(parents),
      this.#store.parentTree(old.parents),
      old.tree,
      [
        `${parents.map(short).join()} (rebase destination)`,
        `${old.parents.map(short).join()} (parents of rebased revision)`,
        `${short(old.id)} (rebased revision)`,
      ],
    );
    return this.rewrite(old, { parents, tree });
  }

  setRewritten(old: CommitId, to: readonly CommitId[]): void {
    this.#rewrites.set(old, { kind: to.length === 1 ? "rewritten" : "divergent", to });
  }

  abandon(commit: Commit): void {
    this.#rewrites.set(commit.id, { kind: "abandoned", to: commit.parents });
  }

  /** The whole view as it was in an earlier operation; what git was last told stays. */
  restore(view: View): void {
    const { gitHeads: _gitHeads, ...rest } = copyView(view);
    Object.assign(this.view, rest);
  }

  addHead(id: CommitId): void {
    this.view.heads.add(id);
  }

  /** Moves a workspace's `@`; an empty, undescribed commit that nothing else needs goes with it. */
  edit(workspace: string, id: CommitId): void {
    this.leave(workspace);
    this.view.workspaces.set(workspace, id);
    this.addHead(id);
  }

  checkOut(workspace: string, parent: CommitId, description = ""): Commit {
    this.leave(workspace);
    const commit = this.write({ parents: [parent], description });
    this.view.workspaces.set(workspace, commit.id);
    return commit;
  }

  /** jj drops the `@` a workspace leaves when it is discardable, a head, and neither bookmarked nor another's `@`. */
  leave(workspace: string): void {
    const id = this.view.workspaces.get(workspace);
    if (id === undefined) return;
    const commit = this.#store.commit(id);
    const used =
      [...this.view.workspaces].some(([name, other]) => name !== workspace && other === id) ||
      [...this.view.bookmarks.values()].some((target) => addsOf(target).includes(id));
    const isHead = ![...this.visible()].some((v) => this.#store.commit(v).parents.includes(id));
    if (!used && isHead && commit.description === "" && this.#store.isEmpty(commit))
      this.abandon(commit);
  }

  visible(): Set<CommitId> {
    return this.#store.ancestors(this.view.heads);
  }

  /** Descendants of what was rewritten or abandoned move, then workspaces and bookmarks. Returns how many moved. */
  rebaseDescendants(options: { deleteBookmarksOfAbandoned?: boolean } = {}): number {
    if (this.#rewrites.size === 0) return 0;
    const order = [...this.visible()].map((id) => this.#store.commit(id));
    order.sort((a, b) => a.seq - b.seq);
    let moved = 0;
    for (const commit of order) {
      if (this.#rewrites.has(commit.id)) continue;
      const parents = this.#newParents(commit.parents);
      if (parents.every((id, at) => id === commit.parents[at])) continue;
      this.rebase(commit, parents);
      moved += 1;
    }
    this.#moveReferences(options.deleteBookmarksOfAbandoned ?? false);
    for (const old of this.#rewrites.keys()) {
      this.view.heads.delete(old);
      for (const parent of this.#store.commit(old).parents)
        if (!this.#rewrites.has(parent)) this.addHead(parent);
    }
    this.#rewrites.clear();
    return moved;
  }

  /** Heads that lie below another head are none. */
  normaliseHeads(): void {
    const below = new Set<CommitId>();
    for (const head of this.view.heads)
      for (const parent of this.#store.commit(head).parents) below.add(parent);
    const covered = this.#store.ancestors(below);
    for (const head of this.view.heads) if (covered.has(head)) this.view.heads.delete(head);
  }

  #show(commit: Commit): void {
    this.made.add(commit.id);
    this.addHead(commit.id);
  }

  /** A divergent rewrite takes nobody along. */
  #newParents(parents: readonly CommitId[]): CommitId[] {
    const follow = (id: CommitId): readonly CommitId[] => {
      const rewrite = this.#rewrites.get(id);
      return rewrite === undefined || rewrite.kind === "divergent"
        ? [id]
        : rewrite.to.flatMap(follow);
    };
    return [...new Set(parents.flatMap(follow))];
  }

  #finally(id: CommitId): readonly CommitId[] {
    const rewrite = this.#rewrites.get(id);
    return rewrite === undefined
      ? [id]
      : [...new Set(rewrite.to.flatMap((to) => this.#finally(to)))];
  }

  #moveReferences(deleteBookmarksOfAbandoned: boolean): void {
    const isAncestor = (a: CommitId, b: CommitId): boolean => this.#store.isAncestor(a, b);
    for (const [old, { kind }] of this.#rewrites) {
      const to = this.#finally(old);
      const workspaces = [...this.view.workspaces].filter(([, id]) => id === old);
      if (workspaces.length > 0) {
        const at = kind === "abandoned" ? this.write({ parents: to }).id : to[0]!;
        for (const [name] of workspaces) this.view.workspaces.set(name, at);
      }
      for (const [name, target] of this.view.bookmarks) {
        if (!addsOf(target).includes(old)) continue;
        const gone = kind === "abandoned" && deleteBookmarksOfAbandoned;
        const next = mergeTargets(target, [old], replacedBy(old, gone ? [] : to), isAncestor);
        if (isAbsent(next)) this.view.bookmarks.delete(name);
        else this.view.bookmarks.set(name, next);
      }
    }
  }
}
