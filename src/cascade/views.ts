/** Views of operations (which commit every workspace's `@` is at), cached: an operation never changes. */
import { forkPoints, halfAdded, type ParentsOf } from "../core/ancestry.ts";
import type { OpId } from "../core/ids.ts";
import { ROOT_OP } from "../core/ids.ts";
import type { JjRepo, WorkspaceHead, WorkspaceView } from "../ports/jj.ts";

export type View = ReadonlyMap<string, WorkspaceView>;
/** A view without what only jj itself can tell; many of them come in one read. */
export type Heads = ReadonlyMap<string, WorkspaceHead>;

/** Operations whose view is kept in memory. */
const MAX_CACHED_VIEWS = 64;
const MAX_CACHED_HEADS = 1_024;

export class Views {
  readonly #jj: JjRepo;
  readonly #whole = new Map<OpId, View>();
  readonly #heads = new Map<OpId, Heads>();

  constructor(jj: JjRepo) {
    this.#jj = jj;
  }

  async at(op: OpId): Promise<View> {
    const hit = this.#whole.get(op);
    if (hit !== undefined) return hit;
    const rows = op === ROOT_OP ? [] : await this.#jj.workspaces(op);
    const view: View = new Map(rows.map((w) => [w.workspace, w]));
    keep(this.#whole, op, view, MAX_CACHED_VIEWS);
    return view;
  }

  /** The heads of many operations, by one read for those that are not known; `ops` in the order of `workspaceHeads`. */
  async load(ops: readonly OpId[]): Promise<void> {
    const missing = ops.filter((op) => op !== ROOT_OP && !this.#heads.has(op));
    if (missing.length === 0) return;
    for (const [op, rows] of await this.#jj.workspaceHeads(missing))
      keep(this.#heads, op, new Map(rows.map((w) => [w.workspace, w])), MAX_CACHED_HEADS);
  }

  async heads(op: OpId): Promise<Heads> {
    if (op === ROOT_OP) return new Map();
    await this.load([op]);
    return this.#heads.get(op) ?? new Map();
  }

  /** The heads after an operation, without workspaces that are only half added in it. */
  async settled(op: OpId, parents: readonly OpId[]): Promise<Heads> {
    const after = await this.heads(op);
    const before: Heads[] = [];
    for (const parent of parents) before.push(await this.heads(parent));
    const half = halfAdded(before, after);
    if (half.size === 0) return after;
    return new Map([...after].filter(([workspace]) => !half.has(workspace)));
  }

  /**
   * The heads where the histories of each two of an operation's parents part, by the parents' places. Never those where
   * all of them part: three operations that jj merges at once (0.46) seldom part at one point.
   */
  async forks(
    parents: readonly OpId[],
    parentsOf: ParentsOf,
  ): Promise<(one: number, other: number) => readonly Heads[]> {
    const found = new Map<string, Heads[]>();
    for (const [other, id] of parents.entries()) {
      for (const [one, earlier] of parents.slice(0, other).entries()) {
        const views: Heads[] = [];
        for (const fork of forkPoints([earlier, id], parentsOf)) views.push(await this.heads(fork));
        found.set(`${one} ${other}`, views);
      }
    }
    return (one, other) => found.get(`${Math.min(one, other)} ${Math.max(one, other)}`) ?? [];
  }
}

function keep<T>(cache: Map<OpId, T>, op: OpId, value: T, most: number): void {
  if (cache.size >= most) {
    const oldest = cache.keys().next().value;
    if (oldest !== undefined) cache.delete(oldest);
  }
  cache.set(op, value);
}
