/**
 * What a person can do about an edge that stands still: edits whose recovery is not provable, and a transition that
 * cannot be followed. Looking changes nothing; every way out is repeatable, because it looks first.
 */
import { classify } from "../core/classify.ts";
import { errorLine, fail } from "../core/errors.ts";
import type { CommitId, IntentId, OpId, ThreadId } from "../core/ids.ts";
import { collisionsOnly, hasEdits, type RecoveryChoice } from "../core/recovery.ts";
import type { EdgeTrouble, TroubleOrder } from "../core/trouble.ts";
import type { JjRepo } from "../ports/jj.ts";
import { acknowledgeAttention } from "../store/attention.ts";
import { approvalOf } from "../store/approved.ts";
import { cascadeThread, edges, synchronize } from "../store/edges.ts";
import { intentById, unresolvedIntents, type IntentRow } from "../store/intents.ts";
import { readBundle } from "./bundle.ts";
import type { CascadeDeps } from "./deps.ts";
import { isOfCommand } from "./failed-command.ts";
import { pinHead, probeNow } from "./looks.ts";
import { refreshMarker } from "./marker.ts";
import { changeIntents } from "./moves.ts";
import { meetHeadsOf } from "./one-head.ts";
import { lookAtRecovery } from "./recover-look.ts";
import { bundleNow, recordChoice, recover, resetHead, update } from "./recover.ts";
import { recordRefusal, sceneOf } from "./reconcile.ts";
import { standingStill } from "./still.ts";
import type { Scene } from "./scene.ts";
import { Stop, Unproven, type ReconcileOutcome } from "./stop.ts";
import { transitionFacts } from "./transition-facts.ts";
import type { Views } from "./views.ts";

export interface Troubles {
  /** The oldest intent of the thread that waits for a person. */
  of(threadId: ThreadId): IntentRow | null;
  /** Looks; changes nothing. null when nothing waits. */
  look(threadId: ThreadId): Promise<EdgeTrouble | null>;
  /** Carries out what was chosen; returns what came of it, in words. `operationId`: the saga, for its approval. */
  settle(intentId: IntentId, order: TroubleOrder, operationId: string): Promise<string>;
}

type Settled = { outcome: "settled"; words: string } | ReconcileOutcome;

function isTrouble(i: IntentRow): boolean {
  return i.state === "TopologyDiverged" || (i.state === "RecoveryRequired" && !i.recovering);
}

export function makeTroubles(
  deps: CascadeDeps,
  views: Views,
  refresh: () => Promise<OpId[]>,
  /** A person has decided: where no agent is left to be told at its next call, another one is started. */
  decided: (threadId: ThreadId) => void,
): Troubles {
  const of = (threadId: ThreadId): IntentRow | null =>
    unresolvedIntents(deps.db, threadId).find(isTrouble) ?? null;
  return {
    of,
    async look(threadId) {
      const intent = of(threadId);
      if (intent === null) return null;
      const scene = sceneOf(deps, views, deps.jj, intent.intentId);
      const base = {
        intentId: intent.intentId,
        parent: cascadeThread(deps.db, intent.parentThreadId)!.name,
        reason: intent.reason ?? "unknown",
      };
      if (scene === null) return { kind: "edge-gone", ...base };
      try {
        return intent.state === "TopologyDiverged"
          ? { kind: "diverged", ...base, ...(await lookDiverged(scene)) }
          : { kind: "recovery", ...base, ...(await lookRecovery(scene)) };
      } catch (error) {
        if (!(error instanceof Stop) || !("reason" in error.outcome)) throw error;
        return { kind: "not-now", ...base, why: error.outcome.reason };
      }
    },
    async settle(intentId, order, operationId) {
      const settled = await standingStill(deps, intentId, { paused: false }, (open) => {
        const body = async (jj: JjRepo): Promise<Settled> => {
          await meetHeadsOf(deps, jj);
          await refresh();
          const scene = sceneOf(deps, views, jj, intentId, open);
          if (scene === null) throw fail("needsRepair", "repair-stale", "the follows edge is gone");
          try {
            return order.do === "discard" || order.do === "reanchor"
              ? {
                  outcome: "settled" as const,
                  words: await settleDiverged(scene, order, operationId),
                }
              : { outcome: "settled" as const, words: await settleRecovery(scene, order) };
          } catch (error) {
            if (isOfCommand(error)) await keepForAPerson(scene, errorLine(error));
            if (!(error instanceof Stop)) throw error;
            return error.outcome;
          }
        };
        return deps.exclusive(body, { stopped: true });
      });
      const { threadId } = intentById(deps.db, intentId)!;
      refreshMarker(deps, threadId);
      decided(threadId);
      if (settled.outcome === "settled") return settled.words;
      const why = "reason" in settled ? settled.reason : settled.outcome;
      throw fail("failed", "repair-not-now", why, "try again in a moment");
    },
  };
}

