/**
 * Hard links of what a jj command may replace. jj does not look again before it overwrites or removes a file (jj 0.46:
 * "TODO: Check that the file has not changed before overwriting/removing it"): what somebody writes into the old file in
 * that instant is in the link, and nowhere else.
 */
import type { JjRepo } from "../ports/jj.ts";
import type { CommitId, OpId } from "../core/ids.ts";
import { bundleFolder } from "./bundle.ts";
import { fileEffect } from "./moves.ts";
import type { Scene } from "./scene.ts";
import { Stop } from "./stop.ts";
import type { RecoveryProgress } from "../core/recovery.ts";

export const OPEN_REASON = "a process of the agent has a file open that changes:";

type Links = NonNullable<RecoveryProgress["links"]>;

/** Paths that a change of the files from one commit to another touches, whatever they are called on either side. */
export async function touchedPaths(
  jj: JjRepo,
  op: OpId,
  from: CommitId,
  to: CommitId,
): Promise<string[]> {
  const paths = new Set<string>();
  // A rename is listed under its new name; looked at from the other side, under the old one.
  for (const [a, b] of [
    [from, to],
    [to, from],
  ] as const)
    for (const change of await jj.changedPaths(op, a, b)) paths.add(change.path);
  return [...paths];
}

/** A process that has one of these open goes on writing into the file that jj has replaced: its bytes would be nowhere. */
export async function refuseOpen(
  scene: Scene,
  touched: () => Promise<readonly string[]>,
): Promise<void> {
  if (scene.open.length === 0) return;
  const paths = new Set(await touched());
  const held = scene.open.find((path) => paths.has(path));
  if (held === undefined) return;
  throw new Stop({ outcome: "not-now", reason: `${OPEN_REASON} ${held}` });
}

/** Beside the bundle, or, where that is on another disk, in the workspace's `.jj`, at which nobody looks. */
export function takeLinks(scene: Scene, paths: readonly string[]): Links {
  const { deps, child, intent } = scene;
  const folders = [
    `${bundleFolder(deps, intent.intentId)}/links`,
    `${child.workspacePath}/.jj/kiki-kept-${intent.intentId}`,
  ];
  return fileEffect(deps, "links", () => {
    for (const folder of folders) {
      deps.files.removeTree(folder);
      const links = linkAll(scene, folder, paths);
      if (links !== null) return links;
    }
    throw new Error(`no hard links can be made of the files in ${child.workspacePath}`);
  });
}

function linkAll(scene: Scene, folder: string, paths: readonly string[]): Links | null {
  const { files } = scene.deps;
  const entries: Links["entries"] = [];
  for (const path of paths) {
    const from = `${scene.child.workspacePath}/${path}`;
    const sha256 = files.sha256(from);
    if (sha256 === null) continue;
    const made = files.hardLink(from, `${folder}/${path}`);
    if (made === "other-device") return null;
    if (made === "linked") entries.push({ path, sha256 });
  }
  return { folder, entries };
}

/**
 * Paths that were written into while jj replaced them. Their bytes are copied beside the bundle; the links go. What
 * still is the file itself was replaced by nobody, and nothing of it is lost.
 */
export function verifyLinks(scene: Scene, links: Links): string[] {
  const { deps, child, intent } = scene;
  const late: string[] = [];
  for (const { path, sha256 } of links.entries) {
    const now = deps.files.sha256(`${links.folder}/${path}`);
    if (now === null || now === sha256) continue;
    if (now === deps.files.sha256(`${child.workspacePath}/${path}`)) continue;
    deps.files.copyInto(
      `${links.folder}/${path}`,
      `${bundleFolder(deps, intent.intentId)}/files-late/${path}`,
    );
    late.push(path);
  }
  deps.files.removeTree(links.folder);
  return late;
}
