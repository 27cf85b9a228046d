/**
 * A jj command that was ended in the middle of the files: by the system, for want of memory or disk, with the machine. What it
 * left differs from the recorded checkout and is nobody's edit. It is told from edits by what is durable before every
 * such command (`plan.writing`, the second names of what may be replaced) and by how jj goes about it (`updateProgress`).
 */
import type { CutOff } from "../core/recovery.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import type { PathProgress, WorkspaceProbe } from "../ports/jj.ts";
import { bundleFolder, readBundle } from "./bundle.ts";
import { newToken } from "./looks.ts";
import { fileEffect } from "./moves.ts";
import type { Scene } from "./scene.ts";

/** Operations since the command was given that may be what it went by. */
const LATER_OPS = 50;

interface Progress extends PathProgress {
  /** Nobody has touched the name since before the command: the file under it has the second name as well. */
  untouched: boolean;
}

export interface Cut extends CutOff {
  /** The commit the command was bringing the files to. */
  to: CommitId;
  /** What is to be put back, in the order in which jj wrote. */
  paths: readonly Progress[];
}

/** Token and plan are durable before the command; whatever it leaves is known to be its own. */
export function beginWriting(scene: Scene, probe: WorkspaceProbe, to: CommitId): string {
  const { checkoutOp, fingerprint } = probe;
  const token = scene.deps.ids.uuid();
  scene.plan.writing = { token, checkoutOp, fingerprint, at: scene.probedOp, to };
  return newToken(scene, fingerprint, token);
}

/** It has ended well. Not durable by itself: a look at fresh files says the same. */
export function endWriting(scene: Scene): void {
  delete scene.plan.writing;
}

/** null: no command was cut off, or it had not come to the files. */
export async function lookAtCut(scene: Scene, probe: WorkspaceProbe): Promise<Cut | null> {
  const { writing } = scene.plan;
  if (writing === undefined || probe.state !== "StaleDirty") return null;
  if (probe.fingerprint === writing.fingerprint) return null;
  const from = await filesAt(scene, probe.checkoutOp);
  if (from === undefined || !(await isItsOwn(scene, probe, from))) return null;
  let first: Cut | null = null;
  for (const to of await targets(scene)) {
    if (to === from) continue;
    const cut = await progressTo(scene, from, to);
    if (cut?.unclear === null) return cut;
    first ??= cut;
  }
  return first;
}

async function filesAt(scene: Scene, op: OpId): Promise<CommitId | undefined> {
  return (await scene.views.heads(op)).get(scene.child.workspaceName)?.commitId;
}

/** The files are from the commit that it began with, or from its own record of the edits that it found. */
async function isItsOwn(scene: Scene, probe: WorkspaceProbe, from: CommitId): Promise<boolean> {
  const { token, checkoutOp } = scene.plan.writing!;
  // jj goes on to a newer operation first where that has the same.
  if (from === (await filesAt(scene, checkoutOp))) return true;
  const [op] = await scene.jj.operations(probe.checkoutOp, 1);
  return op !== undefined && op.isSnapshot && op.args.includes(token);
}

/** jj goes by what it finds when it starts, which may be newer than what it was given for. */
async function targets(scene: Scene): Promise<CommitId[]> {
  const { jj, plan } = scene;
  const { at, to } = plan.writing!;
  const ops = await jj.operations(scene.probedOp, LATER_OPS);
  const parents = new Map(ops.map((op) => [op.id, op.parents]));
  const earlier = new Set([at]);
  for (const id of earlier) for (const parent of parents.get(id) ?? []) earlier.add(parent);
  const found = new Set([to]);
  for (const { id } of ops) {
    if (earlier.has(id)) continue;
    const commit = await filesAt(scene, id);
    if (commit !== undefined) found.add(commit);
  }
  return [...found];
}

