/** The probe of the port on the model: the same questions in the same order as on the real disk. */
import { createHash } from "node:crypto";
import { short, type CommitId, type OpId } from "../../../src/core/ids.ts";
import type { ProbeState } from "../../../src/core/intent.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { WorkspaceProbe } from "../../../src/ports/jj.ts";
import type { DiskRecord } from "./disk.ts";
import type { JjEngine } from "./engine.ts";
import type { Operation } from "./store.ts";
import { pathsOf, sameTree } from "./tree.ts";

export interface ProbeQuestion {
  root: string;
  workspace: string;
  op: OpId;
  /** A jj command holds the workspace. */
  busy: boolean;
  /** `kind: text`: something about the folder the probe was never checked against (sparse, submodule, settings). */
  unproved: string | null;
}

class Unknown extends Error {}

interface Seen {
  record: DiskRecord | null;
  recorded: CommitId | null;
}

/** Writes nothing. */
export function probe(engine: JjEngine, question: ProbeQuestion): WorkspaceProbe {
  const seen: Seen = { record: null, recorded: null };
  try {
    return look(engine, question, seen);
  } catch (error) {
    if (!(error instanceof Unknown)) throw error;
    return {
      state: "Unknown",
      fingerprint: fingerprint(engine, question, seen, ["Unknown", error.message]),
      checkoutOp: seen.record?.op ?? "",
      recordedCommit: seen.recorded,
      changed: [],
      reason: error.message,
    };
  }
}

function look(engine: JjEngine, q: ProbeQuestion, seen: Seen): WorkspaceProbe {
  const record = recordOf(engine, q, seen);
  const { head, recorded } = currentView(engine, q);
  seen.recorded = recorded;
  const base = engine.store.commit(commitAtCheckout(engine, q, record, head));
  if (q.unproved !== null) throw new Unknown(q.unproved);
  const target = engine.store.commit(recorded);
  const fresh = record.op === head.id || sameTree(record.tree, target.tree);
  const lines = engine.disk
    .changes(q.root, record.tree)
    .map(({ letter, path, entry }) => ({ shown: `${letter} ${path}`, hash: entry ?? "" }));
  if (!fresh) lines.push(...collisions(engine, q.root, record, pathsOf(target.tree)));
  if (!sameTree(record.tree, base.tree)) lines.push({ shown: "W working copy", hash: "" });
  const gitHead = movedHead(engine, q, head, base.parents);
  if (gitHead !== null) lines.push({ shown: "H HEAD", hash: gitHead });
  lines.sort((a, b) => (a.shown < b.shown ? -1 : 1));
  const state: ProbeState = `${fresh ? "Fresh" : "Stale"}${lines.length === 0 ? "Clean" : "Dirty"}`;
  return {
    state,
    fingerprint: fingerprint(engine, q, seen, [state, ...lines.map((l) => `${l.shown} ${l.hash}`)]),
    checkoutOp: record.op,
    recordedCommit: recorded,
    changed: lines.map(({ shown }) => shown),
    reason: null,
  };
}

function recordOf(engine: JjEngine, q: ProbeQuestion, seen: Seen): DiskRecord {
  const { files } = engine.disk;
  if (!files.isFolder(q.root)) throw new Unknown(`unreadable: ${q.root} is not there`);
  if (q.busy) throw new Unknown("busy: a jj command is working in the workspace");
  if (files.kindNow(`${q.root}/.jj/repo`) === "absent")
    throw new Unknown(`unreadable: ${q.root} is no workspace of this repository`);
  const record = engine.disk.record(q.root);
  if (record === null) throw new Unknown("unreadable: the workspace has no record of its checkout");
  seen.record = record;
  if (record.workspace !== q.workspace)
    throw new Unknown(
      `unreadable: the folder is workspace ${record.workspace}, not ${q.workspace}`,
    );
  return record;
}

