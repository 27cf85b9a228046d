/**
 * Brings one child onto its parent's new base. Called with the intent bound and `Reconciling`, every call of the
 * agent held, denied or finished. Every step observes first, so that a restart runs the same function again: what is
 * already done is found done. Only exact ids are used; nothing is resolved "wherever the parent is later".
 */
import { classify, type Classification } from "../core/classify.ts";
import { errorLine } from "../core/errors.ts";
import type { CommitId, IntentId, OpId } from "../core/ids.ts";
import { short } from "../core/ids.ts";
import type { CommitView, JjRepo, WorkspaceProbe } from "../ports/jj.ts";
import { cascadeThread, edges } from "../store/edges.ts";
import { intentById, type IntentRow } from "../store/intents.ts";
import { bundleFolder } from "./bundle.ts";
import type { CascadeDeps } from "./deps.ts";
import { ownedStack, stagedHead } from "./chain.ts";
import { settledView, transitionFacts } from "./interpret.ts";
import { afterFailure, isOfCommand, recoveryAfterFailure } from "./failed-command.ts";
import { standingStill } from "./still.ts";
import { newToken, persistPlan, pinHead, probeNow, stillGoesOn } from "./looks.ts";
import { jjEffect, type IntentChanges } from "./moves.ts";
import { meetHeadsOf } from "./one-head.ts";
import { recordOthers, recordResult } from "./record.ts";
import { related } from "./related.ts";
import type { ReconcilePlan, ReconcileResult, Scene } from "./scene.ts";
import { needsRecovery, recordChoice, recover } from "./recover.ts";
import { refuseCut, refuseLate, refuseLost, updateStale } from "./update.ts";
import { Moved, Stop, Unproven, type ReconcileOutcome } from "./stop.ts";
import type { Views } from "./views.ts";

/** Decisions made anew because foreign operations kept landing in between. */
const MAX_ATTEMPTS = 5;
const MAX_RECOVERIES = 3;

/**
 * `refresh` reads the complete frontier, so that every transition up to the pinned operation has its intent. `paused`:
 * as in `standingStill`.
 */
export async function reconcile(
  deps: CascadeDeps,
  views: Views,
  intentId: IntentId,
  refresh: () => Promise<OpId[]>,
  { paused = false } = {},
): Promise<ReconcileOutcome> {
  return standingStill(deps, intentId, { paused }, (open) =>
    reconcileStill(deps, views, intentId, refresh, open),
  );
}

/** kiki itself has something left to do for it before there is a payload. */
export function isUnderWay(intent: IntentRow | null): boolean {
  return intent?.state === "Reconciling" || intent?.recovering === true;
}

async function reconcileStill(
  deps: CascadeDeps,
  views: Views,
  intentId: IntentId,
  refresh: () => Promise<OpId[]>,
  open: readonly string[],
): Promise<ReconcileOutcome> {
  const body = async (jj: JjRepo): Promise<ReconcileOutcome> => {
    let recoveries = 0;
    for (let attempt = 1; ; attempt += 1) {
      // Before files change it is known what the merge of several heads means, and whether it fits together.
      await meetHeadsOf(deps, jj);
      await refresh();
      // Read here, not before: another settlement, or the attempt before, may have written them.
      const scene = sceneOf(deps, views, jj, intentId, open);
      if (scene === null) return { outcome: "topology-diverged", reason: "EdgeGone" };
      try {
        if (scene.intent.state === "RecoveryRequired") {
          const ended = await goOn(scene, attempt < MAX_ATTEMPTS);
          if (ended !== null) return ended;
          continue;
        }
        await recordResult(scene, await bringUpToDate(scene));
        return { outcome: "materialized" };
      } catch (thrown) {
        const taken = takenForAPerson(scene);
        if (taken !== null) {
          await recordNow(scene, () => undefined);
          return taken;
        }
        // A recovery has looked at what its command left by itself (`recoverOrRefuse`).
        const looked = scene.intent.state === "RecoveryRequired" || !isOfCommand(thrown);
        const stop = looked ? thrown : await afterFailure(scene, thrown);
        if (!(stop instanceof Stop)) throw stop;
        if (stop instanceof Moved && attempt < MAX_ATTEMPTS) continue;
        await recordStop(scene, stop).catch((again: unknown) => {
          if (stop.recovery === null || !isOfCommand(again)) throw again;
          throw new Unproven(errorLine(again), again);
        });
        if (stop.outcome.outcome !== "recovery-required") return stop.outcome;
        // The everyday race is settled at once; who writes on and on is not provable.
        recoveries += 1;
        if (recoveries <= MAX_RECOVERIES && stop.forAPerson === null) continue;
        await recordRefusal(scene, stop.forAPerson ?? stop.again);
        return stop.outcome;
      }
    }
  };
  return deps.exclusive(body, { stopped: true });
}

