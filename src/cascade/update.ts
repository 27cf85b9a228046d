/** Stale files that are clean, brought to what jj records (cascade chapter, "Reconciling"). */
import type { WorkspaceProbe } from "../ports/jj.ts";
import { keepFiles, lateReason, refuseOpen, verifyKept } from "./links.ts";
import { newToken, pinHead, probeNow } from "./looks.ts";
import { jjEffect } from "./moves.ts";
import { needsRecovery } from "./recover.ts";
import type { Scene } from "./scene.ts";
import { Moved, Stop } from "./stop.ts";

/**
 * Drift between the probe and the command that changes files: where files differ, somebody still writes, and that is
 * recovery, not a guess; where they are clean, jj has moved, and everything is decided anew. What jj replaces has a
 * second name until it is known that nobody wrote into it in that instant.
 */
export async function updateStale(scene: Scene, probe: WorkspaceProbe): Promise<void> {
  const touched = await linkReplaced(scene, probe);
  const token = newToken(scene, probe.fingerprint);
  const again = await probeNow(scene, await pinHead(scene));
  if (again.fingerprint !== probe.fingerprint) {
    if (again.state === "StaleDirty" || again.state === "Unknown")
      await needsRecovery(scene, again, "files changed right before the update");
    throw new Moved("the workspace moved right before the update");
  }
  refuseOpen(scene, touched);
  await jjEffect(scene.deps, "update-stale", () =>
    scene.jj.updateStale(scene.child.workspacePath, token),
  );
  await refuseLate(scene);
}

/** Before the second look, which then says that what was linked is what was clean. */
async function linkReplaced(scene: Scene, probe: WorkspaceProbe): Promise<string[]> {
  const { jj, child, views } = scene;
  const name = child.workspaceName;
  const from =
    (await jj.workspaceCommits(probe.checkoutOp))?.get(name) ??
    (await views.heads(probe.checkoutOp)).get(name)?.commitId;
  if (from === undefined || probe.recordedCommit === null)
    throw new Error(`a clean workspace that is from no commit: ${child.workspacePath}`);
  const touched = await jj.touchedPaths(from, probe.recordedCommit);
  keepFiles(scene, from, touched);
  return touched;
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