// ---- edits -------------------------------------------------------------------------------------------------------

type Recovery = Extract<EdgeTrouble, { kind: "recovery" }>;
type Known = "kind" | "intentId" | "parent" | "reason";

async function lookRecovery(scene: Scene): Promise<Omit<Recovery, Known>> {
  const seen = await lookAtRecovery(scene);
  const refused = scene.plan.recovery?.refused ?? scene.intent.reason ?? "unknown";
  const bundle = scene.intent.recoveryBundle ?? "";
  if (seen === null)
    return {
      refused,
      bundle,
      files: "Unknown",
      fingerprint: "",
      changed: [],
      copies: [],
      colliding: [],
      mayLand: false,
    };
  const { probe, copies, facts } = seen;
  const lost = /^operation-lost\b/.test(probe.reason ?? "");
  return {
    refused,
    bundle,
    files: probe.reason === null ? probe.state : `${probe.state}: ${probe.reason}`,
    fingerprint: probe.fingerprint,
    changed: [...probe.changed],
    copies: copies.map(({ view, copy }) => ({
      commit: view.commitId,
      kind: copy.kind,
      visible: view.commitId === facts.at,
      description: view.description,
    })),
    colliding: collisionsOnly(probe.changed),
    mayLand:
      copies.length === 1
        ? probe.state === "StaleDirty" || lost
        : probe.state === "StaleDirty" && hasEdits(probe.changed),
  };
}

async function settleRecovery(
  scene: Scene,
  order: Exclude<TroubleOrder, { do: "discard" } | { do: "reanchor" }>,
): Promise<string> {
  const { intent } = scene;
  if (intent.state !== "RecoveryRequired") return `the intent is ${intent.state}`;
  await reopen(scene);
  if (order.do === "drop") dropColliding(scene, order.paths);
  if (order.do === "land") await land(scene);
  const found = await recover(scene, order.do === "adopt" ? order.commit : null);
  if ("refused" in found) {
    await recordRefusal(scene, found.refused);
    return `still for a person: ${found.refused}`;
  }
  const choice: RecoveryChoice = { ...found.choice, by: "person" };
  recordChoice(scene, choice);
  acknowledge(scene);
  return `${choice.adopted.slice(0, 12)} is in the files; the agent is told at its next call`;
}

/** A repair that failed leaves a recovery as it was to the agent: waiting for a person, everything stopped. */
async function keepForAPerson(scene: Scene, why: string): Promise<void> {
  const now = sceneOf(scene.deps, scene.views, scene.jj, scene.intent.intentId);
  if (now?.intent.recovering !== true) return;
  await recordRefusal(now, why).catch((again: unknown) => {
    throw new Unproven(`${why}; then ${errorLine(again)}`, again);
  });
}

/** An intent that came here otherwise (its harness ran a refused tool) has no progress of a recovery yet. */
async function reopen(scene: Scene): Promise<void> {
  const before = scene.plan.recovery;
  const probe = await probeNow(scene, await pinHead(scene));
  const bundle = before === undefined ? (await bundleNow(scene, probe)).number : before.bundle;
  scene.plan.recovery = {
    pinnedHead: null,
    links: null,
    fingerprint: probe.fingerprint,
    ...before,
    bundle,
    open: true,
    refused: null,
  };
  const { fingerprint } = scene.plan.recovery;
  changeIntents(scene.deps, (changes) =>
    changes.planned(scene.intent.intentId, scene.plan, fingerprint),
  );
}

