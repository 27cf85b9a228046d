/**
 * Diagnosing threads and carrying out what a person chooses. Every kind of trouble has a `Repairer` that looks at the
 * world and derives named plans from what it saw; ids, staleness and what is shown are the same for all of them.
 */
import { fail } from "../core/errors.ts";
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import { repairId, type Examination, type RepairProposal } from "../core/repair.ts";
import { printable } from "../core/render/width.ts";
import { latestOperation, latestOperationOf } from "../store/lifecycle-ops.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import type { Db } from "../store/db.ts";

/** What only the person's terminal knows, for repairs that start an agent. */
export interface RepairCaller {
  harnessExecutable: string | null;
  env: Record<string, string>;
}

export interface Repairer {
  /** Whether the thread is in this repairer's charge. */
  concerns(thread: ThreadRow): boolean;
  /** Looks; changes nothing. */
  examine(thread: ThreadRow): Promise<Examination>;
  /** More to read about a choice than its changes say, and a digest of all it depends on. Changes nothing. */
  prepare(thread: ThreadRow, kind: string, caller: RepairCaller): Promise<Prepared>;
}

export interface Prepared {
  /** Follows the list of changes; "" for nothing. */
  text: string;
  digest: string;
  /** Makes it durable and begins. */
  begin(repairId: string): Promise<LifecycleOpId>;
}

export interface NamedProposal extends RepairProposal {
  id: string;
}

export interface Diagnosis extends Omit<Examination, "proposals"> {
  threadId: ThreadId;
  plans: NamedProposal[];
}

export interface RepairPlan {
  text: string;
  digest: string;
  begin(): Promise<LifecycleOpId>;
}

export interface Repairs {
  /** Throws `unknown-thread`. */
  diagnose(threadId: ThreadId): Promise<Diagnosis>;
  /** Whether a fresh diagnosis still has this id. */
  holds(threadId: ThreadId, id: string): Promise<boolean>;
  /** The repair of this id that is under way or has just been carried out, for a call whose answer was lost. */
  begun(threadId: ThreadId, id: string): LifecycleOpId | null;
  /** The whole plan behind an id. Throws `repair-stale`, and whatever the plan's own preflight throws. */
  plan(threadId: ThreadId, id: string, caller: RepairCaller): Promise<RepairPlan>;
}

const NOTHING: Examination = {
  authority: [],
  observed: [],
  notes: [],
  proposals: [],
  needsRepair: false,
};

export function makeRepairs(deps: {
  db: Db;
  sha256Hex: (text: string) => string;
  repairers: readonly Repairer[];
}): Repairs {
  const threadOf = (threadId: ThreadId): ThreadRow => {
    const thread = threadById(deps.db, threadId);
    if (thread !== null) return thread;
    throw fail("notFound", "unknown-thread", `no thread ${threadId}`, "kk ls --all");
  };
  const chargeOf = (thread: ThreadRow): Repairer | null =>
    deps.repairers.find((repairer) => repairer.concerns(thread)) ?? null;

  const diagnose = async (threadId: ThreadId): Promise<Diagnosis> => {
    const thread = threadOf(threadId);
    const seen = (await chargeOf(thread)?.examine(thread)) ?? NOTHING;
    const { proposals, ...rest } = seen;
    const plans = proposals.map((proposal) => ({
      ...proposal,
      id: repairId(threadId, seen, proposal, deps.sha256Hex),
    }));
    return { threadId, ...rest, plans };
  };

  return {
    diagnose,
    async holds(threadId, id) {
      return (await diagnose(threadId)).plans.some((plan) => plan.id === id);
    },
    begun: (threadId, id) => begun(deps.db, threadId, id),
    async plan(threadId, id, caller) {
      const thread = threadOf(threadId);
      const chosen = (await diagnose(threadId)).plans.find((plan) => plan.id === id);
      const repairer = chargeOf(thread);
      if (chosen === undefined || repairer === null) throw stale(thread, id);
      const prepared = await repairer.prepare(thread, chosen.kind, caller);
      const text = planText(thread, chosen, prepared.text);
      const digest = deps.sha256Hex(JSON.stringify(["ApplyRepair", id, prepared.digest, text]));
      return { text, digest, begin: () => prepared.begin(id) };
    },
  };
}

/** Anything newer that has ended means that the id was looked at anew, and chosen again. */
function begun(db: Db, threadId: ThreadId, id: string): LifecycleOpId | null {
  const repair = latestOperationOf(db, threadId, "Repair");
  if (repair === null || (repair.args as { repairId?: string }).repairId !== id) return null;
  const newest = latestOperation(db, threadId)!;
  const own = newest.operationId === repair.operationId && newest.state !== "Failed";
  const goesOn = repair.state === "Completed" && newest.state === "Running";
  return own || goesOn ? repair.operationId : null;
}

function stale(thread: ThreadRow, id: string): Error {
  return fail(
    "needsRepair",
    "repair-stale",
    `"${thread.name}" has no repair ${id} now: what it was made for has changed`,
    "kk repair shows what there is to repair now",
  );
}

function planText(thread: ThreadRow, plan: NamedProposal, more: string): string {
  const lines = [
    `Repair "${printable(thread.name)}": ${plan.title}`,
    "",
    ...plan.changes.map((change) => `  - ${printable(change)}`),
    "",
    `repair ${plan.id} (${plan.kind})`,
  ];
  return `${lines.join("\n")}\n${more === "" ? "" : `\n${more}`}`;
}
