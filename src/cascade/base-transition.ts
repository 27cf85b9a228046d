/**
 * One base transition carried out: decided anew from what jj says now, the workspace settled, the chain rebased where
 * the parent has gone ahead, and the result verified. Every step looks first. What does not fit stops (`stop.ts`), and
 * `reconcile.ts` records it.
 */
import { classify, type Classification } from "../core/classify.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import type { CommitView, WorkspaceProbe } from "../ports/jj.ts";
import { ownedStack, stagedHead, type OwnedStack } from "./chain.ts";
import { newToken, persistPlan, pinHead, probeNow } from "./looks.ts";
import { jjEffect } from "./moves.ts";
import { meetHeadsOf } from "./one-head.ts";
import { needsRecovery } from "./recover.ts";
import { related } from "./related.ts";
import type { ReconcileResult, Scene } from "./scene.ts";
import { Moved, Stop } from "./stop.ts";
import { settledView, settlesAbove, settlesBelow, transitionFacts } from "./transition-facts.ts";
import { refuseCut, refuseLate, refuseLost, updateStale } from "./update.ts";

export async function bringUpToDate(scene: Scene): Promise<ReconcileResult> {
  // A daemon died in an update of the files, or between one and the look at what it replaced.
  await refuseCut(scene);
  await refuseLate(scene);
  const op = await pinHead(scene);
  const view = await scene.views.heads(op);
  // After a restart: the first attempt may have got this far.
  if (scene.plan.tokens.length > 0) {
    const head = (await scene.views.at(op)).get(scene.child.workspaceName);
    await refuseHiddenEdits(scene, op, head?.divergent === true);
  }
  const childView = view.get(scene.child.workspaceName) ?? null;
  const parentView = view.get(scene.parent.workspaceName) ?? null;
  const facts = await transitionFacts(scene.jj, op, {
    fromBase: scene.edge.lastSynchronized,
    parent: settledView(scene.deps.db, scene.parent.threadId, parentView),
    child: childView,
  });
  const decided = classify(facts);
  if (decided.kind === "TopologyDiverged") {
    if (decided.reason === "DivergentChange" && settlesAbove(scene.deps.db, scene.child.threadId))
      throw new Moved(`${scene.parent.name} is being brought up to date itself`);
    throw new Stop({ outcome: "topology-diverged", reason: decided.reason });
  }
  const probe = await planFrom(scene, op, decided, childView!.commitId, parentView!.commitId);
  // Before any file changes: jj's `@` may be the copy that has less than the files.
  if (facts.shownTwice)
    await needsRecovery(scene, probe, "the revision is there in several copies");
  if (decided.kind === "ParentAdvance" && probe.state === "StaleClean") {
    // Before the first file changes: a stack that cannot follow must not be left half-way, with nothing to tell.
    await stackOf(scene, op);
  }
  const settled = await settleWorkspace(scene, probe, decided);
  return decided.kind === "ParentAdvance"
    ? await advance(scene, decided.toBase, settled.adopted)
    : await finish(scene, {
        action: settled.updated ? "materialised" : "already-in-place",
        adoptedEdits: settled.adopted,
      });
}

/** Keeps the first plan's starting operation: what other edges see is compared with the state before any of it. */
async function planFrom(
  scene: Scene,
  op: OpId,
  decided: Exclude<Classification, { kind: "TopologyDiverged" }>,
  childHead: CommitId,
  parentHead: CommitId,
): Promise<WorkspaceProbe> {
  if (scene.plan.startOp === "") scene.plan.startOp = op;
  if (scene.plan.childHead === "") scene.plan.childHead = childHead;
  scene.plan.kind = decided.kind;
  scene.plan.toBase = decided.kind === "AlreadyAligned" ? parentHead : decided.toBase;
  const probe = await probeNow(scene, op);
  persistPlan(scene, probe.fingerprint);
  return probe;
}

/**
 * Probes and, where it is provably safe, updates stale files and records fresh edits. Afterwards the workspace is
 * fresh and, for an advance, clean.
 */
async function settleWorkspace(
  scene: Scene,
  first: WorkspaceProbe,
  decided: Classification,
): Promise<{ updated: boolean; adopted: boolean }> {
  let updated = false;
  let adopted = false;
  let probe = first;
  if (probe.state === "StaleClean") {
    await updateStale(scene, probe);
    updated = true;
    probe = await probeNow(scene, await pinHead(scene));
  }
  if (probe.state === "FreshDirty" && decided.kind === "ParentAdvance") {
    // The ordinary mid-turn state of an agent that never runs jj: record its edits, as an operation of kiki's.
    const token = newToken(scene, probe.fingerprint);
    await jjEffect(scene.deps, "snapshot", () =>
      scene.jj.snapshot(scene.child.workspacePath, token),
    );
    adopted = true;
    probe = await probeNow(scene, await pinHead(scene));
  }
  if (probe.state === "FreshClean") return { updated, adopted };
  if (probe.state === "FreshDirty" && decided.kind !== "ParentAdvance") return { updated, adopted };
  return needsRecovery(scene, probe, probe.reason ?? probe.state);
}

/**
 * jj puts edits that landed between the last look and its own into a divergent sibling and leaves the visible tree
 * clean (jj 0.46, facts §4). An agent must not go on in a tree that hides them.
 */
async function refuseHiddenEdits(scene: Scene, op: OpId, divergent: boolean): Promise<void> {
  if (!divergent || scene.plan.tokens.length === 0) return;
  await needsRecovery(scene, await probeNow(scene, op), "edits landed during the update");
}

