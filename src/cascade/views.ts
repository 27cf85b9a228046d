/** Views of operations (which commit every workspace's `@` is at), cached: an operation never changes. */
import type { OpId } from "../core/ids.ts";
import { ROOT_OP } from "../core/ids.ts";
import type { JjRepo, WorkspaceView } from "../ports/jj.ts";

export type View = ReadonlyMap<string, WorkspaceView>;

/** Operations whose view is kept in memory. */
const MAX_CACHED_VIEWS = 64;

export class Views {
  readonly #jj: JjRepo;
  readonly #cache = new Map<OpId, View>();

  constructor(jj: JjRepo) {
    this.#jj = jj;
  }

  async at(op: OpId): Promise<View> {
    const hit = this.#cache.get(op);
    if (hit !== undefined) return hit;
    const rows = op === ROOT_OP ? [] : await this.#jj.workspaces(op);
    const view: View = new Map(rows.map((w) => [w.workspace, w]));
    if (this.#cache.size >= MAX_CACHED_VIEWS) {
      const oldest = this.#cache.keys().next().value;
      if (oldest !== undefined) this.#cache.delete(oldest);
    }
    this.#cache.set(op, view);
    return view;
  }
}
