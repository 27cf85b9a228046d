/**
 * Unsnapshotted-edit recovery, carried out. Bound, `RecoveryRequired`, a bundle durable. Each round looks, and takes
 * the one step that core/recovery decides on; a restart begins with the same look. The same incarnation goes on when
 * the visible tree has the parent's change and the edits; anything that is not proved waits for a person.
 */
import { KikiError } from "../core/errors.ts";
import type { CommitId } from "../core/ids.ts";
import { decideRecovery, type RecoveryChoice, type RecoveryStep } from "../core/recovery.ts";
import type { WorkspaceProbe } from "../ports/jj.ts";
import { bundleFolder, saveBundle } from "./bundle.ts";
import { beginWriting, dropHalves, endWriting, lookAtCut, mend } from "./cut-off.ts";
import { lateReason, refuseOpen, takeLinks, verifyKept, verifyLinks } from "./links.ts";
import { newToken, persistPlan, pinHead, probeNow, stillGoesOn } from "./looks.ts";
import { changeIntents, fileEffect, jjEffect } from "./moves.ts";
import { lookAtRecovery, type RecoveryView } from "./recover-look.ts";
import type { Scene } from "./scene.ts";
import { Moved, Stop } from "./stop.ts";

/** Steps of one recovery: a bundle, HEAD, two updates, followers, `edit` and `abandon`, and some that are repeated. */
const MAX_STEPS = 16;

/** Bundle first, durable, then the state; nothing in the workspace is touched. */
export async function needsRecovery(
  scene: Scene,
  probe: WorkspaceProbe,
  reason: string,
): Promise<never> {
  const bundle = await bundleNow(scene, probe);
  scene.plan.recovery = {
    open: true,
    refused: null,
    bundle: bundle.number,
    fingerprint: probe.fingerprint,
    pinnedHead: scene.plan.recovery?.pinnedHead ?? null,
    links: null,
  };
  throw new Stop(
    { outcome: "recovery-required", reason },
    {
      folder: bundle.folder,
      fingerprint: probe.fingerprint,
      evidence: {
        probe: probe.state,
        changed: probe.changed.slice(0, 200),
        bundled: bundle.entries.length,
      },
    },
  );
}

/**
 * The choice that was adopted, or why a person has to choose. Throws `Stop` for what is only not possible now.
 * `chosen`: the copy a person wants; the others are then kept under git refs.
 */
export async function recover(
  scene: Scene,
  chosen: CommitId | null = null,
): Promise<{ choice: RecoveryChoice } | { refused: string }> {
  for (let step = 0; step < MAX_STEPS; step += 1) {
    const seen = await lookAtRecovery(scene, chosen);
    // What was replaced is needed until it is known that nothing has to be put back.
    if (seen === null || seen.cut === null) {
      if (seen !== null && seen.probe.state !== "Unknown") endWriting(scene);
      const late = [...dropHalves(scene), ...verifyPending(scene), ...(await verifyKept(scene))];
      if (late.length > 0) return { refused: lateReason(late) };
    }
    if (seen === null) return { refused: "jj records no such workspace any more" };
    const next = decideRecovery(seen.facts);
    if (next.do === "refuse") {
      // jj has it in no visible revision, and would forget it in time.
      if (seen.facts.lost !== null) await keepCommit(scene, seen.facts.lost);
      return { refused: next.why };
    }
    if (next.do === "done") return { choice: choiceOf(scene, seen, next.adopted) };
    const refused = await take(scene, seen, next);
    if (refused !== null) return { refused };
  }
  return { refused: "it came to no end" };
}

function choiceOf(scene: Scene, seen: RecoveryView, adopted: CommitId): RecoveryChoice {
  const chosen = seen.copies.find((c) => c.view.commitId === adopted);
  return {
    by: seen.facts.chosen === null ? "kiki" : "person",
    adopted,
    edits: chosen?.landing?.edits ?? null,
    pinnedHead: scene.plan.recovery?.pinnedHead ?? null,
    bundle: bundleFolder(scene.deps, scene.intent.intentId),
    ...(withoutEdits(scene, seen) ? { noEdits: true } : {}),
  };
}

