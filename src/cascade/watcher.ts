/**
 * Watching jj operations: a DAG with possibly several heads, read completely and interpreted parents first. All work
 * of one repository runs on one queue, so a refresh never interleaves with another.
 */
import { changedHeads, nextFrontier, openParents } from "../core/ancestry.ts";
import { attributedTo, interpreter, type Attributions } from "../core/attribution.ts";
import type { OpId } from "../core/ids.ts";
import { isAncestorOp, topologicalOrder, type OpNode } from "../core/op-graph.ts";
import { ROOT_OP } from "../core/ids.ts";
import type { BookmarkView, JjOperation } from "../ports/jj.ts";
import { write } from "../store/db.ts";
import { setCheckpoint, setHead, watchedThreads, type Edge } from "../store/edges.ts";
import {
  abandonedTokens,
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
import { bookmarkCommits, followedBookmarks } from "./followed-bookmarks.ts";
import {
  applyInterpretation,
  EdgeMoved,
  interpret,
  readAhead,
  readTogether,
  transitionsOf,
  type Interpretation,
} from "./interpret.ts";
import { changeIntents } from "./moves.ts";
import { meetHeads } from "./one-head.ts";
import type { Related } from "./related.ts";
import type { Heads, Views } from "./views.ts";
import { Wake, type Watching } from "./wake.ts";

/** First read of the operation log; widened until every parent is known. */
const FIRST_WINDOW_OPS = 64;
/**
 * A repository that never stands still is not read for ever: no further round begins after this long, and the view of
 * the last one is used.
 */
const REFRESH_PATIENCE_MS = 2_000;
/** Operations whose heads are read at once. */
const HEADS_PER_READ = 256;
/** Operations jj is asked about at the same time. More would only take the agents' share of a small machine. */
const READ_AHEAD = 3;
/** Interpretations of one operation whose edges keep moving before that is an error. */
const MAX_EDGE_MOVES = 5;

/** One operation as it was read, before its turn to be interpreted. */
interface OpReading {
  before: readonly Heads[];
  after: Heads;
  /** As edges and attributions are now. */
  transitions: () => ReturnType<typeof transitionsOf>;
  related: Related;
}

export class Watcher {
  readonly #deps: CascadeDeps;
  readonly #views: Views;
  readonly #wake: Wake;

  readonly #mayRun: (token: string) => boolean;

  /** `mayRun`: a token whose command may not have ended. */
  constructor(deps: CascadeDeps, views: Views, mayRun: (token: string) => boolean) {
    this.#mayRun = mayRun;
    this.#deps = deps;
    this.#views = views;
    this.#wake = new Wake(deps, async () => {
      const before = frontier(deps.db).join();
      return (await this.refresh()).join() !== before;
    });
  }

  start(): Promise<void> {
    return this.#wake.start();
  }

  stop(): Promise<void> {
    return this.#wake.stop();
  }

  get state(): Watching {
    return this.#wake.state;
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
      // Beside the operation log: of the newest view both are wanted in any case.
      const bookmarks = heads.length === 1 ? jj.bookmarks(heads[0]!) : null;
      bookmarks?.catch(() => undefined); // it is awaited in its turn, unless what comes before it fails
      await this.#discover(heads);
      await this.#process(heads, bookmarks);
    }
    // Writers that never pause: what was interpreted is one exact, complete view, only not the newest. Whoever pins it
    // compares heads again before changing anything, and a new edge is classified again once its row exists.
    this.#deps.log.info(
      `operations keep arriving in ${this.#deps.repoId}; going on with the last view read`,
    );
    const last = frontier(db);
    await this.#adoptAbandoned(last);
    return last;
  }

  /** Compares edges with the newest single view as it stands, whatever was interpreted when. Idempotent. */
  async classifyNow(which: (edge: Edge) => boolean): Promise<void> {
    await meetHeads(this.#deps);
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
    const view = await this.#views.settled(op, parentsOf(this.#deps.db, op));
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
   * did to other edges, and they were read as its own: all edges are compared when it is let go. So it is with a
   * snapshot at a turn's end, whose record this is, after a crash as well.
   */
  async #adoptAbandoned(heads: readonly OpId[]): Promise<void> {
    const { db } = this.#deps;
    const [op, ...others] = heads;
    const tokens = abandonedTokens(db).filter((token) => !this.#mayRun(token));
    if (tokens.length === 0 || op === undefined || others.length > 0) return;
    await this.#compare(
      op,
      () => true,
      () => {
        for (const token of tokens) closeAttribution(db, token);
      },
    );
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
  async #process(
    heads: readonly OpId[],
    ofHead: Promise<readonly BookmarkView[]> | null,
  ): Promise<void> {
    const { db, jj } = this.#deps;
    const open = new Map(unprocessedOps(db).map((op) => [op.opId, op]));
    const nodes = new Map<OpId, OpNode>(
      [...open].map(([id, op]) => [id, { id, parents: op.parents }]),
    );
    const order = topologicalOrder(nodes, new Set());
    if (order.length === 1 && ofHead !== null) await this.#readAtOnce(order[0]!, await ofHead);
    for (let at = 0; at < order.length; at += HEADS_PER_READ) {
      const part = order.slice(at, at + HEADS_PER_READ);
      await this.#load(part);
      await this.#processPart(part.map((node) => open.get(node.id)!));
    }
    // A listing may still show an operation that has a successor: what counts is where the histories end.
    const ends = nextFrontier(
      heads,
      (id) => parentsOf(db, id),
      (id) => isProcessed(db, id),
    );
    const only = ends.length === 1 ? ends[0]! : null;
    const latest = only === null ? null : await this.#views.settled(only, parentsOf(db, only));
    const bookmarks = only === null ? [] : await (ofHead ?? jj.bookmarks(only));
    const moved = only === null ? [] : await followedBookmarks(this.#deps, only, bookmarks);
    write(db, () => {
      replaceFrontier(db, ends);
      // Where several views disagree no cached head is better than another: they stay until jj's views meet again.
      if (latest !== null) this.#cacheHeads(only!, latest);
      for (const m of moved) setCheckpoint(db, m.threadId, m.commit);
    });
  }

  /**
   * The everyday case, one new operation: by one read all that its interpretation will ask about commits. What it then
   * asks finds its answer kept.
   */
  async #readAtOnce(op: OpNode, bookmarks: readonly BookmarkView[]): Promise<void> {
    const { db, jj } = this.#deps;
    const commits = await jj.workspaceCommits(op.id);
    if (commits === null || op.parents.length !== 1) return;
    const before = await this.#views.heads(op.parents[0]!);
    await readTogether(this.#deps, op.id, before, commits, bookmarkCommits(db, bookmarks));
  }

  /** By one read what each of these operations is compared with and shows, oldest first. */
  #load(ops: readonly OpNode[]): Promise<void> {
    const wanted = new Set(ops.flatMap((op) => [...op.parents, op.id]));
    return this.#views.load([...wanted]);
  }

  /** In their order, each in a transaction of its own; only jj's answers are fetched ahead, a few at a time. */
  async #processPart(ops: readonly OpRow[]): Promise<void> {
    const ahead: Promise<OpReading>[] = [];
    for (const [at, op] of ops.entries()) {
      while (ahead.length < Math.min(at + READ_AHEAD, ops.length)) {
        const reading = this.#readOne(ops[ahead.length]!);
        reading.catch(() => undefined); // it is awaited in its turn, unless one before it fails
        ahead.push(reading);
      }
      await this.#processOne(op, await ahead[at]!);
    }
  }

  async #readOne(op: OpRow): Promise<OpReading> {
    const { db } = this.#deps;
    const after = await this.#views.heads(op.opId);
    const settled = await this.#views.settled(op.opId, op.parents);
    const before: Heads[] = [];
    for (const parent of op.parents) before.push(await this.#views.heads(parent));
    const forks = await this.#views.forks(op.parents, (id) => parentsOf(db, id));
    // A live token means its handler owes the interpretation, and records it together with its own result.
    const isHandled = (): boolean =>
      interpreter({ id: op.opId, args: "" }, this.#attributions(op)) === "handler";
    const transitions = (): ReturnType<typeof transitionsOf> =>
      isHandled() ? [] : transitionsOf(this.#deps, before, settled, () => false, forks, op);
    const related = await readAhead(this.#deps, op.opId, transitions());
    return { before, after, transitions, related };
  }

  async #processOne(op: OpRow, read: OpReading): Promise<void> {
    const { db } = this.#deps;
    if (isProcessed(db, op.opId)) return;
    for (let attempt = 1; ; attempt += 1) {
      // Edges may have come, gone or moved since: what was read ahead counts only as far as it answers today's question.
      const meaning = await interpret(this.#deps, op.opId, read.transitions(), read.related);
      try {
        this.#recordOne(op, read.before, read.after, meaning);
        return;
      } catch (error) {
        // A boundary bound or finished an intent of the edge meanwhile.
        if (!(error instanceof EdgeMoved) || attempt === MAX_EDGE_MOVES) throw error;
      }
    }
  }

  #recordOne(op: OpRow, before: readonly Heads[], after: Heads, meaning: Interpretation): void {
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

  #cacheHeads(op: OpId, view: Heads): void {
    for (const thread of watchedThreads(this.#deps.db)) {
      const head = view.get(thread.workspaceName);
      if (head === undefined || head.commitId === thread.head) continue;
      setHead(this.#deps.db, thread.threadId, { commit: head.commitId, change: head.changeId, op });
    }
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