/** What kiki's work on a thread above or below makes of the stack is over soon, and no reason to give up. */
async function stackOf(scene: Scene, op: OpId): Promise<OwnedStack> {
  const owned = await ownedStack(scene, op);
  if (owned.ok) return owned.value;
  const { db } = scene.deps;
  const { threadId } = scene.child;
  if (SHOWN_TWICE.has(owned.error) && (settlesAbove(db, threadId) || settlesBelow(db, threadId)))
    throw new Moved("a thread above or below is being brought up to date itself");
  throw new Stop({ outcome: "topology-diverged", reason: owned.error });
}

/** What a stack looks like while jj shows a revision in it, or on it, twice. */
const SHOWN_TWICE: ReadonlySet<string> = new Set([
  "DivergentChange",
  "ForeignDescendant",
  "FollowerStackInvalid",
]);

/** Rebases exactly the validated chain onto exactly `toBase`, as a staged operation that is inspected first. */
async function advance(
  scene: Scene,
  toBase: CommitId,
  adoptedEdits: boolean,
): Promise<ReconcileResult> {
  const { jj } = scene;
  const op = await pinHead(scene);
  const parentNow = (await scene.views.heads(op)).get(scene.parent.workspaceName)?.commitId;
  // A base the parent has left meanwhile may be hidden by now: rebasing onto it would bring it back.
  if (parentNow !== toBase) throw new Moved("the parent moved again");
  const owned = await stackOf(scene, op);
  scene.plan.chain = [...owned.chain, ...owned.followers].map((c) => c.commitId);
  const probe = await probeNow(scene, op);
  if (probe.state !== "FreshClean")
    await needsRecovery(scene, probe, `the workspace became ${probe.state}`);
  const token = newToken(scene, probe.fingerprint);
  const staged = await jjEffect(scene.deps, "stage", () =>
    jj.stageRebase({ at: op, chain: scene.plan.chain, onto: toBase, token }),
  );
  scene.plan.stagedOp = staged.id;
  persistPlan(scene, probe.fingerprint);
  const head = await stagedHead(scene, staged.id, toBase, owned);
  if (head === null)
    throw new Stop({ outcome: "topology-diverged", reason: "StagedResultUnexpected" });
  scene.staged = { op: staged.id, toBase, head };
  const now = await jj.heads();
  if (now.length !== 1 || now[0] !== op) throw new Moved("another operation landed first");
  await jjEffect(scene.deps, "integrate", () => jj.integrate(staged.id, token));
  await verifyIntegrated(scene, staged.id, probe);
  return await afterAdvance(scene, adoptedEdits);
}

async function afterAdvance(scene: Scene, adoptedEdits: boolean): Promise<ReconcileResult> {
  const probe = await probeNow(scene, await pinHead(scene));
  if (probe.state === "StaleClean") {
    await updateStale(scene, probe);
    const after = await probeNow(scene, await pinHead(scene));
    if (after.state !== "FreshClean")
      await needsRecovery(scene, after, `after the update the workspace is ${after.state}`);
  } else if (probe.state !== "FreshClean") {
    await needsRecovery(scene, probe, `after the rebase the workspace is ${probe.state}`);
  }
  return finish(scene, { action: "rebased", adoptedEdits });
}

/** Integrate is no compare-and-swap: afterwards the only head must be the staged operation. */
async function verifyIntegrated(scene: Scene, staged: OpId, probe: WorkspaceProbe): Promise<void> {
  const heads = await meetHeadsOf(scene.deps, scene.jj);
  if (heads.length === 1 && heads[0] === staged) return;
  const wanted = (await scene.views.heads(staged)).get(scene.child.workspaceName)?.commitId;
  const now =
    heads.length === 1
      ? (await scene.views.at(heads[0]!)).get(scene.child.workspaceName)
      : undefined;
  // An unrelated operation that landed in the same instant is merged by jj and leaves the child where we put it.
  if (now !== undefined && !now.divergent && now.commitId === wanted) return;
  await needsRecovery(scene, probe, "another operation landed together with the rebase");
}

/** Verifies the actual result in the view the files were last proved fresh for; the caller records it. */
async function finish(
  scene: Scene,
  done: { action: ReconcileResult["action"]; adoptedEdits: boolean },
): Promise<ReconcileResult> {
  const op = scene.probedOp;
  const { toBase } = scene.plan;
  const at = (await scene.views.heads(op)).get(scene.child.workspaceName);
  if (at === undefined) throw new Stop({ outcome: "topology-diverged", reason: "ChildAbandoned" });
  const { head, onBase } = await standing(scene, op, toBase, at.commitId);
  await refuseHiddenEdits(scene, op, head.divergent);
  await refuseLost(scene, op, head);
  if (!onBase) {
    throw new Moved(`the child's ${short(head.commitId)} does not contain the new base yet`);
  }
  return { op, head, toBase, ...done };
}

/** The child's `@` in the view of `op`, and whether the base is behind it there. */
async function standing(
  scene: Scene,
  op: OpId,
  toBase: CommitId,
  commit: CommitId,
): Promise<{ head: Omit<CommitView, "immutable">; onBase: boolean }> {
  const { staged } = scene;
  // Looked at in this very operation before it was published.
  if (staged?.op === op && staged.toBase === toBase && staged.head.commitId === commit)
    return { head: staged.head, onBase: true };
  const { rows } = await related(scene.jj, op, new Set([toBase, commit]), new Set([commit]));
  const head = rows.get(commit);
  if (head === undefined) throw new Error(`operation ${short(op)} has no commit ${short(commit)}`);
  return { head, onBase: rows.get(toBase)?.behind.includes(commit) === true };
}