/** A refused tool was seen to have run meanwhile (tool-ran.ts): this goes no further. What it has done is recorded. */
function takenForAPerson(scene: Scene): ReconcileOutcome | null {
  try {
    stillGoesOn(scene);
    return null;
  } catch (stop) {
    if (stop instanceof Stop) return stop.outcome;
    throw stop;
  }
}

async function recordNow(scene: Scene, extra: (changes: IntentChanges) => void): Promise<void> {
  const heads = await scene.jj.heads();
  await recordOthers(scene, heads.length === 1 ? heads[0]! : null, extra);
}

/** Recovers, and goes back to reconciling, or is to look again: null. Else how it ended, which is recorded. */
async function goOn(scene: Scene, mayFail: boolean): Promise<ReconcileOutcome | null> {
  const { recovery } = scene.plan;
  const forAPerson = (reason: string): ReconcileOutcome => ({
    outcome: "recovery-required",
    reason,
  });
  if (recovery?.open !== true)
    return forAPerson(recovery?.refused ?? scene.intent.reason ?? "for a person");
  const found = await recoverOrRefuse(scene, mayFail);
  if (found === "look-again") return null;
  if ("notNow" in found) return { outcome: "not-now", reason: found.notNow };
  if ("choice" in found) {
    recordChoice(scene, found.choice);
    return null;
  }
  await recordRefusal(scene, found.refused);
  return forAPerson(found.refused);
}

/** As `recoveryAfterFailure` where a command fails; `mayFail`: another look may follow. */
async function recoverOrRefuse(
  scene: Scene,
  mayFail: boolean,
): Promise<Awaited<ReturnType<typeof recover>> | { notNow: string } | "look-again"> {
  try {
    return await recover(scene);
  } catch (error) {
    if (!isOfCommand(error)) throw error;
    const next = await recoveryAfterFailure(scene, error);
    return next === "look-again" && !mayFail ? { refused: errorLine(error) } : next;
  }
}

/** null: the follows edge is gone. */
export function sceneOf(
  deps: CascadeDeps,
  views: Views,
  jj: JjRepo,
  intentId: IntentId,
  open: readonly string[] = [],
): Scene | null {
  const intent = intentById(deps.db, intentId)!;
  const child = cascadeThread(deps.db, intent.threadId)!;
  const parent = cascadeThread(deps.db, intent.parentThreadId)!;
  const edge = edges(deps.db).find(
    (e) => e.child === child.threadId && e.parent === parent.threadId,
  );
  if (edge === undefined) return null;
  const plan = (intent.plan as ReconcilePlan | null) ?? {
    startOp: "",
    childHead: "",
    fromBase: edge.lastSynchronized,
    toBase: intent.toBase,
    kind: intent.kind,
    tokens: [],
    chain: [],
    stagedOp: null,
  };
  return {
    deps,
    views,
    jj,
    intent,
    edge,
    child,
    parent,
    plan,
    probedOp: "",
    before: null,
    landed: plan.tokens.length > 0,
    open,
    staged: null,
  };
}

