/**
 * The transaction that makes a reconciliation true: result, payload, anchor, `Materialized`, the thread's head, the
 * edge's anchor, covered later intents, and what the same operations mean for everybody else.
 */
import { KikiError } from "../core/errors.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import { isAncestorOp, maximal } from "../core/op-graph.ts";
import { composePayload, payloadTwin, type PayloadFacts } from "../core/payload.ts";
import type { RecoveryChoice } from "../core/recovery.ts";
import type { JjDiff } from "../ports/jj.ts";
import type { Db } from "../store/db.ts";
import { setHead, synchronize } from "../store/edges.ts";
import { triggersOf, unresolvedIntents, type IntentRow } from "../store/intents.ts";
import {
  closeAttribution,
  frontier,
  isProcessed,
  parentsOf,
  processedAfter,
} from "../store/ops.ts";
import { applyInterpretation, EdgeMoved, interpret, transitionsOf } from "./interpret.ts";
import { changeIntents, type IntentChanges } from "./moves.ts";
import type { ReconcileResult, Scene } from "./scene.ts";
import type { Heads } from "./views.ts";

/** Revisions of the parent that are named in a payload. */
const MAX_NEW_REVISIONS = 20;
const MAX_RECORD_ATTEMPTS = 5;

export async function recordResult(scene: Scene, result: ReconcileResult): Promise<void> {
  const facts = await gatherPayload(scene, result);
  const payload = composePayload(facts);
  for (let attempt = 1; ; attempt += 1) {
    try {
      // On the operations queue: no refresh interprets the same operations at the same time.
      await scene.deps.queues.run(`ops:${scene.deps.repoId}`, () =>
        recordOnce(scene, result, facts, payload),
      );
      return;
    } catch (error) {
      if (!(error instanceof EdgeMoved) || attempt === MAX_RECORD_ATTEMPTS) throw error;
    }
  }
}

/**
 * What kiki's own operations of this plan mean for everybody else, when the reconciliation itself stops: the watcher
 * leaves our tokens to us, so nobody else would record it. `extra` runs in the same transaction. `op` null: there is no
 * one view to compare, and the tokens stay owed, to whoever goes on or to the watcher (`abandonedTokens`).
 */
export async function recordOthers(
  scene: Scene,
  op: OpId | null,
  extra: (changes: IntentChanges) => void,
): Promise<void> {
  const { deps, child, plan } = scene;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await deps.queues.run(`ops:${deps.repoId}`, async () => {
        const now = op === null ? null : newestRead(deps.db, op);
        const after = now === null || plan.startOp === "" ? null : await scene.views.heads(now);
        const meaning =
          after === null
            ? null
            : await interpret(
                deps,
                now!,
                transitionsOf(
                  deps,
                  [await scene.views.heads(plan.startOp)],
                  after,
                  // Its own edge as well: where the parent stands on the child, a command here moves both.
                  (e) => e.child === child.threadId && plan.tokens.length === 0,
                ),
              );
        changeIntents(deps, (changes) => {
          // First, so that a diverged edge waits with what is interpreted then.
          extra(changes);
          if (meaning !== null) applyInterpretation(deps, changes, meaning);
          const head = after?.get(child.workspaceName);
          if (head !== undefined) {
            setHead(deps.db, child.threadId, {
              commit: head.commitId,
              change: head.changeId,
              op: now!,
            });
          }
          if (meaning !== null) for (const token of plan.tokens) closeAttribution(deps.db, token);
        });
      });
      return;
    } catch (error) {
      if (!(error instanceof EdgeMoved) || attempt === MAX_RECORD_ATTEMPTS) throw error;
    }
  }
}

async function recordOnce(
  scene: Scene,
  result: ReconcileResult,
  facts: PayloadFacts,
  payload: string,
): Promise<void> {
  const { deps, intent, child, parent, plan } = scene;
  const now = newestRead(deps.db, result.op);
  const [before, after] = [await scene.views.heads(plan.startOp), await scene.views.heads(now)];
  const head = after.get(child.workspaceName) ?? result.head;
  const replaced = replacedBase(scene, before, after, result.toBase);
  // Other edges: what our own operations did to them is ours to record; the watcher leaves our tokens alone.
  const others = transitionsOf(deps, [before], after, (e) => e.child === child.threadId);
  const meaning = await interpret(deps, now, others);
  changeIntents(deps, (changes) => {
    const { db } = deps;
    changes.materialized(intent.intentId, {
      resultCommit: result.head.commitId,
      payload,
      payloadSha256: deps.sha256(payload),
      payloadJson: { ...payloadTwin(facts), op: result.op, kind: plan.kind },
      anchor: { change: result.head.changeId, commit: result.head.commitId, op: result.op },
      now: deps.clock.now(),
    });
    setHead(db, child.threadId, { commit: head.commitId, change: head.changeId, op: now });
    synchronize(db, child.threadId, parent.threadId, result.toBase);
    for (const later of coveredBy(scene, result.toBase, replaced)) {
      changes.moved(later.intentId, "Detected", "Superseded", {
        reason: "covered by the earlier intent's reconciliation",
        supersededBy: intent.intentId,
      });
    }
    applyInterpretation(deps, changes, meaning);
    for (const token of plan.tokens) closeAttribution(db, token);
  });
}

