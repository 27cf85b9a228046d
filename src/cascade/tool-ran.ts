/**
 * The harness ran a tool that it was told to refuse (cascade chapter, "Receipts"): nothing about this workspace can be
 * trusted silently, and its version is told of changes by restart from here on.
 */
import { canMoveIntent, type IntentState } from "../core/intent.ts";
import { recoveryBundle } from "../core/paths.ts";
import { intentById } from "../store/intents.ts";
import { loseCapability } from "../store/sessions.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";
import { changeIntents, type IntentChanges } from "./moves.ts";
import type { ReconcilePlan } from "./scene.ts";

const REASON = "a blocked tool ran anyway";

/** In the transaction that ends the batch. `results`: what the model got for its calls. */
export function recordToolRan(
  deps: CascadeDeps,
  changes: IntentChanges,
  caller: HookCaller,
  of: { intentId: string; results: Iterable<readonly [toolUseId: string, result: string]> },
): void {
  const { intentId } = of;
  const calls = [...of.results].map(([id, result]) => ({ id, response: result.slice(0, 400) }));
  loseCapability(deps.db, caller.incarnation, "parallel_batch_boundary");
  stopForAPerson(deps, changes, intentId, { calls });
  deps.raiseAttention({
    threadId: caller.threadId,
    kind: "cascade_conflict",
    dedupKey: `${intentId}:tool-ran`,
    message: "the harness ran a tool that kiki had blocked; the agent is paused: kk repair",
    loud: true,
  });
}

/** Again, where a reconciliation or a recovery was under way meanwhile and has gone on from what it had read before. */
export function keepStoppedForTool(deps: CascadeDeps, intentId: string): void {
  changeIntents(deps, (changes) => stopForAPerson(deps, changes, intentId, null));
}

/** An open recovery would go on by itself, over what the tool has done. Where nothing is possible it is stopped already. */
function stopForAPerson(
  deps: CascadeDeps,
  changes: IntentChanges,
  intentId: string,
  evidence: object | null,
): void {
  const intent = intentById(deps.db, intentId)!;
  const fingerprint = intent.probeFingerprint ?? "unknown";
  if (intent.recovering) {
    const plan = intent.plan as ReconcilePlan;
    const recovery = { ...plan.recovery!, open: false, refused: REASON };
    changes.planned(intentId, { ...plan, recovery }, fingerprint);
  } else if (canMoveIntent(intent.state, "RecoveryRequired")) {
    changes.moved(intentId, intent.state as MayRun, "RecoveryRequired", {
      reason: REASON,
      ...(evidence === null ? {} : { evidence }),
      bundle: recoveryBundle(deps.stateDir, deps.repoId, intentId),
      fingerprint,
    });
  }
}

type MayRun = Extract<IntentState, "Reconciling" | "Materialized" | "Delivered">;