/** Files that are as jj's record of them hold none; a commit of the agent's own that is kept is told of all the same. */
function withoutEdits({ plan }: Scene, { probe }: RecoveryView): boolean {
  const { mended, pinnedHead } = plan.recovery ?? {};
  return probe.state === "StaleClean" && (mended === true || (pinnedHead ?? null) === null);
}

type Step = Exclude<RecoveryStep, { do: "refuse" } | { do: "done" }>;

/** null, or why it needs a person. */
async function take(scene: Scene, seen: RecoveryView, step: Step): Promise<string | null> {
  if (step.do === "mend") return putBack(scene, seen);
  await act(scene, seen, step);
  return null;
}

function putBack(scene: Scene, seen: RecoveryView): string | null {
  const { deps, plan, child } = scene;
  plan.recovery!.mended = true;
  persistPlan(scene, plan.recovery!.fingerprint);
  const refused = mend(scene, seen.cut!);
  persistPlan(scene, plan.recovery!.fingerprint);
  const paths = seen.cut!.paths.map(({ path }) => path);
  const shown = `${paths.slice(0, 20).join(", ")}${paths.length > 20 ? ", …" : ""}`;
  deps.log.info(`${child.name}: an update was ended in the middle; put back: ${shown}`);
  return refused;
}

async function act(
  scene: Scene,
  seen: RecoveryView,
  step: Exclude<Step, { do: "mend" }>,
): Promise<void> {
  const { jj, deps } = scene;
  switch (step.do) {
    case "bundle": {
      const { number } = await bundleNow(scene, seen.probe);
      Object.assign(scene.plan.recovery!, {
        bundle: number,
        fingerprint: seen.probe.fingerprint,
      });
      return persistPlan(scene, seen.probe.fingerprint);
    }
    case "reset-head":
      return resetHead(scene, seen, step);
    case "update":
      return update(scene, seen);
    case "bookmark": {
      const token = newToken(scene, seen.probe.fingerprint);
      await sameHead(scene, seen);
      return jjEffect(deps, "bookmark", () => jj.setBookmark(step.name, step.to, token));
    }
    case "abandon": {
      // What nobody proved to be nothing but a copy is kept, wherever jj forgets it.
      if (seen.facts.chosen !== null)
        for (const commit of step.commits) await keepCommit(scene, commit);
      const token = newToken(scene, seen.probe.fingerprint);
      await sameHead(scene, seen);
      return jjEffect(deps, "abandon", () => jj.abandon(step.commits, token));
    }
    case "move-followers":
      return moveFollowers(scene, seen, step);
    case "edit":
      return adopt(scene, seen, step.commit);
  }
}

/** Under a git ref of the intent's, wherever jj forgets it. Safe to repeat. */
function keepCommit({ jj, intent }: Scene, commit: CommitId): Promise<void> {
  return jj.pinCommit(`refs/kiki/${intent.intentId}-${commit.slice(0, 12)}`, commit);
}

export async function bundleNow(
  scene: Scene,
  probe: WorkspaceProbe,
): ReturnType<typeof saveBundle> {
  const { deps, jj, child, intent } = scene;
  deps.crash.at("intent.bundle.before");
  const { recovery: _recovery, kept: _kept, ...evidence } = scene.plan;
  const bundle = await saveBundle(deps, {
    folder: bundleFolder(deps, intent.intentId),
    jj,
    child,
    probe,
    evidence,
    ours: await halfWritten(scene, probe),
  });
  deps.crash.at("intent.bundle.effected");
  return bundle;
}

/** What a command of kiki's has left: a copy is made of what is in no commit, and it is no edit. */
async function halfWritten(
  scene: Scene,
  probe: WorkspaceProbe,
): Promise<ReadonlyMap<string, "half" | "whole">> {
  const cut = await lookAtCut(scene, probe);
  if (cut === null || cut.unclear !== null) return new Map();
  return new Map(cut.paths.map((p) => [p.path, p.state === "to" ? "whole" : "half"]));
}

/** The agent's commits are kept first; otherwise jj would take HEAD for a move back to the old parent (measured). */
export async function resetHead(
  scene: Scene,
  seen: RecoveryView,
  step: { from: CommitId; to: CommitId },
): Promise<void> {
  const { jj, deps, child, plan, intent } = scene;
  await jjEffect(deps, "pin-head", () => jj.pinCommit(`refs/kiki/${intent.intentId}`, step.from));
  plan.recovery!.pinnedHead = step.from;
  persistPlan(scene, seen.probe.fingerprint);
  await jjEffect(deps, "reset-head", () => jj.setGitHead(child.workspacePath, step.to));
}

