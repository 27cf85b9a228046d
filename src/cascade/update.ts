/** Stale files that are clean, brought to what jj records (cascade chapter, "Reconciling"). */
import type { CommitId, OpId } from "../core/ids.ts";
import { lostReason } from "../core/recovery.ts";
import type { WorkspaceProbe, WorkspaceView } from "../ports/jj.ts";
import { beginWriting, endWriting, lookAtCut } from "./cut-off.ts";
import { landingsOf, lostLanding } from "./landings.ts";
import { keepFiles, lateReason, refuseOpen, verifyKept } from "./links.ts";
import { pinHead, probeNow, stillGoesOn } from "./looks.ts";
import { jjEffect } from "./moves.ts";
import { needsRecovery } from "./recover.ts";
import type { Scene } from "./scene.ts";
import { Moved, Stop } from "./stop.ts";
import { isAbandoned } from "./taken.ts";

/**
 * Drift between the probe and the command that changes files: where files differ, somebody still writes, and that is
 * recovery, not a guess; where they are clean, jj has moved, and everything is decided anew. What jj replaces has a
 * second name until it is known that nobody wrote into it in that instant.
 */
export async function updateStale(scene: Scene, probe: WorkspaceProbe): Promise<void> {
  await linkReplaced(scene, probe);
  const token = beginWriting(scene, probe, probe.recordedCommit!);
  const again = await probeNow(scene, await pinHead(scene));
  if (again.fingerprint !== probe.fingerprint) {
    endWriting(scene); // it has not begun
    if (again.state === "StaleDirty" || again.state === "Unknown")
      await needsRecovery(scene, again, "files changed right before the update");
    throw new Moved("the workspace moved right before the update");
  }
  stillGoesOn(scene);
  await jjEffect(scene.deps, "update-stale", () =>
    scene.jj.updateStale(scene.child.workspacePath, token),
  );
  endWriting(scene);
  // Of clean files jj makes no operation.
  scene.landed ||= (await scene.jj.heads()).join() !== scene.probedOp;
  await refuseLate(scene);
}

/** Edits that jj recorded for an update, and that somebody took away before kiki had looked. */
export async function refuseLost(
  scene: Scene,
  op: OpId,
  at: Pick<WorkspaceView, "commitId" | "changeId">,
): Promise<void> {
  if (!scene.landed) return;
  const lost = await lostLanding(scene, op, at, await landingsOf(scene, op));
  if (lost !== null) await needsRecovery(scene, await probeNow(scene, op), lostReason(lost.edits));
}

/** Before the second look, which then says that what was linked is what was clean. */
async function linkReplaced(scene: Scene, probe: WorkspaceProbe): Promise<void> {
  const { jj, child, views } = scene;
  const name = child.workspaceName;
  const from =
    (await jj.workspaceCommits(probe.checkoutOp))?.get(name) ??
    (await views.heads(probe.checkoutOp)).get(name)?.commitId;
  if (from === undefined || probe.recordedCommit === null)
    throw new Error(`a clean workspace that is from no commit: ${child.workspacePath}`);
  const to = (await views.heads(scene.probedOp)).get(name);
  if (to !== undefined && (await isAbandoned({ jj, db: scene.deps.db }, scene.probedOp, from, to)))
    throw new Stop({ outcome: "topology-diverged", reason: "ChildAbandoned" });
  const touched = await jj.touchedPaths(from, probe.recordedCommit);
  refuseOpen(scene, touched);
  keepFiles(scene, from, touched);
  await refuseUnseen(scene, probe, from);
}

/**
 * What jj replaces is compared by content: an edit that left a file's size and time as they were is seen neither by jj nor
 * by the probe, and would be overwritten.
 */
async function refuseUnseen(scene: Scene, probe: WorkspaceProbe, from: CommitId): Promise<void> {
  const { jj, child } = scene;
  const to = probe.recordedCommit!;
  const found = await jj.updateProgress(scene.probedOp, from, to, child.workspacePath);
  const edited = found.filter(({ state }) => state !== "from").map(({ path }) => path);
  if (edited.length === 0) return;
  const why = `${edited.join(", ")} was edited, and has the size and the time it had before: jj does not see it until somebody touches it`;
  const changed = [...probe.changed, ...edited.map((path) => `M ${path}`)].sort();
  // It is no bundle of what a probe sees again: its own fingerprint.
  const fingerprint = scene.deps.sha256(`${probe.fingerprint} ${changed.join("\n")}`);
  try {
    await needsRecovery(scene, { ...probe, changed, fingerprint }, why);
  } catch (stop) {
    if (stop instanceof Stop) stop.forAPerson = why;
    throw stop;
  }
}

/** An update of the files that nobody lived to see the end of was ended in the middle of them. */
export async function refuseCut(scene: Scene): Promise<void> {
  if (scene.plan.writing === undefined) return;
  const probe = await probeNow(scene, await pinHead(scene));
  if ((await lookAtCut(scene, probe)) !== null)
    await needsRecovery(scene, probe, "an update of the files was ended in the middle");
  if (probe.state !== "Unknown") endWriting(scene);
}

/** Of an update of this attempt, or of one that a daemon did not live to see the end of. For a person: nobody knows who it was. */
export async function refuseLate(scene: Scene): Promise<void> {
  const late = await verifyKept(scene);
  if (late.length === 0) return;
  const why = lateReason(late);
  try {
    await needsRecovery(scene, await probeNow(scene, await pinHead(scene)), why);
  } catch (stop) {
    if (stop instanceof Stop) stop.forAPerson = why;
    throw stop;
  }
}
