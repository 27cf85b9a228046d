/**
 * The probe (cascade chapter; facts: jj §3): what state a workspace's files are in, found without changing a byte
 * and without taking a lock. It says less rather than more: what is not proved is `Unknown`, with the reason.
 */
import { createHash } from "node:crypto";
import { lstatSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { errorLine } from "../../core/errors.ts";
import { short, type CommitId, type OpId } from "../../core/ids.ts";
import type { ProbeState } from "../../core/intent.ts";
import type { WorkspaceProbe } from "../../ports/jj.ts";
import { readBytes, readText } from "../files.ts";
import type { JjContext } from "./context.ts";
import { colocatedGitDir, headCommit } from "./git-head.ts";
import { gitStore, repoDirOf } from "./locate.ts";
import { isHeld, workingCopyLock } from "./locks.ts";
import { OpStore } from "./op-store.ts";
import {
  FILE_SUBMODULE,
  parseCheckout,
  parseTreeState,
  type Checkout,
  type StoredView,
} from "./protobuf.ts";
import { heads } from "./reads.ts";
import { SettingsReader } from "./snapshot-settings.ts";
import { keptTrees, type GitTrees, type StoredCommit } from "./trees.ts";
import { Unproved } from "./unproved.ts";
import { collisions, newFiles, trackedDifferences, type WorkingCopy } from "./working-copy.ts";

/** An agent's own jj may be running: look again this often before saying "busy". */
const ATTEMPTS = 3;
const ATTEMPT_PAUSE_MS = 20;

export interface Prober {
  /** Never throws for what it finds; `Unknown` carries the reason, which begins with "busy" when it may pass. */
  probe(workspaceRoot: string, workspace: string, op: OpId): Promise<WorkspaceProbe>;
}

export function createProber(ctx: JjContext, treesOf = keptTrees(ctx)): Prober {
  const ops = new OpStore(ctx.location.repoDir);
  const settings = new SettingsReader(ctx);
  return {
    async probe(workspaceRoot, workspace, op) {
      for (let attempt = 1; ; attempt += 1) {
        const seen: Seen = {
          checkout: null,
          checkoutBytes: null,
          stateBytes: null,
          recorded: null,
        };
        try {
          const gitDir = gitStore(ctx.location.repoDir);
          if (gitDir === null)
            throw new Unproved("unreadable", "the repository's git store is missing");
          const trees = treesOf(gitDir);
          const root = realRoot(workspaceRoot);
          return await probeOnce({ ctx, ops, trees, settings, gitDir, root, workspace, op }, seen);
        } catch (error) {
          const busy = error instanceof Unproved && error.kind === "busy";
          if (!busy || attempt === ATTEMPTS) return unknown(seen, error);
          await ctx.clock.sleep(ATTEMPT_PAUSE_MS);
        }
      }
    },
  };
}

interface Target {
  ctx: JjContext;
  ops: OpStore;
  trees: GitTrees;
  settings: SettingsReader;
  gitDir: string;
  root: string;
  workspace: string;
  op: OpId;
}

/** What was read so far; an `Unknown` answer tells it too. */
interface Seen {
  checkout: Checkout | null;
  checkoutBytes: Buffer | null;
  stateBytes: Buffer | null;
  recorded: CommitId | null;
}

async function probeOnce(t: Target, seen: Seen): Promise<WorkspaceProbe> {
  const copy = readWorkingCopy(t, seen);
  const { head, view, recorded } = await currentView(t);
  seen.recorded = recorded;
  const baseCommit = recordedAtCheckout(t, copy.checkoutOp, head);
  const tracked = new Set(copy.state.files.map((file) => file.path));
  const settings = provedSettings(t);
  const gitHead = headDifference(t, view, baseCommit);
  const [changes, added, [target, base], movedHead] = await settleAll([
    trackedDifferences(t.ctx, t.trees, copy),
    newFiles(t.ctx, copy, tracked, async () => (await settings).maxNewFileBytes),
    commitsOf(t, [recorded, baseCommit]),
    gitHead,
    settings,
  ]);
  const fresh = copy.checkoutOp === head || sameTree(copy, target);
  const differences = [...changes, ...added];
  if (!fresh) differences.push(...collisions(t.root, tracked, await targetPaths(t, target)));
  const lines = differences.map(({ letter, path, hash }) => ({ shown: `${letter} ${path}`, hash }));
  // jj recorded files whose commit is not the checkout's: a snapshot, or `jj file track`, was not finished.
  if (!sameTrees(copy.state.trees, base.trees)) lines.push({ shown: "W working copy", hash: "" });
  if (movedHead !== null) lines.push({ shown: "H HEAD", hash: movedHead });
  lines.sort((a, b) => (a.shown < b.shown ? -1 : 1));
  await checkUnchanged(t, seen, { recorded, view });
  const state: ProbeState = `${fresh ? "Fresh" : "Stale"}${lines.length === 0 ? "Clean" : "Dirty"}`;
  return {
    state,
    fingerprint: fingerprint(
      seen,
      state,
      lines.map(({ shown, hash }) => `${shown}\0${hash}`),
    ),
    checkoutOp: copy.checkoutOp,
    recordedCommit: recorded,
    changed: lines.map(({ shown }) => shown),
    reason: null,
  };
}

/** Reads and checks `.jj/working_copy`, filling `seen`. */
function readWorkingCopy(t: Target, seen: Seen): WorkingCopy {
  if (isHeld(workingCopyLock(t.root))) {
    throw new Unproved("busy", "a jj command is working in the workspace");
  }
  if (repoDirOf(t.root) !== t.ctx.location.repoDir) {
    throw new Unproved("unreadable", `${t.root} is no workspace of this repository`);
  }
  const folder = join(t.root, ".jj/working_copy");
  if (readText(join(folder, "type"))?.trim() !== "local") {
    throw new Unproved("unsupported", "a working copy of an unknown type");
  }
  seen.checkoutBytes = readBytes(join(folder, "checkout"));
  // Its time is taken before its content: if it is replaced in between, the older time makes fewer files clean.
  const stat = lstatSync(join(folder, "tree_state"), { bigint: true, throwIfNoEntry: false });
  seen.stateBytes = readBytes(join(folder, "tree_state"));
  if (seen.checkoutBytes === null || seen.stateBytes === null || stat === undefined) {
    throw new Unproved("unreadable", "the workspace has no record of its checkout");
  }
  const checkout = parseCheckout(seen.checkoutBytes);
  seen.checkout = checkout;
  if (checkout.workspace !== t.workspace) {
    throw new Unproved(
      "unreadable",
      `the folder is workspace ${checkout.workspace}, not ${t.workspace}`,
    );
  }
  const state = parseTreeState(seen.stateBytes);
  if (state.sparse.length !== 1 || state.sparse[0] !== "") {
    throw new Unproved("unsupported", "a sparse working copy");
  }
  const submodule = state.files.find((file) => file.type === FILE_SUBMODULE);
  if (submodule !== undefined)
    throw new Unproved("unsupported", `the git submodule ${submodule.path}`);
  return {
    root: t.root,
    gitDir: t.gitDir,
    state,
    stateMtime: Number(stat.mtimeNs / 1_000_000n),
    checkoutOp: checkout.op,
  };
}

/**
 * The one current head and what it records for the workspace. The caller's `op` may be a little older: it still
 * describes the workspace when nothing since has touched its `@`.
 */
async function currentView(
  t: Target,
): Promise<{ head: OpId; view: StoredView; recorded: CommitId }> {
  if (!t.ops.isKnownType())
    throw new Unproved("unsupported", "an operation store of an unknown type");
  const current = await heads(t.ctx);
  const [head] = current;
  if (head === undefined || current.length > 1) {
    throw new Unproved("heads", `${current.length} concurrent operation heads`);
  }
  const view = t.ops.view(head);
  const asked = head === t.op ? view : t.ops.view(t.op);
  if (view === null || asked === null) {
    throw new Unproved(
      "operation-lost",
      `operation ${short(view === null ? head : t.op)} is not in the store`,
    );
  }
  const recorded = view.workspaces.get(t.workspace);
  if (recorded === undefined)
    throw new Unproved("forgotten", "jj records no such workspace any more");
  if (asked.workspaces.get(t.workspace) !== recorded) {
    throw new Unproved("busy", `the workspace has another @ since operation ${short(t.op)}`);
  }
  return { head, view, recorded };
}

/** The commit jj recorded for the workspace when its files were last written. */
function recordedAtCheckout(t: Target, checkoutOp: OpId, head: OpId): CommitId {
  const view = t.ops.view(checkoutOp);
  if (view === null) {
    throw new Unproved(
      "operation-lost",
      `operation ${short(checkoutOp)}, which the files are from, is gone`,
    );
  }
  if (checkoutOp !== head && !t.ops.isAncestor(checkoutOp, head)) {
    throw new Unproved(
      "sibling-operation",
      `the files are from operation ${short(checkoutOp)}, which is no part of the current history`,
    );
  }
  const commit = view.workspaces.get(t.workspace);
  if (commit === undefined) {
    throw new Unproved("unreadable", `operation ${short(checkoutOp)} does not know this workspace`);
  }
  return commit;
}

async function provedSettings(t: Target): Promise<{ maxNewFileBytes: number }> {
  const settings = await t.settings.read(t.root);
  if ("unproved" in settings) throw new Unproved("unsupported", settings.unproved);
  return settings;
}

async function commitsOf(
  t: Target,
  ids: [CommitId, CommitId],
): Promise<[StoredCommit, StoredCommit]> {
  const [target, base] = await t.trees.commits(ids);
  return [target!, base!];
}

/**
 * git HEAD where it is not what jj expects, as text for the fingerprint; null when all is well or the workspace is
 * not colocated. jj expects what its view records as this workspace's HEAD, and where it records none (it never
 * wrote or imported one) the first parent at the checkout operation. Comparing with that parent always would be
 * wrong: after a mere reword of the parent a clean `jj st` moves the checkout on and leaves HEAD alone.
 */
async function headDifference(
  t: Target,
  view: StoredView,
  baseCommit: CommitId,
): Promise<string | null> {
  const gitDir = colocatedGitDir(t.root, t.gitDir);
  if (gitDir === null) return null;
  const actual = await headCommit(t.ctx, gitDir);
  const [base] = await t.trees.commits([baseCommit]);
  const expected = view.gitHeads.get(t.workspace) ?? base?.parents[0] ?? null;
  return actual === expected ? null : (actual ?? "unborn");
}

/** Every path the target tree has; of a conflicted one, of all its terms. */
async function targetPaths(t: Target, target: StoredCommit): Promise<Set<string>> {
  const paths = new Set<string>();
  for (const tree of target.trees) {
    for (const [path, entry] of await t.trees.listing(tree)) {
      if (entry.mode === "160000") throw new Unproved("unsupported", `the git submodule ${path}`);
      paths.add(path);
    }
  }
  return paths;
}

/** jj's rule for "not stale although operations have passed": same trees and same conflict labels. */
function sameTree(copy: WorkingCopy, target: StoredCommit): boolean {
  return sameTrees(copy.state.trees, target.trees) && sameTrees(copy.state.labels, target.labels);
}

function sameTrees(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((tree, at) => tree === b[at]);
}

/** Nothing the answer rests on has moved meanwhile. */
async function checkUnchanged(
  t: Target,
  seen: Seen,
  before: { recorded: CommitId; view: StoredView },
): Promise<void> {
  const folder = join(t.root, ".jj/working_copy");
  const checkout = readBytes(join(folder, "checkout"));
  const state = readBytes(join(folder, "tree_state"));
  if (
    checkout === null ||
    state === null ||
    !checkout.equals(seen.checkoutBytes!) ||
    !state.equals(seen.stateBytes!) ||
    isHeld(workingCopyLock(t.root))
  ) {
    throw new Unproved("busy", "a jj command worked in the workspace meanwhile");
  }
  const { recorded, view } = await currentView(t);
  if (
    recorded !== before.recorded ||
    view.gitHeads.get(t.workspace) !== before.view.gitHeads.get(t.workspace)
  ) {
    throw new Unproved("busy", "the workspace's @ moved meanwhile");
  }
}

function fingerprint(seen: Seen, state: string, inventory: readonly string[]): string {
  const hash = createHash("sha256");
  for (const bytes of [seen.checkoutBytes, seen.stateBytes]) {
    hash.update(
      createHash("sha256")
        .update(bytes ?? "missing")
        .digest(),
    );
  }
  hash.update(JSON.stringify([seen.recorded, state, inventory]));
  return hash.digest("hex");
}

function unknown(seen: Seen, error: unknown): WorkspaceProbe {
  const kind = error instanceof Unproved ? error.kind : "unreadable";
  const reason = `${kind}: ${errorLine(error)}`;
  return {
    state: "Unknown",
    fingerprint: fingerprint(seen, "Unknown", [reason]),
    checkoutOp: seen.checkout?.op ?? "",
    recordedCommit: seen.recorded,
    changed: [],
    reason,
  };
}

function realRoot(workspaceRoot: string): string {
  try {
    return realpathSync(workspaceRoot);
  } catch {
    throw new Unproved("unreadable", `${workspaceRoot} is not there`);
  }
}

/** Promise.all that lets every part end before it fails, so that nothing of an attempt runs into the next one. */
async function settleAll<T extends readonly unknown[]>(
  parts: readonly [...{ [K in keyof T]: Promise<T[K]> }],
): Promise<T> {
  const results = await Promise.allSettled(parts as readonly Promise<unknown>[]);
  for (const result of results) {
    if (result.status === "rejected") throw result.reason;
  }
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as unknown as T;
}
