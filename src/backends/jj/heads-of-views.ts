/**
 * The `@`s of many operations at once. The operation store's files say which commit each workspace is at; what jj knows
 * of those commits never changes, so one command answers for all that are new, and they are kept.
 */
import type { CommitId, OpId } from "../../core/ids.ts";
import { ROOT_OP } from "../../core/ids.ts";
import type { WorkspaceHead } from "../../ports/jj.ts";
import { read } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { OpStore } from "./op-store.ts";
import type { StoredView } from "./protobuf.ts";
import { workspaces } from "./reads.ts";
import { IDENTITY_TEMPLATE, parseIdentities } from "./templates.ts";

type Identity = Omit<WorkspaceHead, "workspace">;

/** Commits whose identity is kept in memory. */
const MAX_KEPT = 20_000;
/** Ids in one revset; an argument may have 128 KiB on Linux. */
const MAX_IDS_PER_COMMAND = 500;

export class HeadsOfViews {
  readonly #ctx: JjContext;
  readonly #store: OpStore;
  readonly #identities = new Map<CommitId, Identity>();

  constructor(ctx: JjContext) {
    this.#ctx = ctx;
    this.#store = new OpStore(ctx.location.repoDir);
  }

  /** Remembers what any answer of jj's said of commits. Returns the answer. */
  learn<C extends Identity>(commits: C[]): C[] {
    for (const { commitId, changeId, parents } of commits)
      this.#identities.set(commitId, { commitId, changeId, parents });
    return commits;
  }

  async read(ops: readonly OpId[]): Promise<Map<OpId, WorkspaceHead[]>> {
    const stored = new Map(ops.map((op) => [op, this.#stored(op)]));
    // Newest first: the last one's index also knows the commits of all it descends from.
    for (const op of [...ops].reverse()) {
      const view = stored.get(op) ?? null;
      if (view === null || this.#unknown([view]).length === 0) continue;
      await this.#identify(op, this.#unknown(stored.values()));
    }
    const found = new Map<OpId, WorkspaceHead[]>();
    for (const [op, view] of stored) {
      const heads = view === null ? null : this.#heads(view);
      // Another kind of store, or a commit only jj can make sense of: jj is asked about that operation itself.
      found.set(op, heads ?? (await workspaces(this.#ctx, op)));
    }
    if (this.#identities.size > MAX_KEPT) this.#identities.clear();
    return found;
  }

  /** Without a process; null when the files do not say. */
  commitsOf(op: OpId): ReadonlyMap<string, CommitId> | null {
    return this.#stored(op)?.workspaces ?? null;
  }

  /** null when these files do not say. */
  #stored(op: OpId): StoredView | null {
    if (op === ROOT_OP) return { workspaces: new Map(), gitHeads: new Map() };
    try {
      return this.#store.isKnownType() ? this.#store.view(op) : null;
    } catch {
      return null;
    }
  }

  #unknown(views: Iterable<StoredView | null>): CommitId[] {
    const missing = new Set<CommitId>();
    for (const view of views) {
      for (const commit of view?.workspaces.values() ?? [])
        if (!this.#identities.has(commit)) missing.add(commit);
    }
    return [...missing];
  }

  async #identify(op: OpId, commits: readonly CommitId[]): Promise<void> {
    for (let at = 0; at < commits.length; at += MAX_IDS_PER_COMMAND) {
      const part = commits.slice(at, at + MAX_IDS_PER_COMMAND).map((id) => `present(${id})`);
      const args = ["log", "--no-graph", `--revision=${part.join("|")}`, "-T", IDENTITY_TEMPLATE];
      const text = await read(this.#ctx, op, "look up working-copy commits", args);
      this.learn(parseIdentities(text));
    }
  }

  /** In jj's own order. null when a commit is not known. */
  #heads(view: StoredView): WorkspaceHead[] | null {
    const heads: WorkspaceHead[] = [];
    for (const [workspace, commit] of view.workspaces) {
      const identity = this.#identities.get(commit);
      if (identity === undefined) return null;
      heads.push({ workspace, ...identity });
    }
    return heads.sort((a, b) => (a.workspace < b.workspace ? -1 : 1));
  }
}
