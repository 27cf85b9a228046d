/** How a reconciliation ends without a result. Nothing in the workspace is touched after one of these is thrown. */
import { recoveryBundle } from "../core/paths.ts";
import type { WorkspaceProbe } from "../ports/jj.ts";
import { saveBundle } from "./bundle.ts";
import { fileEffect } from "./moves.ts";
import type { Scene } from "./scene.ts";

export type ReconcileOutcome =
  | { outcome: "materialized" }
  | { outcome: "recovery-required"; reason: string }
  | { outcome: "topology-diverged"; reason: string }
  /** Nothing is known to be wrong: try at the next boundary. */
  | { outcome: "not-now"; reason: string };

interface RecoveryRecord {
  folder: string;
  /** Paths copied into the bundle. */
  bundled: number;
  fingerprint: string;
  evidence: unknown;
}

/** Leaves the reconciliation. */
export class Stop extends Error {
  readonly outcome: ReconcileOutcome;
  readonly recovery: RecoveryRecord | null;
  constructor(outcome: ReconcileOutcome, recovery: RecoveryRecord | null = null) {
    super(outcome.outcome);
    this.outcome = outcome;
    this.recovery = recovery;
  }
}

/** The repository moved between two looks: what was decided no longer describes it. Decide anew from the start. */
export class Moved extends Stop {
  constructor(reason: string) {
    super({ outcome: "not-now", reason });
  }
}

/** Bundle first, durable, then the state; nothing in the workspace is touched. */
export async function needsRecovery(
  scene: Scene,
  probe: WorkspaceProbe,
  reason: string,
): Promise<never> {
  const { deps, intent, child } = scene;
  const folder = recoveryBundle(deps.stateDir, deps.repoId, intent.intentId);
  const inventory = fileEffect(deps, "bundle", () =>
    saveBundle(deps, { folder, child, probe, plan: scene.plan }),
  );
  const [op] = await scene.jj.heads();
  const change = (await scene.views.at(op!)).get(child.workspaceName)?.changeId;
  // Every visible copy of the child's change: an edit that left the files is in one of them.
  const copies = change === undefined ? [] : await scene.jj.commits(op!, `change_id(${change})`);
  throw new Stop(
    { outcome: "recovery-required", reason },
    {
      folder,
      bundled: inventory.length,
      fingerprint: probe.fingerprint,
      evidence: {
        probe: probe.state,
        changed: probe.changed.slice(0, 200),
        bundled: inventory.length,
        successors: copies.map((c) => c.commitId),
      },
    },
  );
}
