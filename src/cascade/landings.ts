/**
 * Edits that jj's stale recovery recorded for a command of kiki's, on the operation the files were from. jj merges the
 * record in, and the change is visible twice; somebody may abandon the copy with the edits before kiki has looked.
 */
import type { ChangeId, CommitId, OpId } from "../core/ids.ts";
import type { CommitView } from "../ports/jj.ts";
import type { Scene } from "./scene.ts";

export interface Landing {
  /** The edits byte for byte, before anything was moved. */
  edits: CommitId;
  /** The same revision right before them. */
  before: CommitId;
  changeId: ChangeId;
  token: string;
}

/** Operations looked at for the record of a landing; it is among the newest. */
const LANDING_OPS = 200;

/**
 * Snapshots by commands of this intent that came beside the history of their time: only jj's stale recovery makes
 * one, because it records the files on the operation they are from.
 */
export async function landingsOf(scene: Scene, op: OpId): Promise<Landing[]> {
  const { tokens } = scene.plan;
  if (tokens.length === 0) return [];
  const ops = await scene.jj.operations(op, LANDING_OPS);
  const merged = new Set(ops.flatMap((o) => (o.parents.length > 1 ? o.parents : [])));
  const found: Landing[] = [];
  for (const o of ops) {
    if (!o.isSnapshot || !merged.has(o.id)) continue;
    const token = tokens.find((known) => o.args.includes(known));
    if (token === undefined) continue;
    const name = scene.child.workspaceName;
    const edits = (await scene.views.at(o.id)).get(name);
    const before = (await scene.views.at(o.parents[0]!)).get(name)?.commitId;
    if (edits === undefined || before === undefined) continue;
    found.push({ edits: edits.commitId, before, changeId: edits.changeId, token });
  }
  return found;
}

/**
 * A landing whose edits are out of the agent's reach: neither a copy of its workspace's revision nor anything that
 * revision stands on comes from them, or has them as well. null where there is none. What a choice was made of is
 * settled, whatever became of it.
 */
export async function lostLanding(
  scene: Scene,
  op: OpId,
  at: { commitId: CommitId; changeId: ChangeId },
  landings: readonly Landing[],
): Promise<Landing | null> {
  const open = new Set(scene.plan.tokens.slice(scene.plan.settled ?? 0));
  for (const landing of landings) {
    if (!open.has(landing.token)) continue;
    const visible = await scene.jj.commits(
      op,
      `change_id(${landing.changeId}) & (change_id(${at.changeId}) | ::${at.commitId})`,
    );
    if (!(await isKept(scene, op, landing, visible))) return landing;
  }
  return null;
}

async function isKept(
  scene: Scene,
  op: OpId,
  landing: Landing,
  visible: readonly CommitView[],
): Promise<boolean> {
  const { jj } = scene;
  for (const { commitId } of visible)
    if ((await jj.evolvedFrom(op, commitId)).includes(landing.edits)) return true;
  // Recorded twice, and one of the two is enough.
  for (const { commitId } of visible)
    if (await jj.sameChange(op, landing.edits, commitId)) return true;
  return false;
}
