/**
 * Brings one child onto its parent's new base. Called with the intent bound and `Reconciling`, every call of the
 * agent held, denied or finished. Every step observes first, so that a restart runs the same function again: what is
 * already done is found done. Only exact ids are used; nothing is resolved "wherever the parent is later".
 */
import { errorLine } from "../core/errors.ts";
import type { IntentId, OpId } from "../core/ids.ts";
import { isPrepared } from "../core/intent.ts";
import type { JjRepo } from "../ports/jj.ts";
import { cascadeThread, edges } from "../store/edges.ts";
import { intentById, type IntentRow } from "../store/intents.ts";
import { bringUpToDate } from "./base-transition.ts";
import { bundleFolder } from "./bundle.ts";
import type { CascadeDeps } from "./deps.ts";
import { afterFailure, isOfCommand, recoveryAfterFailure } from "./failed-command.ts";
import { standingStill } from "./still.ts";
import { stillGoesOn } from "./looks.ts";
import type { IntentChanges } from "./moves.ts";
import { meetHeadsOf } from "./one-head.ts";
import { recordOthers, recordResult } from "./record.ts";
import type { ReconcilePlan, Scene } from "./scene.ts";
import { recordChoice, recover } from "./recover.ts";
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
      const before = settledBefore(scene.intent);
      if (before !== null) return before;
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

/** Who had the turn before this one, an agent's restart beside the recovery at a boot, has brought it to its end: there is a payload, or nothing to tell. */
function settledBefore({ state, reason }: IntentRow): ReconcileOutcome | null {
  if (state === "Reconciling" || state === "RecoveryRequired") return null;
  if (isPrepared(state)) return { outcome: "materialized" };
  return state === "TopologyDiverged"
    ? { outcome: "topology-diverged", reason: reason ?? state }
    : { outcome: "nothing-owed", reason: state };
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
  if (outcome.outcome !== "topology-diverged" && outcome.outcome !== "recovery-required") return;
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