/** A stop changes no files; the state it leaves and what kiki's own operations meant go into one transaction. */
async function recordStop(scene: Scene, stop: Stop): Promise<void> {
  const { deps, intent, child } = scene;
  const { outcome } = stop;
  // `not-now` stays Reconciling with its plan: the same function runs again, and its handler still owes the record.
  if (outcome.outcome === "not-now" || outcome.outcome === "materialized") return;
  await recordNow(scene, (changes) => {
    if (outcome.outcome === "topology-diverged") {
      changes.moved(intent.intentId, "Reconciling", "TopologyDiverged", {
        reason: outcome.reason,
      });
      deps.raiseAttention({
        threadId: child.threadId,
        kind: "cascade_conflict",
        dedupKey: intent.intentId,
        message: `${scene.parent.name} and ${child.name} no longer fit together (${outcome.reason}); no file was changed`,
        loud: true,
      });
      return;
    }
    changes.moved(intent.intentId, "Reconciling", "RecoveryRequired", {
      reason: outcome.reason,
      evidence: stop.recovery!.evidence,
      bundle: stop.recovery!.folder,
      fingerprint: stop.recovery!.fingerprint,
    });
    changes.planned(intent.intentId, scene.plan, stop.recovery!.fingerprint);
  });
}

/** From here it waits for a person, loudly, once. */
export async function recordRefusal(scene: Scene, why: string): Promise<void> {
  const { deps, intent, child, plan } = scene;
  const recovery = { ...plan.recovery!, open: false, refused: why };
  const chosen = ((intent.recoveryChoice as unknown[] | null) ?? []).length;
  await recordNow(scene, (changes) => {
    changes.planned(intent.intentId, { ...plan, recovery }, recovery.fingerprint);
    deps.raiseAttention({
      threadId: child.threadId,
      kind: "cascade_conflict",
      // Another time after a person has settled the first one is another matter.
      dedupKey: chosen === 0 ? intent.intentId : `${intent.intentId}:${chosen}`,
      message: `edits in ${child.name} could not be brought along by themselves (${why}); its agent is paused, copies are in ${bundleFolder(deps, intent.intentId)}: kk repair ${child.name}`,
      loud: true,
    });
  });
}

async function bringUpToDate(scene: Scene): Promise<ReconcileResult> {
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
  const decided = classify(
    await transitionFacts(scene.jj, op, {
      fromBase: scene.edge.lastSynchronized,
      parent: settledView(scene.deps.db, scene.parent.threadId, parentView),
      child: childView,
    }),
  );
  if (decided.kind === "TopologyDiverged") {
    throw new Stop({ outcome: "topology-diverged", reason: decided.reason });
  }
  const probe = await planFrom(scene, op, decided, childView!.commitId, parentView!.commitId);
  if (decided.kind === "ParentAdvance" && probe.state === "StaleClean") {
    // Before the first file changes: a stack that cannot follow must not be left half-way, with nothing to tell.
    const owned = await ownedStack(scene, op);
    if (!owned.ok) throw new Stop({ outcome: "topology-diverged", reason: owned.error });
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
  const owned = await ownedStack(scene, op);
  if (!owned.ok) throw new Stop({ outcome: "topology-diverged", reason: owned.error });
  scene.plan.chain = [...owned.value.chain, ...owned.value.followers].map((c) => c.commitId);
  const probe = await probeNow(scene, op);
  if (probe.state !== "FreshClean")
    await needsRecovery(scene, probe, `the workspace became ${probe.state}`);
  const token = newToken(scene, probe.fingerprint);
  const staged = await jjEffect(scene.deps, "stage", () =>
    jj.stageRebase({ at: op, chain: scene.plan.chain, onto: toBase, token }),
  );
  scene.plan.stagedOp = staged.id;
  persistPlan(scene, probe.fingerprint);
  const head = await stagedHead(scene, staged.id, toBase, owned.value);
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
