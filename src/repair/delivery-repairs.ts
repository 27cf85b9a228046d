/** Deliveries whose attempts are used up. Either choice is one transaction; what follows it is the cascade's. */
import type { Claim } from "../core/approval.ts";
import { fail } from "../core/errors.ts";
import type { IntentId, LifecycleOpId, ThreadId } from "../core/ids.ts";
import { REPAIRS } from "../core/plans/repair.ts";
import { DISCARD_DELIVERY, examineExhausted, RETRY_DELIVERY } from "../core/repair-delivery.ts";
import type { Clock } from "../ports/clock.ts";
import type { Ids } from "../ports/ids.ts";
import { approvalOf } from "../store/approvals.ts";
import { write, type Db } from "../store/db.ts";
import { attemptsOf } from "../store/deliveries.ts";
import { unresolvedIntents, type IntentRow } from "../store/intents.ts";
import {
  completeStep,
  endOperation,
  insertOperation,
  latestOperation,
  startStep,
} from "../store/lifecycle-ops.ts";
import { liveSession } from "../store/sessions.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import type { Repairer } from "./repairs.ts";

export interface DeliveryRepairDeps {
  db: Db;
  clock: Clock;
  ids: Pick<Ids, "uuid">;
  /** `[cascade] attempts`, as it is now. */
  attempts(): number;
  /** The neighbour that delivers. Both run inside the transaction; what they return is called after it. */
  cascade: {
    retryDelivery(intentId: IntentId, epoch: number): () => void;
    discardDelivery(intentId: IntentId, approvalId: string): () => void;
  };
}

export function deliveryRepairer(deps: DeliveryRepairDeps): Repairer {
  return {
    concerns: (thread) =>
      thread.lifecycle === "Active" && exhaustedOf(deps.db, thread.threadId) !== null,
    async examine(thread) {
      const intent = exhaustedOf(deps.db, thread.threadId);
      if (intent === null) throw stale();
      return examineExhausted({
        lifecycle: thread.lifecycle,
        intentId: intent.intentId,
        state: intent.state,
        parentName: threadById(deps.db, intent.parentThreadId)?.name ?? intent.parentThreadId,
        fromBase: intent.fromBase,
        toBase: intent.toBase,
        epoch: intent.epoch,
        attempts: attemptsOf(deps.db, intent.intentId, intent.epoch),
        limit: deps.attempts(),
        payloadBytes: Buffer.byteLength(intent.payload ?? ""),
        agent: liveSession(deps.db, thread.threadId) === null ? "none" : "running",
      });
    },
    async prepare(thread, kind) {
      if (kind !== RETRY_DELIVERY && kind !== DISCARD_DELIVERY)
        throw fail("failed", "repair-unknown", `no repair of kind ${kind}`, "kk repair");
      const intent = exhaustedOf(deps.db, thread.threadId);
      if (intent === null) throw stale();
      return {
        textFor: () => "",
        digest: `${kind} ${intent.intentId} ${intent.epoch}`,
        begin: async (repairId, claim) => carryOut(deps, thread, kind, intent, { repairId, claim }),
      };
    },
  };
}

/** Journal, approval, and what it is about: all or nothing. Throws `repair-stale`. */
function carryOut(
  deps: DeliveryRepairDeps,
  thread: ThreadRow,
  kind: typeof RETRY_DELIVERY | typeof DISCARD_DELIVERY,
  { intentId, epoch }: IntentRow,
  { repairId, claim }: { repairId: string; claim: Claim },
): LifecycleOpId {
  const { db, clock, ids } = deps;
  const operationId = ids.uuid();
  const { threadId } = thread;
  const after = write(db, () => {
    const now = clock.now();
    const exhausted = exhaustedOf(db, threadId);
    const same = exhausted?.intentId === intentId && exhausted.epoch === epoch;
    // A repair of its edge may be under way.
    const running = latestOperation(db, threadId)?.state === "Running";
    if (!same || running || threadById(db, threadId)?.lifecycle !== "Active") throw stale();
    const { steps } = kind === RETRY_DELIVERY ? REPAIRS.retryDelivery : REPAIRS.discardDelivery;
    const args = { repair: kind, repairId, intentId, epoch };
    insertOperation(db, { operationId, threadId, kind: "Repair", args, steps, now });
    claim(operationId);
    const done = decide(deps, kind, { intentId, epoch, operationId });
    for (const at of steps.keys()) {
      const step = { operationId, ordinal: at + 1 };
      startStep(db, step, { repairId, intentId, epoch });
      completeStep(db, step, { repairId, intentId, epoch });
    }
    endOperation(db, operationId, { state: "Completed", now });
    return done;
  });
  after();
  return operationId;
}

function decide(
  { db, cascade }: DeliveryRepairDeps,
  kind: string,
  of: { intentId: IntentId; epoch: number; operationId: LifecycleOpId },
): () => void {
  if (kind === RETRY_DELIVERY) return cascade.retryDelivery(of.intentId, of.epoch);
  // Nobody gives a delivery up without a person's approval of exactly that.
  const approvalId = approvalOf(db, of.operationId);
  if (approvalId === null)
    throw fail("approval", "approval-missing", "giving a delivery up needs an approval");
  return cascade.discardDelivery(of.intentId, approvalId);
}

function exhaustedOf(db: Db, threadId: ThreadId): IntentRow | null {
  return unresolvedIntents(db, threadId).find((i) => i.exhausted) ?? null;
}

function stale(): Error {
  return fail(
    "approval",
    "repair-stale",
    "this is not the state the repair was made for any more",
    "kk repair shows what there is to repair now",
  );
}
