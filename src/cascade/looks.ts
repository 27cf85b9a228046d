/** What every part of a reconciliation does: pin an operation, probe the files, make its plan and tokens durable. */
import type { OpId } from "../core/ids.ts";
import { isForAPerson } from "../core/intent.ts";
import type { WorkspaceProbe } from "../ports/jj.ts";
import { intentById } from "../store/intents.ts";
import { attribute, attributionOf } from "../store/ops.ts";
import { changeIntents } from "./moves.ts";
import { meetHeadsOf } from "./one-head.ts";
import type { Scene } from "./scene.ts";
import { Stop } from "./stop.ts";

/** How long a workspace may be busy with somebody's own jj command before the boundary is given up. */
const PASSING_TROUBLE_MS = 3_000;
const PASSING_TROUBLE_POLL_MS = 50;

/** One pinned operation; several heads are merged first where they stay. */
export async function pinHead(scene: Scene): Promise<OpId> {
  const heads = await meetHeadsOf(scene.deps, scene.jj);
  if (heads.length !== 1)
    throw new Stop({ outcome: "not-now", reason: "jj has several operation heads" });
  return heads[0]!;
}

export function persistPlan(scene: Scene, fingerprint: string): void {
  const { deps, intent, plan } = scene;
  stillGoesOn(scene);
  changeIntents(deps, (changes) => changes.planned(intent.intentId, plan, fingerprint));
  scene.before = fingerprint;
}

/**
 * A token is durable, and part of the plan, before the command that carries it runs. What kiki does to other edges counts
 * from the view before the first command that is not recorded yet: a recovery may come before any plan (its harness ran a
 * refused tool first), or after what was planned was recorded.
 */
export function newToken(scene: Scene, fingerprint: string, token = scene.deps.ids.uuid()): string {
  const { deps, intent, plan } = scene;
  stillGoesOn(scene);
  const owed = plan.tokens.some((known) => attributionOf(deps.db, known)?.live === true);
  if (!owed) plan.startOp = scene.probedOp;
  plan.tokens.push(token);
  changeIntents(deps, (changes) => {
    attribute(deps.db, {
      token,
      handler: "reconcile",
      ownerId: intent.intentId,
      now: deps.clock.now(),
    });
    changes.planned(intent.intentId, plan, fingerprint);
  });
  scene.before = fingerprint;
  return token;
}

/**
 * Right before anything becomes durable or files change. An event may have stopped the intent for a person meanwhile
 * (tool-ran.ts), and what was read before does not know of it.
 */
export function stillGoesOn({ deps, intent, plan }: Scene): void {
  const now = intentById(deps.db, intent.intentId);
  const before = intent.state === "Reconciling" || plan.recovery?.open === true;
  if (before && now !== null && isForAPerson(now))
    throw new Stop({ outcome: "recovery-required", reason: now.reason ?? "for a person" });
}

/**
 * The probe; what passes by itself (a jj command of the person's is running in the workspace, two operation heads are
 * being merged) is waited for, bounded, and is then no reason for a recovery: nothing was changed, nothing is wrong.
 */
export async function probeNow(scene: Scene, op: OpId): Promise<WorkspaceProbe> {
  const { clock } = scene.deps;
  const deadline = clock.monotonic() + PASSING_TROUBLE_MS;
  for (let at = op; ; at = await pinHead(scene)) {
    const { workspacePath, workspaceName } = scene.child;
    const probe = await scene.jj.probe(workspacePath, workspaceName, at);
    const passing = probe.state === "Unknown" && /^(busy|heads)\b/.test(probe.reason ?? "");
    if (!passing) {
      scene.probedOp = at;
      return probe;
    }
    if (clock.monotonic() > deadline) {
      throw new Stop({ outcome: "not-now", reason: probe.reason ?? "busy" });
    }
    await clock.sleep(PASSING_TROUBLE_POLL_MS);
  }
}
