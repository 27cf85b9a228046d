/** What the creation steps ask of jj beyond one call: which operation is mine, where is my workspace now. */
import { commandsCarrying } from "../core/attribution.ts";
import { fail } from "../core/errors.ts";
import type { OpId } from "../core/ids.ts";
import { isAncestorOp } from "../core/op-graph.ts";
import type { JjRepo, WorkspaceView } from "../ports/jj.ts";
import { attribute, closeAttribution, isProcessed, parentsOf } from "../store/ops.ts";
import type { Db } from "../store/db.ts";
import type { CreateContext, CreationDeps } from "./creation-deps.ts";

/** Operations searched for a token; a step's own is among the newest few. */
const SEARCH_OPS = 64;
/** How long a jj command of a daemon that died may still run before its step is given up. */
export const SURVIVOR_WAIT_MS = 30_000;
const SURVIVOR_POLL_MS = 100;

/** Tokens of a step that changes jj: one for its effect, one for undoing it. */
export interface Tokens {
  token: string;
  undoToken: string;
}

export function newTokens(ctx: CreateContext): Tokens {
  return { token: ctx.deps.ids.uuid(), undoToken: ctx.deps.ids.uuid() };
}

/**
 * Journaled in the transaction before the command that carries it, and closed in the same: making a thread moves
 * nobody else's work, so it owes no interpretation of its own. The watcher reads these operations like any other's,
 * and with them whatever jj merges into them on the way.
 */
export function attributeToken(db: Db, ctx: CreateContext, token: string): void {
  const now = ctx.deps.clock.now();
  attribute(db, { token, handler: "lifecycle", ownerId: ctx.operationId, now });
  closeAttribution(db, token);
}

/**
 * Waits for jj commands of an earlier daemon that still carry `token`: until they have ended, what jj records is not
 * the outcome yet. Throws `jj-still-running`.
 */
export async function awaitSurvivors(deps: CreationDeps, token: string): Promise<void> {
  const deadline = deps.clock.monotonic() + SURVIVOR_WAIT_MS;
  for (;;) {
    const alive = commandsCarrying(token, deps.processes);
    if (alive.length === 0) return;
    if (deps.clock.monotonic() >= deadline) {
      const pids = alive.map((p) => p.pid).join(", ");
      throw fail(
        "failed",
        "jj-still-running",
        `a jj command kiki had started is still running (process ${pids})`,
        "end it, then try again",
      );
    }
    await deps.clock.sleep(SURVIVOR_POLL_MS);
  }
}

/**
 * Operations that carry `token`, of each head's history oldest first. Of all heads: a command that merged heads before it
 * did its own work has left its token in that merge as well, on which an agent's command may already stand.
 */
export async function operationsWithToken(jj: JjRepo, token: string): Promise<OpId[]> {
  const found = new Set<OpId>();
  for (const head of await jj.heads()) {
    const own = (await jj.operations(head, SEARCH_OPS)).filter((op) => op.args.includes(token));
    for (const op of own.reverse()) found.add(op.id);
  }
  return [...found];
}

export interface FoundWorkspace {
  /** The operation `view` was read from. */
  op: OpId;
  view: WorkspaceView;
}

/**
 * The workspace as jj records it now; null when no current head records one. Throws `jj-heads-disagree` while several
 * heads record different commits for it: none of them is better than another.
 */
export async function findWorkspace(jj: JjRepo, name: string): Promise<FoundWorkspace | null> {
  const found: FoundWorkspace[] = [];
  for (const op of await jj.heads()) {
    const view = (await jj.workspaces(op)).find((w) => w.workspace === name);
    if (view !== undefined) found.push({ op, view });
  }
  const [first, ...others] = found;
  if (first === undefined) return null;
  if (others.every((o) => o.view.commitId === first.view.commitId)) return first;
  throw fail(
    "failed",
    "jj-heads-disagree",
    `jj has several operation heads that disagree about workspace ${name}`,
    "run any jj command in the repository, which merges them, then try again",
  );
}

/** How often a step looks again: a parent whose agent writes on and on is rewritten a few times a second at most. */
export const MAX_LOOKS = 20;

/** Whether a thread's head was recorded at an operation that `op` leads to, or at `op` itself. */
export function isBehind(db: Db, op: OpId, headOp: OpId | null): boolean {
  if (headOp === null || !isProcessed(db, op)) return false;
  return isAncestorOp(op, headOp, (id) => parentsOf(db, id));
}

/** For a step that is found half done, or beside somebody else's. */
export function unknown(reason: string): { is: "unknown"; reason: string } {
  return { is: "unknown", reason };
}
