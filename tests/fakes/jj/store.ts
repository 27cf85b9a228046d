/** Commits and operations of the fake jj: written once, never changed. Ids are hashes of a counter: no order in them. */
import { createHash } from "node:crypto";
import { fail } from "../../../src/core/errors.ts";
import { ROOT_OP, type ChangeId, type CommitId, type OpId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { JjOperation } from "../../../src/ports/jj.ts";
import { EMPTY_TREE, mergeTrees, sameTree, type Tree } from "./tree.ts";

export interface Commit {
  readonly id: CommitId;
  readonly change: ChangeId;
  readonly parents: readonly CommitId[];
  readonly description: string;
  readonly tree: Tree;
  readonly predecessors: readonly CommitId[];
  /** Parents have lower ones. */
  readonly seq: number;
  /** Number of the operation that made it known; null while git alone knows it. */
  op: number | null;
}

/** Alternates add, remove, add; one element when there is no conflict; null is "no commit". */
export type Target = readonly (CommitId | null)[];

export interface View {
  heads: Set<CommitId>;
  workspaces: Map<string, CommitId>;
  bookmarks: Map<string, Target>;
  /** What jj believes git HEAD of a colocated workspace to be. */
  gitHeads: Map<string, CommitId>;
}

export interface Operation extends JjOperation {
  readonly seq: number;
  readonly view: View;
  /** Bit per operation number: itself and everything it is made from. */
  readonly history: Uint32Array;
}

/** What a view makes visible, worked out once. */
export interface ViewIndex {
  visible: ReadonlySet<CommitId>;
  byChange: ReadonlyMap<ChangeId, readonly CommitId[]>;
  children: ReadonlyMap<CommitId, readonly CommitId[]>;
}

export class JjStore {
  readonly commits = new Map<CommitId, Commit>();
  readonly operations = new Map<OpId, Operation>();
  /** By `seq`. */
  readonly #bySeq: Operation[] = [];
  readonly #indexes = new WeakMap<View, ViewIndex>();
  #nextCommit = 1;
  #nextOperation = 1;

  constructor() {
    this.commits.set(ROOT_COMMIT, {
      id: ROOT_COMMIT,
      change: "z".repeat(32),
      parents: [],
      description: "",
      tree: EMPTY_TREE,
      predecessors: [],
      seq: 0,
      op: 0,
    });
    this.#keep({
      id: ROOT_OP,
      parents: [],
      description: "",
      isSnapshot: false,
      workspaceName: null,
      args: "",
      seq: 0,
      view: {
        heads: new Set([ROOT_COMMIT]),
        workspaces: new Map(),
        bookmarks: new Map(),
        gitHeads: new Map(),
      },
      history: new Uint32Array([1]),
    });
  }

  commit(id: CommitId): Commit {
    const commit = this.commits.get(id);
    if (commit === undefined) throw fail("failed", "jj-revset", `Revision \`${id}\` doesn't exist`);
    return commit;
  }

  /** Strict: only a full id names an operation. */
  operation(id: OpId): Operation {
    const operation = this.operations.get(id);
    if (operation === undefined)
      throw fail("failed", "jj-op-missing", `No operation ID matching "${id}"`);
    return operation;
  }

  addCommit(of: {
    change?: ChangeId;
    parents: readonly CommitId[];
    description: string;
    tree: Tree;
    predecessors?: readonly CommitId[];
  }): Commit {
    const seq = this.#nextCommit;
    this.#nextCommit += 1;
    const commit: Commit = {
      id: hex("sha1", `commit ${seq}`),
      change: of.change ?? reverseHex(hex("md5", `change ${seq}`)),
      parents: of.parents,
      description: of.description,
      tree: of.tree,
      predecessors: of.predecessors ?? [],
      seq,
      op: null,
    };
    this.commits.set(commit.id, commit);
    return commit;
  }

  addOperation(of: Omit<JjOperation, "id">, view: View, newCommits: Iterable<CommitId>): Operation {
    const seq = this.#nextOperation;
    this.#nextOperation += 1;
    const history = new Uint32Array((seq >> 5) + 1);
    history[seq >> 5]! |= 1 << (seq & 31);
    for (const parent of of.parents) {
      this.operation(parent).history.forEach((bits, at) => (history[at]! |= bits));
    }
    const operation = { ...of, id: hex("sha512", `operation ${seq}`), seq, view, history };
    this.#keep(operation);
    for (const id of newCommits) this.commit(id).op ??= seq;
    return operation;
  }

  #keep(operation: Operation): void {
    this.operations.set(operation.id, operation);
    this.#bySeq.push(operation);
  }

  /** The newest operation that all of `heads` have in their history. */
  commonOperation(heads: readonly Operation[]): Operation {
    let seq = Math.min(...heads.map((head) => head.seq));
    while (!heads.every((head) => hasBit(head.history, seq))) seq -= 1;
    return this.#bySeq[seq]!;
  }

  /** What a merge of `other` starts from (jj 0.46): the newest operation of its history that any of `merged` has too. */
  nearestCommon(merged: readonly Operation[], other: Operation): Operation {
    const common = merged.map((one) => this.commonOperation([one, other]));
    return common.reduce((a, b) => (b.seq > a.seq ? b : a));
  }

  /** `ancestor` is `of` or in its history. */
  isAncestorOp(ancestor: Operation, of: Operation): boolean {
    return hasBit(of.history, ancestor.seq);
  }

  /** jj finds a commit by its full id when some operation up to `op` made it, hidden or not. */
  knows(op: Operation, id: CommitId): boolean {
    const made = this.commits.get(id)?.op;
    return made !== undefined && made !== null && hasBit(op.history, made);
  }

  isAncestor(ancestor: CommitId, of: CommitId): boolean {
    const lowest = this.commit(ancestor).seq;
    const seen = new Set<CommitId>();
    const queue = [of];
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
      if (id === ancestor) return true;
      if (seen.has(id)) continue;
      seen.add(id);
      for (const parent of this.commit(id).parents) {
        if (this.commit(parent).seq >= lowest) queue.push(parent);
      }
    }
    return false;
  }

  /** The commits themselves and everything below them. */
  ancestors(of: Iterable<CommitId>): Set<CommitId> {
    const seen = new Set<CommitId>(of);
    for (const id of seen) for (const parent of this.commit(id).parents) seen.add(parent);
    return seen;
  }

  index(view: View): ViewIndex {
    const known = this.#indexes.get(view);
    if (known !== undefined) return known;
    const visible = this.ancestors(view.heads);
    const byChange = new Map<ChangeId, CommitId[]>();
    const children = new Map<CommitId, CommitId[]>();
    for (const id of visible) {
      const commit = this.commit(id);
      push(byChange, commit.change, id);
      for (const parent of commit.parents) push(children, parent, id);
    }
    const index = { visible, byChange, children };
    this.#indexes.set(view, index);
    return index;
  }

  /** Tree below a commit: its parents' trees, merged where there are several. */
  parentTree(parents: readonly CommitId[]): Tree {
    const [first, ...others] = parents;
    if (first === undefined) return EMPTY_TREE;
    let tree = this.commit(first).tree;
    const merged = [first];
    for (const id of others) {
      const common = [...this.ancestors(merged)].filter((a) => this.isAncestor(a, id));
      const nearest = common.filter((a) => !common.some((b) => b !== a && this.isAncestor(a, b)));
      const label = (what: string): string => `${what} of a merge`;
      tree = mergeTrees(tree, this.parentTree(nearest), this.commit(id).tree, [
        label(first),
        label("base"),
        label(id),
      ]);
      merged.push(id);
    }
    return tree;
  }

  isEmpty(commit: Commit): boolean {
    return sameTree(commit.tree, this.parentTree(commit.parents));
  }
}

/** Not yet indexed copy; views of operations never change. */
export function copyView(view: View): View {
  return {
    heads: new Set(view.heads),
    workspaces: new Map(view.workspaces),
    bookmarks: new Map(view.bookmarks),
    gitHeads: new Map(view.gitHeads),
  };
}

function push<K>(map: Map<K, CommitId[]>, key: K, id: CommitId): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [id]);
  else list.push(id);
}

function hasBit(bits: Uint32Array, at: number): boolean {
  return ((bits[at >> 5] ?? 0) & (1 << (at & 31))) !== 0;
}

function hex(algorithm: string, text: string): string {
  return createHash(algorithm).update(text).digest("hex");
}

/** jj writes change ids with z for 0 … k for f. */
function reverseHex(digits: string): string {
  return digits.replace(/./g, (digit) => "zyxwvutsrqponmlk"[Number.parseInt(digit, 16)]!);
}