function currentView(engine: JjEngine, q: ProbeQuestion): { head: Operation; recorded: CommitId } {
  if (engine.heads.size > 1)
    throw new Unknown(`heads: ${engine.heads.size} concurrent operation heads`);
  const head = engine.newestHead();
  const asked = engine.store.operations.get(q.op);
  if (asked === undefined || engine.lost.has(q.op))
    throw new Unknown(`operation-lost: operation ${short(q.op)} is not in the store`);
  const recorded = head.view.workspaces.get(q.workspace);
  if (recorded === undefined) throw new Unknown("forgotten: jj records no such workspace any more");
  if (asked.view.workspaces.get(q.workspace) !== recorded)
    throw new Unknown(`busy: the workspace has another @ since operation ${short(q.op)}`);
  return { head, recorded };
}

function commitAtCheckout(
  engine: JjEngine,
  q: ProbeQuestion,
  record: DiskRecord,
  head: Operation,
): CommitId {
  const from = engine.store.operations.get(record.op);
  if (from === undefined || engine.lost.has(record.op))
    throw new Unknown(
      `operation-lost: operation ${short(record.op)}, which the files are from, is gone`,
    );
  if (!engine.store.isAncestorOp(from, head)) {
    throw new Unknown(
      `sibling-operation: the files are from operation ${short(record.op)}, which is no part of the current history`,
    );
  }
  const commit = from.view.workspaces.get(q.workspace);
  if (commit === undefined)
    throw new Unknown(`unreadable: operation ${short(record.op)} does not know this workspace`);
  return commit;
}

/** git HEAD where it is not what jj expects; null when all is well or the workspace is not colocated. */
function movedHead(
  engine: JjEngine,
  q: ProbeQuestion,
  head: Operation,
  baseParents: readonly CommitId[],
): string | null {
  const actual = engine.git.head(q.root);
  if (actual === undefined) return null;
  const [parent] = baseParents;
  const expected =
    head.view.gitHeads.get(q.workspace) ??
    (parent === undefined || parent === ROOT_COMMIT ? null : parent);
  return actual === expected ? null : (actual ?? "unborn");
}

/** Paths on disk that jj does not track and that stand where the target has a file. */
function collisions(
  engine: JjEngine,
  root: string,
  record: DiskRecord,
  targets: readonly string[],
): { shown: string; hash: string }[] {
  const { files } = engine.disk;
  const tracked = new Set(pathsOf(record.tree));
  const found = new Set<string>();
  for (const path of targets) {
    if (tracked.has(path)) continue;
    const parents = path.split("/").slice(0, -1);
    const folders = parents.map((_, at) => parents.slice(0, at + 1).join("/"));
    const first = folders.find((folder) => !files.isFolder(`${root}/${folder}`));
    // In another repository: jj would record at once that it is gone.
    if (engine.disk.isNested(root, path)) found.add(path);
    else if (first !== undefined) {
      if (files.entryNow(`${root}/${first}`) !== null && !tracked.has(first)) found.add(first);
    } else if (files.isFolder(`${root}/${path}`)) {
      if (!holdsOnlyTracked(engine, root, path, tracked)) found.add(path);
    } else if (files.entryNow(`${root}/${path}`) !== null) found.add(path);
  }
  return [...found].map((path) => ({
    shown: `C ${path}`,
    hash: engine.disk.entryAt(root, path) ?? "",
  }));
}

/** jj removes the tracked files of a folder that becomes a file, and the folder if nothing else is in it. */
function holdsOnlyTracked(
  engine: JjEngine,
  root: string,
  folder: string,
  tracked: ReadonlySet<string>,
): boolean {
  const inside = engine.disk.files.below(`${root}/${folder}`);
  return inside.length > 0 && inside.every((path) => tracked.has(path.slice(root.length + 1)));
}

function fingerprint(
  engine: JjEngine,
  q: ProbeQuestion,
  seen: Seen,
  inventory: readonly string[],
): string {
  const { files } = engine.disk;
  const looked = ["checkout", "tree_state"].map((name) =>
    files.get(`${q.root}/.jj/working_copy/${name}`),
  );
  const text = JSON.stringify([looked, seen.recorded, inventory]);
  return createHash("sha256").update(text).digest("hex");
}
