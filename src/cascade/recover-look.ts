/** What a recovery decides from: the files, jj's copies of the change, and what stands on them. Reads only. */
import type { CommitId, OpId, ThreadId } from "../core/ids.ts";
import {
  targetCopy,
  type Followers,
  type RecoveryCopy,
  type RecoveryFacts,
} from "../core/recovery.ts";
import type { CommitView, JjRepo, WorkspaceProbe, WorkspaceView } from "../ports/jj.ts";
import { cascadeThread } from "../store/edges.ts";
import { bundleFolder, readBundle, type Bundle } from "./bundle.ts";
import { followersOf } from "./chain.ts";
import { fullestOf, isContained } from "./copies.ts";
import { lookAtCut, type Cut } from "./cut-off.ts";
import { landingsOf, lostLanding, type Landing } from "./landings.ts";
import { pinHead, probeNow } from "./looks.ts";
import type { Scene } from "./scene.ts";

export interface RecoveryView {
  op: OpId;
  probe: WorkspaceProbe;
  at: WorkspaceView | null;
  /** The revision the files are from; null when that cannot be read. */
  base: WorkspaceView | null;
  copies: { view: CommitView; copy: RecoveryCopy; landing: Landing | null }[];
  bundle: Bundle | null;
  /** What is half-written; the paths that `facts.cut` counts. */
  cut: Cut | null;
  facts: RecoveryFacts;
}

/** null: jj records no such workspace any more. `chosen`: the copy a person wants. */
export async function lookAtRecovery(
  scene: Scene,
  chosen: CommitId | null = null,
): Promise<RecoveryView | null> {
  const { jj, child, plan } = scene;
  const probe = await probeNow(scene, await pinHead(scene));
  const op = scene.probedOp;
  const at = (await scene.views.at(op)).get(child.workspaceName) ?? null;
  if (at === null) return null;
  const landings = await landingsOf(scene, op);
  const copies = await copiesOf(jj, op, at, landings);
  const base = await baseOf(scene, probe);
  const bundle = readBundle(
    scene.deps,
    bundleFolder(scene.deps, scene.intent.intentId),
    plan.recovery?.bundle ?? 0,
  );
  const edits = copies.filter((c) => c.copy.kind === "edits");
  const target = targetCopy({ copies: copies.map((c) => c.copy), at: at.commitId, chosen });
  const staying = copies.find((c) => c.copy === target) ?? null;
  const followers = await followersOn(scene, op, {
    target: staying?.view.commitId ?? null,
    others: copies.filter((c) => c !== staying).map((c) => c.view.commitId),
    at: at.commitId,
  });
  const cut = await lookAtCut(scene, probe);
  const facts: RecoveryFacts = {
    probe,
    cut,
    bundled: plan.recovery?.fingerprint === probe.fingerprint,
    at: at.commitId,
    head: await movedHead(scene, op, probe),
    before: await beforeOf(jj, op, base, at),
    copies: copies.map((c) => c.copy),
    alike: await areAlike(
      jj,
      op,
      edits.map((c) => c.view),
    ),
    covered: await isCovered(scene, at, bundle, staying?.landing ?? null),
    lost: (await lostLanding(scene, op, at, landings))?.edits ?? null,
    followers,
    torn: await tornBookmarks(jj, op, staying?.view.commitId ?? null, copies, followers),
    chosen,
  };
  return { op, probe, at, base, copies, bundle, cut, facts };
}

async function copiesOf(
  jj: JjRepo,
  op: OpId,
  at: WorkspaceView,
  landings: readonly Landing[],
): Promise<RecoveryView["copies"]> {
  const views = await jj.commits(op, `change_id(${at.changeId})`);
  const copies = await Promise.all(views.map((view) => explain(jj, op, view, landings)));
  // What kiki's own commands account for first: where that is all of them, nothing else is asked.
  if (copies.every(({ copy }) => copy.kind !== "other")) return copies;
  const ids = copies.map(({ view }) => view.commitId);
  const full = await fullestOf(jj, op, ids, at.commitId);
  if (full === null) return copies;
  return copies.map((each) => {
    const kind = each.view.commitId === full ? "edits" : "clean";
    return { ...each, copy: { ...each.copy, kind } };
  });
}

async function explain(
  jj: JjRepo,
  op: OpId,
  view: CommitView,
  landings: readonly Landing[],
): Promise<RecoveryView["copies"][number]> {
  const copy = (kind: RecoveryCopy["kind"]): RecoveryCopy => ({
    commit: view.commitId,
    kind,
    immutable: view.immutable,
  });
  const past = new Set(landings.length === 0 ? [] : await jj.evolvedFrom(op, view.commitId));
  for (const landing of landings) {
    if (past.has(landing.edits) && (await jj.sameChange(op, landing.edits, view.commitId)))
      return { view, copy: copy("edits"), landing };
  }
  for (const landing of landings) {
    if (past.has(landing.before) && (await jj.sameChange(op, landing.before, view.commitId)))
      return { view, copy: copy("clean"), landing: null };
  }
  return { view, copy: copy("other"), landing: null };
}

async function baseOf(scene: Scene, probe: WorkspaceProbe): Promise<WorkspaceView | null> {
  if (probe.state === "Unknown") return null;
  return (await scene.views.at(probe.checkoutOp)).get(scene.child.workspaceName) ?? null;
}

