/** Answers to hooks, in the harness's own words. */
import type { HookDecision } from "../core/hook-decision.ts";
import { cascadeThread } from "../store/edges.ts";
import { unresolvedIntents } from "../store/intents.ts";
import type { HeldCall } from "./boundary.ts";
import type { CascadeDeps, HookCaller } from "./deps.ts";

export function payloadDecision(
  deps: CascadeDeps,
  caller: HookCaller,
  call: HeldCall,
  intentId: string,
): HookDecision {
  const intent = unresolvedIntents(deps.db, caller.threadId).find((i) => i.intentId === intentId);
  if (intent?.payload == null) throw new Error(`intent ${intentId} has no payload to deliver`);
  const output = adapterOf(deps, caller).denyOutput(intent.payload);
  if (call.agentId !== "" || intent.barrier === null) return { decision: "deny", output };
  return {
    decision: "deny",
    output,
    delivered: { intentId, turn: intent.barrier.turn, batch: intent.barrier.batch },
  };
}

export function genericDecision(
  deps: CascadeDeps,
  caller: HookCaller,
  reason: string,
): HookDecision {
  return { decision: "deny", output: adapterOf(deps, caller).denyOutput(reason) };
}

function adapterOf(deps: CascadeDeps, caller: HookCaller): ReturnType<CascadeDeps["harness"]> {
  return deps.harness(cascadeThread(deps.db, caller.threadId)!.harness);
}