/** Only what the bundle holds byte for byte. */
function dropColliding(scene: Scene, paths: readonly string[]): void {
  const { deps, child, plan, intent } = scene;
  const bundle = readBundle(deps, intent.recoveryBundle!, plan.recovery!.bundle);
  for (const path of paths) {
    const file = `${child.workspacePath}/${path}`;
    const kept = bundle?.entries.find((e) => e.path === path)?.sha256 ?? null;
    const now = deps.files.sha256(file);
    if (now === null) continue;
    if (now !== kept)
      throw fail("needsRepair", "repair-stale", `${path} is not what was bundled any more`);
    deps.files.removeDurable(file);
  }
}

/** jj's own stale recovery, although nobody can say beforehand what comes of it; afterwards every copy is a choice. */
async function land(scene: Scene): Promise<void> {
  const seen = await lookAtRecovery(scene);
  if (seen === null || !/^Stale|^Unknown/.test(seen.probe.state)) return;
  if (seen.copies.length > 1 && !hasEdits(seen.probe.changed)) return;
  if (!seen.facts.bundled || seen.probe.state === "Unknown") {
    scene.plan.recovery!.bundle = (await bundleNow(scene, seen.probe)).number;
    scene.plan.recovery!.fingerprint = seen.probe.fingerprint;
  }
  const { head } = seen.facts;
  if (head?.actual != null && head.expected != null) {
    await resetHead(scene, seen, { from: head.actual, to: head.expected });
    return land(scene);
  }
  await update(scene, seen);
}

/**
 * What was said about the intent, or under its operation, is settled. Everything is, once nothing waits any more: no
 * other edge, and no delivery that is exhausted.
 */
function acknowledge(scene: Scene): void {
  const { deps, child, intent } = scene;
  const open = unresolvedIntents(deps.db, child.threadId);
  const waits = open.some((i) => isTrouble(i) || i.exhausted);
  for (const about of waits ? [intent.intentId, intent.detectedOp] : [null])
    acknowledgeAttention(deps.db, child.threadId, "cascade_conflict", deps.clock.now(), about);
}

// ---- a transition that cannot be followed ------------------------------------------------------------------------

type Diverged = Extract<EdgeTrouble, { kind: "diverged" }>;

async function lookDiverged(scene: Scene): Promise<Omit<Diverged, Known>> {
  const op = await pinHead(scene);
  const view = await scene.views.at(op);
  const parent = view.get(scene.parent.workspaceName) ?? null;
  const child = view.get(scene.child.workspaceName) ?? null;
  const fromBase = scene.edge.lastSynchronized;
  const decided = classify(await transitionFacts(scene.jj, op, { fromBase, parent, child }));
  const contains =
    parent !== null &&
    child !== null &&
    (await scene.jj.isAncestor(op, parent.commitId, child.commitId));
  return {
    anchor: fromBase,
    parentHead: parent?.commitId ?? null,
    childHead: child?.commitId ?? null,
    now: decided.kind === "TopologyDiverged" ? decided.reason : decided.kind,
    mayReanchor: contains ? parent.commitId : null,
  };
}

/** One transaction: the transition is given up under the approval of its saga, and the edge's anchor set if asked for. */
async function settleDiverged(
  scene: Scene,
  order: { do: "discard" } | { do: "reanchor"; commit: CommitId },
  operationId: string,
): Promise<string> {
  const { deps, intent, child, parent } = scene;
  if (intent.state !== "TopologyDiverged") return `the intent is ${intent.state}`;
  const approvalId = approvalOf(deps.db, operationId);
  if (approvalId === null)
    throw fail("approval", "approval-required", "giving a transition up needs an approval");
  if (order.do === "reanchor" && (await lookDiverged(scene)).mayReanchor !== order.commit)
    throw fail("needsRepair", "repair-stale", "the parent or the child has moved", "kk repair");
  const still = edges(deps.db).some(
    (e) => e.child === child.threadId && e.parent === parent.threadId,
  );
  changeIntents(deps, (changes) => {
    changes.transitionDiscarded(intent.intentId, {
      by: operationId,
      approvalId,
      now: deps.clock.now(),
    });
    if (order.do === "reanchor" && still)
      synchronize(deps.db, child.threadId, parent.threadId, order.commit);
  });
  acknowledge(scene);
  return order.do === "reanchor"
    ? `${child.name} follows ${parent.name} from ${order.commit.slice(0, 12)} on`
    : `what ${parent.name} did is given up for ${child.name}`;
}