async function beforeOf(
  jj: JjRepo,
  op: OpId,
  base: WorkspaceView | null,
  at: WorkspaceView,
): Promise<RecoveryFacts["before"]> {
  if (base === null || base.changeId !== at.changeId) return "another";
  return (await jj.sameChange(op, base.commitId, at.commitId)) ? "moved" : "changed";
}

async function areAlike(jj: JjRepo, op: OpId, edits: readonly CommitView[]): Promise<boolean> {
  const [first, ...more] = edits;
  for (const other of more) {
    if (other.parents.join() !== first!.parents.join()) return false;
    if (!(await jj.sameChange(op, first!.commitId, other.commitId))) return false;
  }
  return true;
}

/** The probe says `H` where HEAD moved; what it is and should be is read only then. */
async function movedHead(
  scene: Scene,
  op: OpId,
  probe: WorkspaceProbe,
): Promise<RecoveryFacts["head"]> {
  if (!probe.changed.includes("H HEAD")) return null;
  return scene.jj.gitHead(scene.child.workspacePath, scene.child.workspaceName, op);
}

/**
 * Every edit of the newest bundle is in the record that the adopted copy was moved from, or in jj's `@`, or on disk.
 * Files jj does not record are not at stake: no command of jj's touches them, and a collision is refused beforehand.
 */
async function isCovered(
  scene: Scene,
  at: WorkspaceView,
  bundle: Bundle | null,
  landing: Landing | null,
): Promise<boolean> {
  const { jj, deps, child } = scene;
  const edits = (bundle?.entries ?? []).filter(
    (e) => "MADT?".includes(e.change) && e.raw === undefined,
  );
  if (bundle === null || edits.length === 0) return true;
  let open = edits.map((e) => e.path);
  if (landing !== null) open = await jj.differing(landing.edits, bundle.files, open);
  if (landing === null) {
    const hashes = new Map(edits.map((e) => [e.path, e.sha256]));
    open = open.filter(
      (path) => deps.files.sha256(`${child.workspacePath}/${path}`) !== hashes.get(path),
    );
    open = await jj.differing(at.commitId, bundle.files, open);
  }
  const recorded = new Set(edits.filter((e) => e.change !== "?").map((e) => e.path));
  return !open.some((path) => landing === null || recorded.has(path));
}

/** What stands on the copies that will go, and on the one that stays: revisions of registered followers, and no other. */
async function followersOn(
  scene: Scene,
  op: OpId,
  on: { target: CommitId | null; others: readonly CommitId[]; at: CommitId },
): Promise<Followers> {
  const { jj } = scene;
  const above = (ids: readonly CommitId[]): string =>
    `(descendants(${ids.join("|")}) ~ (${ids.join("|")}))`;
  const going = on.others.length === 0 ? [on.at] : on.others;
  const tail = await jj.commits(op, above(going));
  const staying =
    on.target === null || on.others.length === 0 ? [] : await jj.commits(op, above([on.target]));
  const all = [...tail, ...staying];
  if (all.length === 0) return { ours: true, surplus: [], move: [] };
  const heads = await followerHeads(scene, op);
  const set = all.map((c) => c.commitId).join("|");
  const lineage =
    heads.length === 0
      ? new Set<CommitId>()
      : new Set((await jj.commits(op, `(${set}) & ::(${heads.join("|")})`)).map((c) => c.commitId));
  const kept = all.filter((c) => lineage.has(c.commitId));
  const broken = kept.find((c) => c.parents.length !== 1 || c.immutable);
  if (broken !== undefined) return { ours: false, foreign: broken.commitId };
  const surplus: { commit: CommitId; twin: CommitId }[] = [];
  for (const extra of all.filter((c) => !lineage.has(c.commitId))) {
    const twin = kept.find((c) => c.changeId === extra.changeId);
    if (twin === undefined || !(await isContained(jj, op, extra.commitId, twin.commitId)))
      return { ours: false, foreign: extra.commitId };
    surplus.push({ commit: extra.commitId, twin: twin.commitId });
  }
  return {
    ours: true,
    surplus,
    move: tail.filter((c) => lineage.has(c.commitId)).map((c) => c.commitId),
  };
}

/** Conflicted between nothing but copies that recovery chooses among. */
async function tornBookmarks(
  jj: JjRepo,
  op: OpId,
  target: CommitId | null,
  copies: RecoveryView["copies"],
  followers: Followers,
): Promise<{ name: string; to: CommitId }[]> {
  if (target === null || copies.length < 2 || !followers.ours) return [];
  const home = new Map(copies.map((c) => [c.view.commitId, target]));
  for (const { commit, twin } of followers.surplus) home.set(commit, twin).set(twin, twin);
  return (await jj.bookmarks(op)).flatMap(({ name, targets }) => {
    const homes = new Set(targets.map((t) => home.get(t)));
    const [to] = homes;
    return targets.length > 1 && homes.size === 1 && to !== undefined ? [{ name, to }] : [];
  });
}

async function followerHeads(scene: Scene, op: OpId): Promise<CommitId[]> {
  const view = await scene.views.at(op);
  const { db } = scene.deps;
  const head = (id: ThreadId): CommitId | undefined =>
    view.get(cascadeThread(db, id)!.workspaceName)?.commitId;
  return followersOf(db, scene.child.threadId)
    .map(head)
    .filter((id): id is CommitId => id !== undefined);
}
