/**
 * Watching jj operations: a DAG with possibly several heads, read completely and interpreted parents first. All work
 * of one repository runs on one queue, so a refresh never interleaves with another.
 */
import { changedHeads, forkPoints, nextFrontier, openParents } from "../core/ancestry.ts";
import { attributedTo, interpreter, type Attributions } from "../core/attribution.ts";
import type { OpId } from "../core/ids.ts";
import { isAncestorOp, topologicalOrder, type OpNode } from "../core/op-graph.ts";
import { ROOT_OP } from "../core/ids.ts";
import { errorLine } from "../core/errors.ts";
import type { JjOperation } from "../ports/jj.ts";
import { write } from "../store/db.ts";
import { setCheckpoint, setHead, watchedThreads, type Edge } from "../store/edges.ts";
import {
  abandonedReconciliations,
  attributionOf,
  closeAttribution,
  discoverOp,
  frontier,
  isDiscovered,
  isProcessed,
  markProcessed,
  parentsOf,
  recordWorkspaceHead,
  replaceFrontier,
  unprocessedOps,
  type OpRow,
} from "../store/ops.ts";
import type { CascadeDeps } from "./deps.ts";
import {
  applyInterpretation,
  EdgeMoved,
  interpret,
  transitionsOf,
  type Interpretation,
} from "./interpret.ts";
import { changeIntents } from "./moves.ts";
import type { View, Views } from "./views.ts";

/** First read of the operation log; widened until every parent is known. */
const FIRST_WINDOW_OPS = 64;
/**
 * A repository that never stands still is not read for ever: no further round begins after this long, and the view of
 * the last one is used.
 */
const REFRESH_PATIENCE_MS = 2_000;
/** How long an edge waits for jj's views to meet before it is compared with one of them. */
const ONE_HEAD_PATIENCE_MS = 5_000;
const ONE_HEAD_POLL_MS = 100;

/** Interpretations of one operation whose edges keep moving before that is an error. */
const MAX_EDGE_MOVES = 5;

export class Watcher {
  readonly #deps: CascadeDeps;
  readonly #views: Views;
  #stopWatch: (() => Promise<void>) | null = null;
  readonly #stopping = new AbortController();
  #waking = false;
  state: { events: boolean; reason: string | null } = { events: false, reason: "not started" };

  constructor(deps: CascadeDeps, views: Views) {
    this.#deps = deps;
    this.#views = views;
  }

