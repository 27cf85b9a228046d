/** Boundaries at which work was ready and could not be bound: nothing was mutated, and the batch goes on as it is. */
import type { BoundaryDecision, BoundaryFacts } from "../core/barrier.ts";
import type { Boundary } from "./boundary.ts";
import type { CascadeDeps } from "./deps.ts";

/** Unbindable batches in a row before a person hears of it; of what is bound already, the third time ends the agent. */
const BEFORE_ATTENTION = { unbound: 3, bound: 2 };

export function noteUnbindable(
  deps: CascadeDeps,
  boundary: Boundary,
  of: { threadId: string; intentId: string; why: string },
  at: keyof typeof BEFORE_ATTENTION = "unbound",
): void {
  boundary.unbindable += 1;
  const what = at === "bound" ? "nothing done" : "nothing bound";
  deps.log.info(`thread ${of.threadId}: ${what}, ${of.why}`);
  if (boundary.unbindable < BEFORE_ATTENTION[at]) return;
  deps.raiseAttention({
    threadId: of.threadId,
    kind: "cascade_conflict",
    dedupKey: `${of.intentId}:unbindable`,
    message: `changes of the parent could not be delivered at ${boundary.unbindable} boundaries in a row: ${of.why}`,
    loud: true,
  });
}

/** Why work that is ready is not even tried at this call; null: it is, or there is none, or its batch is decided. */
export function waitsFor(f: BoundaryFacts, decision: BoundaryDecision): string | null {
  if (f.next?.state !== "Detected") return null;
  if (f.place === "unknown" && f.active === null)
    return "the session record does not show the call";
  const first = f.agentId === null && f.admission === null;
  const behind = f.proof?.soft === false && f.proof.inFlight && decision.act === "pass";
  return first && behind ? "a call was in flight" : null;
}