/** Drift between the look and the command is looked at anew; whatever jj may replace has a second name. */
export async function update(scene: Scene, seen: RecoveryView): Promise<void> {
  const { jj, deps, child } = scene;
  const from = seen.base?.commitId ?? seen.facts.at;
  const touched = await jj.touchedPaths(from, seen.facts.at);
  const edited = seen.probe.changed.map((line) => line.slice(2));
  refuseOpen(scene, [...touched, ...edited]);
  const token = withLinks(scene, [...new Set([...touched, ...edited])], seen, seen.facts.at);
  if (await drifted(scene, seen)) return;
  stillGoesOn(scene);
  await jjEffect(deps, "update-stale", () => jj.updateStale(child.workspacePath, token));
  endWriting(scene);
}

async function adopt(scene: Scene, seen: RecoveryView, commit: CommitId): Promise<void> {
  const { jj, deps, child } = scene;
  const touched = await jj.touchedPaths(seen.facts.at, commit);
  refuseOpen(scene, touched);
  const token = withLinks(scene, touched, seen, commit);
  if (await drifted(scene, seen)) return;
  stillGoesOn(scene);
  try {
    await jjEffect(deps, "edit", () => jj.edit(child.workspacePath, commit, token));
    endWriting(scene);
  } catch (error) {
    // The parent moved in this instant, and jj refused: nothing was done, and everything is looked at anew.
    if (!(error instanceof KikiError) || error.code !== "jj-stale") throw error;
  }
}

/** Links, token and plan are durable before the command. */
function withLinks(
  scene: Scene,
  paths: readonly string[],
  seen: RecoveryView,
  to: CommitId,
): string {
  scene.plan.recovery!.links = takeLinks(scene, paths);
  return beginWriting(scene, seen.probe, to);
}

async function drifted(scene: Scene, seen: RecoveryView): Promise<boolean> {
  const again = await probeNow(scene, await pinHead(scene));
  if (again.fingerprint === seen.probe.fingerprint && scene.probedOp === seen.op) return false;
  endWriting(scene); // it has not begun
  return true;
}

async function sameHead(scene: Scene, seen: RecoveryView): Promise<void> {
  if ((await pinHead(scene)) !== seen.op) throw new Moved("another operation landed first");
}

/** Exactly their commits, as a staged operation; jj would otherwise leave them behind on the new base. */
async function moveFollowers(
  scene: Scene,
  seen: RecoveryView,
  step: { commits: readonly CommitId[]; onto: CommitId },
): Promise<void> {
  const { jj, deps } = scene;
  const token = newToken(scene, seen.probe.fingerprint);
  const staged = await jjEffect(deps, "stage", () =>
    jj.stageRebase({ at: seen.op, chain: step.commits, onto: step.onto, token }),
  );
  await sameHead(scene, seen);
  await jjEffect(deps, "integrate", () => jj.integrate(staged.id, token));
}

/** What was written into a file while it was replaced; empty when nothing was, or nothing was replaced. */
function verifyPending(scene: Scene): string[] {
  const { recovery } = scene.plan;
  const links = recovery?.links ?? null;
  if (recovery === undefined || links === null) return [];
  const late = fileEffect(scene.deps, "links", () => verifyLinks(scene, links));
  recovery.links = null;
  persistPlan(scene, recovery.fingerprint);
  return late;
}

/** The intent goes on where it was: `RecoveryRequired → Reconciling`, with what was chosen. */
export function recordChoice(scene: Scene, choice: RecoveryChoice): void {
  const { deps, intent, plan } = scene;
  const earlier = (intent.recoveryChoice as RecoveryChoice[] | null) ?? [];
  const { recovery: _done, ...others } = plan;
  const rest = { ...others, settled: plan.tokens.length };
  changeIntents(deps, (changes) => {
    changes.moved(intent.intentId, "RecoveryRequired", "Reconciling", {
      choice: { what: [...earlier, choice], at: deps.clock.now() },
    });
    changes.planned(intent.intentId, rest, plan.recovery?.fingerprint ?? "");
  });
}