  /** Filesystem events with a debounce, and polling whatever they do: events are lossy by contract. */
  async start(): Promise<void> {
    const deps = this.#deps;
    const armed = await deps.fsEvents.watch(deps.jj.headsFolder, () => this.#woken());
    this.#stopWatch = () => armed.stop();
    this.state = { events: armed.armed, reason: armed.reason ?? null };
    void this.#pollLoop(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#stopWatch?.();
  }

  #woken(): void {
    if (this.#waking) return;
    this.#waking = true;
    const { clock, settings } = this.#deps;
    clock.sleep(settings.debounceMs, this.#stopping.signal).then(
      () => {
        this.#waking = false;
        this.#refreshQuietly();
      },
      () => undefined, // stopped
    );
  }

  async #pollLoop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#deps.clock.sleep(this.#deps.settings.pollMs, signal);
      } catch {
        return;
      }
      // A listing of one folder: no process is spawned while nothing moves.
      if (!signal.aborted) this.#refreshQuietly();
    }
  }

  #refreshQuietly(): void {
    this.refresh().catch((error: unknown) =>
      this.#deps.log.warn(`reading operations failed: ${errorLine(error)}`),
    );
  }

  /**
   * `RefreshToFrontier`: repeats until the sampled head set is unchanged across the final transaction, a bounded number
   * of times. Returns the interpreted heads; more than one while jj's own views disagree.
   */
  refresh(): Promise<OpId[]> {
    return this.#deps.queues.run(`ops:${this.#deps.repoId}`, () => this.#refreshNow());
  }

  async #refreshNow(): Promise<OpId[]> {
    const { db, jj } = this.#deps;
    const deadline = this.#deps.clock.monotonic() + REFRESH_PATIENCE_MS;
    // At least once, however slow jj is: a baseline and one complete view.
    for (let round = 0; round < 2 || this.#deps.clock.monotonic() < deadline; round += 1) {
      const heads = await jj.heads();
      const known = frontier(db);
      if (known.length === 0) {
        await this.#adoptBaseline(heads);
        continue;
      }
      if (same(heads, known) && unprocessedOps(db).length === 0) {
        await this.#adoptAbandoned(heads);
        return heads;
      }
      await this.#discover(heads);
      await this.#process(heads);
    }
    // Writers that never pause: what was interpreted is one exact, complete view, only not the newest. Whoever pins it
    // compares heads again before changing anything, and a new edge is classified again once its row exists.
    this.#deps.log.info(
      `operations keep arriving in ${this.#deps.repoId}; going on with the last view read`,
    );
    return frontier(db);
  }

  /** Compares edges with the newest single view as it stands, whatever was interpreted when. Idempotent. */
  async classifyNow(which: (edge: Edge) => boolean): Promise<void> {
    await this.#oneHead();
    return this.#deps.queues.run(`ops:${this.#deps.repoId}`, async () => {
      const [op, ...others] = await this.#deps.jj.heads();
      if (op === undefined || others.length > 0) {
        this.#deps.log.warn(`edges of ${this.#deps.repoId} not compared: several operation heads`);
        return;
      }
      await this.#compare(op, which, () => undefined);
    });
  }

  /** Edges as they stand in the view of one operation. `also` runs in the same transaction. */
  async #compare(op: OpId, which: (edge: Edge) => boolean, also: () => void): Promise<void> {
    const view = await this.#views.at(op);
    for (let attempt = 1; ; attempt += 1) {
      const meaning = await interpret(
        this.#deps,
        op,
        transitionsOf(this.#deps, [], view, (edge) => !which(edge)),
      );
      try {
        changeIntents(this.#deps, (changes) => {
          applyInterpretation(this.#deps, changes, meaning);
          also();
        });
        return;
      } catch (error) {
        if (!(error instanceof EdgeMoved) || attempt === MAX_EDGE_MOVES) throw error;
      }
    }
  }

  /**
   * A reconciliation that is stopped from elsewhere (its harness ran a refused tool) never records what its operations
   * did to other edges, and they were read as its own: all edges are compared when it is let go.
   */
  async #adoptAbandoned(heads: readonly OpId[]): Promise<void> {
    const { db } = this.#deps;
    const [op, ...others] = heads;
    const tokens = abandonedReconciliations(db);
    if (tokens.length === 0 || op === undefined || others.length > 0) return;
    await this.#compare(
      op,
      () => true,
      () => {
        for (const token of tokens) closeAttribution(db, token);
      },
    );
  }

  /** Two heads are normal for moments, until the next jj command merges them. Bounded. */
  async #oneHead(): Promise<void> {
    const { clock, jj } = this.#deps;
    const deadline = clock.monotonic() + ONE_HEAD_PATIENCE_MS;
    while ((await jj.heads()).length > 1 && clock.monotonic() < deadline) {
      await clock.sleep(ONE_HEAD_POLL_MS);
    }
  }

  /** A repository's past, before its first thread, has no edges to classify: recorded as interpreted. */
  async #adoptBaseline(heads: readonly OpId[]): Promise<void> {
    const found = new Map<OpId, JjOperation>();
    for (const head of heads) {
      for (const op of await this.#deps.jj.operations(head, Number.MAX_SAFE_INTEGER))
        found.set(op.id, op);
    }
    const now = this.#deps.clock.now();
    write(this.#deps.db, () => {
      for (const op of found.values()) {
        discoverOp(this.#deps.db, toRow(op, null), now);
        markProcessed(this.#deps.db, op.id, now);
      }
      replaceFrontier(this.#deps.db, heads);
    });
  }

  /** Every operation reachable from a head that is not known yet, with every parent edge, durable before use. */
  async #discover(heads: readonly OpId[]): Promise<void> {
    const { db, jj } = this.#deps;
    const found = new Map<OpId, JjOperation>();
    for (const head of heads) {
      if (isDiscovered(db, head)) continue;
      for (let window = FIRST_WINDOW_OPS; ; window *= 4) {
        const batch = await jj.operations(head, window);
        for (const op of batch) if (!isDiscovered(db, op.id)) found.set(op.id, op);
        const open = openParents(found, (id) => id === ROOT_OP || isDiscovered(db, id));
        if (open.length === 0 || batch.length < window) break;
      }
    }
    const now = this.#deps.clock.now();
    write(db, () => {
      for (const op of found.values()) {
        discoverOp(db, toRow(op, attributedTo(op, this.#attributions())), now);
      }
    });
  }

  /** `op`: its token was recorded when it was discovered, whatever its arguments say. */
  #attributions(op: OpRow | null = null): Attributions {
    return {
      isLive: (token) => attributionOf(this.#deps.db, token)?.live ?? null,
      stagedAs: (id) => (op?.opId === id ? op.token : null),
    };
  }

  /** Interprets what is discovered, parents before children, each operation in one transaction with its evidence. */
  async #process(heads: readonly OpId[]): Promise<void> {
    const { db } = this.#deps;
    const open = new Map(unprocessedOps(db).map((op) => [op.opId, op]));
    const nodes = new Map<OpId, OpNode>(
      [...open].map(([id, op]) => [id, { id, parents: op.parents }]),
    );
    for (const node of topologicalOrder(nodes, new Set())) {
      await this.#processOne(open.get(node.id)!);
    }
    // A listing may still show an operation that has a successor: what counts is where the histories end.
    const ends = nextFrontier(
      heads,
      (id) => parentsOf(db, id),
      (id) => isProcessed(db, id),
    );
    const only = ends.length === 1 ? ends[0]! : null;
    const latest = only === null ? null : await this.#views.at(only);
    const moved = only === null ? [] : await this.#followedBookmarks(only);
    write(db, () => {
      replaceFrontier(db, ends);
      // Where several views disagree no cached head is better than another: they stay until jj's views meet again.
      if (latest !== null) this.#cacheHeads(only!, latest);
      for (const m of moved) setCheckpoint(db, m.threadId, m.commit);
    });
  }

  async #processOne(op: OpRow): Promise<void> {
    const { db } = this.#deps;
    if (isProcessed(db, op.opId)) return;
    const after = await this.#views.at(op.opId);
    const before: View[] = [];
    for (const parent of op.parents) before.push(await this.#views.at(parent));
    const forks: View[] = [];
    if (op.parents.length > 1) {
      for (const fork of forkPoints(op.parents, (id) => parentsOf(db, id)))
        forks.push(await this.#views.at(fork));
    }
    // A live token means its handler owes the interpretation, and records it together with its own result.
    const handled = interpreter({ id: op.opId, args: "" }, this.#attributions(op)) === "handler";
    for (let attempt = 1; ; attempt += 1) {
      const meaning: Interpretation = handled
        ? { op: op.opId, edges: [] }
        : await interpret(
            this.#deps,
            op.opId,
            transitionsOf(this.#deps, before, after, () => false, forks),
          );
      try {
        this.#recordOne(op, before, after, meaning);
        return;
      } catch (error) {
        // A boundary bound or finished an intent of the edge meanwhile.
        if (!(error instanceof EdgeMoved) || attempt === MAX_EDGE_MOVES) throw error;
      }
    }
  }

  #recordOne(op: OpRow, before: readonly View[], after: View, meaning: Interpretation): void {
    const { db } = this.#deps;
    changeIntents(this.#deps, (changes) => {
      for (const { workspace, head } of changedHeads(before, after)) {
        recordWorkspaceHead(db, {
          opId: op.opId,
          workspace,
          changeId: head?.changeId ?? null,
          commitId: head?.commitId ?? null,
        });
      }
      applyInterpretation(this.#deps, changes, meaning);
      markProcessed(db, op.opId, this.#deps.clock.now());
    });
  }

  #cacheHeads(op: OpId, view: View): void {
    for (const thread of watchedThreads(this.#deps.db)) {
      const head = view.get(thread.workspaceName);
      if (head === undefined || head.commitId === thread.head) continue;
      setHead(this.#deps.db, thread.threadId, { commit: head.commitId, change: head.changeId, op });
    }
  }

  /** Bookmarks that jj moved with a recorded rewrite of their commit: same change id, one visible successor. */
  async #followedBookmarks(op: OpId): Promise<{ threadId: string; commit: string }[]> {
    const moved: { threadId: string; commit: string }[] = [];
    const bookmarks = await this.#deps.jj.bookmarks(op);
    const byName = new Map(bookmarks.map((b) => [b.name, b.targets]));
    for (const thread of watchedThreads(this.#deps.db)) {
      const targets = byName.get(thread.bookmark) ?? [];
      const target = targets[0];
      if (thread.checkpoint === null || targets.length !== 1 || target === undefined) continue;
      if (target === thread.checkpoint) continue;
      const [old, fresh] = await Promise.all([
        this.#deps.jj.existing(op, [thread.checkpoint]),
        this.#deps.jj.existing(op, [target]),
      ]);
      if (
        old[0] !== undefined &&
        fresh[0] !== undefined &&
        old[0].changeId === fresh[0].changeId &&
        !fresh[0].divergent
      ) {
        moved.push({ threadId: thread.threadId, commit: target });
      }
    }
    return moved;
  }

  /** `ancestor` is an ancestor of, or equal to, `of` in what has been read so far. */
  isAncestor(ancestor: OpId, of: OpId): boolean {
    return isAncestorOp(ancestor, of, (id) => parentsOf(this.#deps.db, id));
  }
}

function toRow(op: JjOperation, token: string | null): OpRow {
  return {
    opId: op.id,
    parents: op.parents,
    description: op.description,
    isSnapshot: op.isSnapshot,
    workspaceName: op.workspaceName,
    token,
  };
}

function same(a: readonly OpId[], b: readonly OpId[]): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}