async function progressTo(scene: Scene, from: CommitId, to: CommitId): Promise<Cut | null> {
  const { jj, child } = scene;
  const progress = await jj.updateProgress(scene.probedOp, from, to, child.workspacePath);
  const steps = progress.map((step) => ({ ...step, untouched: isUntouched(scene, step.path) }));
  const paths = steps.filter((s) => isReplaced(s));
  const strange = steps.find((s) => s.state === "other" && !s.untouched);
  if (strange !== undefined) {
    const unclear = `${strange.path} was written into after a command had been ended in the middle of the files`;
    return { to, paths, mend: paths.length, unclear };
  }
  if (paths.length === 0) return null;
  const unclear = disorder(steps) ?? unkept(scene, paths);
  return { to, paths, mend: paths.length, unclear };
}

function isReplaced(step: Progress): boolean {
  return !step.untouched && (step.state === "to" || step.state === "begun");
}

/** jj takes one file after the other: what does not fit that was somebody else's doing. */
function disorder(steps: readonly Progress[]): string | null {
  const last = steps.findLastIndex(isReplaced);
  const odd = steps.find((s, at) => at < last && (!isReplaced(s) || s.state === "begun"));
  if (odd === undefined) return null;
  return `${odd.path} is not what a command leaves that is ended in the middle of ${steps[last]!.path}`;
}

function unkept(scene: Scene, paths: readonly Progress[]): string | null {
  const gone = paths.find(({ path, had }) => had && keptFile(scene, path) === null);
  return gone === undefined ? null : `what ${gone.path} was is not kept`;
}

function keptFile({ deps, plan }: Scene, path: string): string | null {
  for (const folder of [plan.recovery?.links?.folder, plan.kept?.folder]) {
    if (folder === undefined) continue;
    if (deps.files.stamp(`${folder}/${path}`) !== null) return `${folder}/${path}`;
  }
  return null;
}

function isUntouched(scene: Scene, path: string): boolean {
  const { files } = scene.deps;
  const kept = keptFile(scene, path);
  if (kept === null) return false;
  return files.stamp(kept)!.text === files.stamp(`${scene.child.workspacePath}/${path}`)?.text;
}

/**
 * The old files under their names again, the last one first, so that a death in between leaves what a shorter command
 * would have left. Nothing is overwritten: what lay there is moved away. Returns why a person has to see to it, or null.
 */
export function mend(scene: Scene, cut: Cut): string | null {
  const { files } = scene.deps;
  const root = scene.child.workspacePath;
  const stuck: string[] = [];
  fileEffect(scene.deps, "mend", () => {
    for (const { path, had, sha256 } of cut.paths.toReversed()) {
      const at = `${root}/${path}`;
      const kept = had ? keptFile(scene, path) : null;
      // A person has chosen without it: what lies there stays.
      if (had && kept === null) continue;
      if (sha256 !== null) files.moveFile(at, `${asideFolder(scene)}/${path}`);
      files.removeEmptyFolders(had ? at : at.slice(0, at.lastIndexOf("/")), root);
      if (kept !== null && !files.putBack(kept, root, path)) stuck.push(path);
    }
  });
  if (stuck.length > 0) return `something is in the way of what ${stuck.join(", ")} was`;
  endWriting(scene);
  return null;
}

/** At which nobody looks; on the disk of the files. */
function asideFolder({ child, intent }: Scene): string {
  return `${child.workspacePath}/.jj/kiki-half-${intent.intentId}`;
}

/**
 * What was moved away goes: it is what a bundle says it is. Where it is not, somebody wrote into it in that instant; those
 * paths are returned, and their bytes are beside the bundle.
 */
export function dropHalves(scene: Scene): string[] {
  const { deps, plan, intent } = scene;
  if (plan.recovery?.mended !== true) return [];
  const folder = bundleFolder(deps, intent.intentId);
  const known = new Map<string, Set<string | null>>();
  for (let number = 1; number <= plan.recovery.bundle; number += 1)
    for (const { path, sha256 } of readBundle(deps, folder, number)?.entries ?? [])
      known.set(path, (known.get(path) ?? new Set()).add(sha256));
  const late = [...known].filter(([path, hashes]) => {
    const now = deps.files.sha256(`${asideFolder(scene)}/${path}`);
    return now !== null && !hashes.has(now);
  });
  for (const [path] of late)
    deps.files.copyInto(`${asideFolder(scene)}/${path}`, `${folder}/files-late/${path}`);
  deps.files.removeTree(asideFolder(scene));
  return late.map(([path]) => path);
}
