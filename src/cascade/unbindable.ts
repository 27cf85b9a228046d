/** Boundaries at which work was ready and could not be bound: nothing was mutated, and the batch goes on as it is. */
import type { Boundary } from "./boundary.ts";
import type { CascadeDeps } from "./deps.ts";

/** Unbindable batches in a row before a person hears of it. */
const UNBINDABLE_BEFORE_ATTENTION = 3;

export function noteUnbindable(
  deps: CascadeDeps,
  boundary: Boundary,
  of: { threadId: string; intentId: string; why: string },
): void {
  boundary.unbindable += 1;
  deps.log.info(`thread ${of.threadId}: nothing bound, ${of.why}`);
  if (boundary.unbindable < UNBINDABLE_BEFORE_ATTENTION) return;
  deps.raiseAttention({
    threadId: of.threadId,
    kind: "cascade_conflict",
    dedupKey: `${of.intentId}:unbindable`,
    message: `changes of the parent could not be delivered at ${boundary.unbindable} boundaries in a row: ${of.why}`,
    loud: true,
  });
}