/**
 * Where the parent stood before the commands of this plan, if it was they that brought it to `toBase`: a parent that stands on
 * its child is rewritten by what is recorded there. null: they have not moved it.
 */
function replacedBase(
  { parent }: Scene,
  before: Heads,
  after: Heads,
  toBase: CommitId,
): CommitId | null {
  const was = before.get(parent.workspaceName)?.commitId ?? null;
  return after.get(parent.workspaceName)?.commitId === toBase ? was : null;
}

/** Later work of the same edge that ends where this reconciliation brought the child; any other has its own boundary. */
function coveredBy(scene: Scene, toBase: CommitId, replaced: CommitId | null): IntentRow[] {
  const { deps, intent, parent } = scene;
  return unresolvedIntents(deps.db, scene.child.threadId).filter(
    (later) =>
      later.state === "Detected" &&
      later.parentThreadId === parent.threadId &&
      later.seq > intent.seq &&
      (later.toBase === toBase || later.toBase === replaced),
  );
}

/**
 * The newest operation that the watcher has interpreted, where that comes after `op`, else `op`: what landed since is recorded,
 * and what is cached about heads or known of later work must not go back. The frontier alone does not say it: a reading that
 * failed has interpreted operations one by one, and not come to its end.
 */
function newestRead(db: Db, op: OpId): OpId {
  const [only, ...others] = frontier(db);
  if (only === undefined || others.length > 0 || !isProcessed(db, op)) return op;
  const parents = (id: OpId): OpId[] => parentsOf(db, id);
  const beyond = processedAfter(db, only);
  if (beyond.length === 0) return isAncestorOp(op, only, parents) ? only : op;
  const [newest, ...rivals] = maximal([op, only, ...beyond], parents);
  return newest === undefined || rivals.length > 0 ? op : newest;
}

/**
 * What a payload can do without. A file that is hundreds of megabytes large takes jj longer than an agent stands still
 * for, and would every time.
 */
async function inTime(diff: Promise<JjDiff>): Promise<JjDiff> {
  try {
    return await diff;
  } catch (error) {
    if (!(error instanceof KikiError) || error.code !== "jj-timeout") throw error;
    const text = "(left out: it took jj too long; read the files that changed)\n";
    return { stat: text, text };
  }
}

async function gatherPayload(scene: Scene, result: ReconcileResult): Promise<PayloadFacts> {
  const { jj, edge, child, parent, intent } = scene;
  const { op, toBase } = result;
  const choices = (intent.recoveryChoice as RecoveryChoice[] | null) ?? [];
  const recovered = choices.filter((choice) => choice.noEdits !== true);
  const from = edge.lastSynchronized;
  const same = from === toBase;
  // All of one exact operation, so their order does not matter; the agent waits for them.
  const [fresh, changed, diff, conflicts] = await Promise.all([
    // Of the parent's revisions, those the child did not have: all behind the new base that is not behind the old.
    jj.commits(op, `${from}..${toBase}`),
    same ? [] : jj.changedPaths(op, from, toBase),
    same ? { stat: "", text: "" } : inTime(jj.diff(op, from, toBase)),
    result.head.conflict ? jj.conflictedPaths(op, result.head.commitId) : [],
  ]);
  const { views, plan } = scene;
  const later = coveredBy(
    scene,
    toBase,
    replacedBase(scene, await views.heads(plan.startOp), await views.heads(op), toBase),
  );
  const operations = (of: IntentRow): number => triggersOf(scene.deps.db, of.intentId).length;
  const after = later.reduce((sum, intent) => sum + operations(intent), 0);
  return {
    threadName: child.name,
    parentName: parent.name,
    oldBase: from,
    newBase: toBase,
    moves: operations(scene.intent) + after,
    coversLater: after,
    newRevisions: fresh
      .slice(0, MAX_NEW_REVISIONS)
      .reverse()
      .map((c) => ({ commit: c.commitId, description: c.description })),
    action:
      recovered.length > 0 && result.action === "already-in-place" ? "materialised" : result.action,
    adoptedEdits: result.adoptedEdits || recovered.length > 0,
    resultCommit: result.head.commitId,
    changed,
    diffStat: diff.stat,
    diff: diff.text,
    conflicts,
    recovered,
    pinnedRef: `refs/kiki/${intent.intentId}`,
  };
}
