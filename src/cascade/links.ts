/**
 * Hard links of what a jj command may replace. jj does not look again before it overwrites or removes a file (jj 0.46:
 * "TODO: Check that the file has not changed before overwriting/removing it"): what somebody writes into the old file in
 * that instant is in the link, and nowhere else. A file that somebody puts in its place in that instant has no link.
 */
import type { CommitId } from "../core/ids.ts";
import type { RecoveryProgress } from "../core/recovery.ts";
import { bundleFolder } from "./bundle.ts";
import { fileEffect } from "./moves.ts";
import type { KeptFiles, Scene } from "./scene.ts";
import { Stop } from "./stop.ts";

export const OPEN_REASON = "a process of the agent has a file open that changes:";

type Links = NonNullable<RecoveryProgress["links"]>;

/** A process that has one of these open goes on writing into the file that jj has replaced: its bytes would be nowhere. */
export function refuseOpen(scene: Scene, touched: readonly string[]): void {
  if (scene.open.length === 0) return;
  const paths = new Set(touched);
  const held = scene.open.find((path) => paths.has(path));
  if (held === undefined) return;
  throw new Stop({ outcome: "not-now", reason: `${OPEN_REASON} ${held}` });
}

export function lateReason(late: readonly string[]): string {
  return `${late.join(", ")} was written into while jj replaced it`;
}

// ---- files with edits: compared with what they were ----------------------------------------------------------------

/** Beside the bundle, or, where that is on another disk, in the workspace's `.jj`, at which nobody looks. */
export function takeLinks(scene: Scene, paths: readonly string[]): Links {
  const { deps, child, intent } = scene;
  const folders = [
    `${bundleFolder(deps, intent.intentId)}/links`,
    `${child.workspacePath}/.jj/kiki-kept-${intent.intentId}`,
  ];
  return fileEffect(deps, "links", () => {
    for (const folder of folders) {
      const entries = linkAll(scene, folder, paths, (path) => {
        const sha256 = deps.files.sha256(path);
        return sha256 === null ? null : { sha256 };
      });
      if (entries !== null) return { folder, entries };
    }
    throw new Error(`no hard links can be made of the files in ${child.workspacePath}`);
  });
}

/** null: the folder is on another disk. `note`: what is kept of a file before it gets its second name; null: no file. */
function linkAll<T extends object>(
  scene: Scene,
  folder: string,
  paths: readonly string[],
  note: (path: string) => T | null,
): (T & { path: string })[] | null {
  const { files } = scene.deps;
  files.removeTree(folder);
  const entries: (T & { path: string })[] = [];
  for (const path of paths) {
    const from = `${scene.child.workspacePath}/${path}`;
    const noted = files.isBehindLink(scene.child.workspacePath, path) ? null : note(from);
    if (noted === null) continue;
    const made = files.hardLink(from, `${folder}/${path}`);
    if (made === "other-device") return null;
    if (made === "linked") entries.push({ ...noted, path });
  }
  return entries;
}

/**
 * Paths that were written into while jj replaced them. Their bytes are copied beside the bundle; the links go. What
 * still is the file itself was replaced by nobody, and nothing of it is lost.
 */
export function verifyLinks(scene: Scene, links: Links): string[] {
  const { deps, child } = scene;
  const late: string[] = [];
  for (const { path, sha256 } of links.entries) {
    const now = deps.files.sha256(`${links.folder}/${path}`);
    if (now === null || now === sha256) continue;
    if (now === deps.files.sha256(`${child.workspacePath}/${path}`)) continue;
    saveLate(scene, links.folder, path);
    late.push(path);
  }
  deps.files.removeTree(links.folder);
  return late;
}

function saveLate({ deps, intent }: Scene, folder: string, path: string): void {
  const to = `${bundleFolder(deps, intent.intentId)}/files-late/${path}`;
  deps.files.copyInto(`${folder}/${path}`, to);
}

// ---- clean files: compared with the commit they are from -----------------------------------------------------------

/**
 * Becomes part of the plan, which the caller makes durable before the command. No bundle's folder: an update of clean
 * files leaves nothing behind.
 */
export function keepFiles(scene: Scene, from: CommitId, paths: readonly string[]): void {
  const { deps, child, intent, plan } = scene;
  delete plan.kept;
  if (paths.length === 0) return;
  const folders = [
    `${bundleFolder(deps, intent.intentId)}.links`,
    `${child.workspacePath}/.jj/kiki-kept-${intent.intentId}`,
  ];
  fileEffect(deps, "links", () => {
    for (const folder of folders) {
      const entries = linkAll(scene, folder, paths, (path) => {
        const stamp = deps.files.stamp(path);
        if (stamp === null) return null;
        return { stamp: stamp.text, sha256: stamp.recent ? deps.files.sha256(path) : null };
      });
      if (entries === null) continue;
      if (entries.length > 0) plan.kept = { folder, from, entries };
      return;
    }
    throw new Error(`no hard links can be made of the files in ${child.workspacePath}`);
  });
}

/**
 * Paths that were written into while jj replaced them, their bytes copied beside the bundle, and then their links stay as
 * well. Else the links go. Nothing is pending afterwards; a crash before that is recorded comes to the same again.
 */
export async function verifyKept(scene: Scene): Promise<string[]> {
  const { deps, plan } = scene;
  const { kept } = plan;
  if (kept === undefined) return [];
  const written = kept.entries.filter((entry) => isWritten(scene, kept, entry)).map((e) => e.path);
  // Whoever only touched it, or wrote the same, has lost nothing.
  const late = await scene.jj.differing(kept.from, kept.folder, written);
  fileEffect(deps, "links", () => {
    for (const path of late) saveLate(scene, kept.folder, path);
    if (late.length === 0) deps.files.removeTree(kept.folder);
  });
  delete plan.kept;
  return late;
}

function isWritten(
  { deps: { files }, child }: Scene,
  { folder }: KeptFiles,
  { path, stamp, sha256 }: KeptFiles["entries"][number],
): boolean {
  const link = `${folder}/${path}`;
  const now = files.stamp(link);
  // Verified already, by a life that could not record it any more.
  if (now === null) return false;
  // Still the file itself: replaced by nobody.
  if (files.stamp(`${child.workspacePath}/${path}`)?.text === now.text) return false;
  return sha256 === null ? now.text !== stamp : files.sha256(link) !== sha256;
}
