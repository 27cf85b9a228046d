/**
 * Diagnosing threads and carrying out what a person chooses. Every kind of trouble has a `Repairer` that looks at the
 * world and derives named plans from what it saw; ids, staleness and what is shown are the same for all of them.
 */
import type { Claim } from "../core/approval.ts";
import { fail } from "../core/errors.ts";
import type { LifecycleOpId, ThreadId } from "../core/ids.ts";
import { repairId, type Examination, type RepairProposal } from "../core/repair.ts";
import { FULL_COLUMNS, PlanLayout } from "../core/render/plan.ts";
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
  /** Follows the list of changes, laid out for a width; "" for nothing. */
  textFor(columns: number): string;
  digest: string;
  /** Makes it durable, with the approval spent on it in the same transaction, and begins. */
  begin(repairId: string, claim: Claim): Promise<LifecycleOpId>;
}

export interface NamedProposal extends RepairProposal {
  id: string;
}

export interface Diagnosis extends Omit<Examination, "proposals"> {
  threadId: ThreadId;
  plans: NamedProposal[];
}

export interface RepairPlan {
  textFor(columns: number): string;
  digest: string;
  begin(claim: Claim): Promise<LifecycleOpId>;
}

export interface Repairs {
  /** Throws `unknown-thread`. */
  diagnose(threadId: ThreadId): Promise<Diagnosis>;
  /** Whether a fresh diagnosis still has this id. */
  holds(threadId: ThreadId, id: string): Promise<boolean>;
  /** The whole plan behind an id. Throws `repair-stale`, and whatever the plan's own preflight throws. */
  plan(threadId: ThreadId, id: string, caller: RepairCaller): Promise<RepairPlan>;
}

interface Offer {
  plan: NamedProposal;
  repairer: Repairer;
}

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
  /**
   * An edge and a delivery of one thread may both wait for a person. Neither choice depends on the other, so that each
   * id is made from what its own repairer saw.
   */
  const look = async (thread: ThreadRow): Promise<{ seen: Examination; plans: Offer[] }[]> => {
    const charged = deps.repairers.filter((repairer) => repairer.concerns(thread));
    return Promise.all(
      charged.map(async (repairer) => {
        const seen = await repairer.examine(thread);
        const plans = seen.proposals.map((proposal) => ({
          repairer,
          plan: {
            ...proposal,
            id: repairId(thread.threadId, seen, proposal, deps.sha256Hex),
          },
        }));
        return { seen, plans };
      }),
    );
  };

  const diagnose = async (threadId: ThreadId): Promise<Diagnosis> => {
    const looks = await look(threadOf(threadId));
    return {
      threadId,
      authority: looks.flatMap(({ seen }) => seen.authority),
      observed: looks.flatMap(({ seen }) => seen.observed),
      notes: looks.flatMap(({ seen }) => seen.notes),
      needsRepair: looks.some(({ seen }) => seen.needsRepair),
      plans: looks.flatMap(({ plans }) => plans.map(({ plan }) => plan)),
    };
  };

  return {
    diagnose,
    async holds(threadId, id) {
      return (await diagnose(threadId)).plans.some((plan) => plan.id === id);
    },
    async plan(threadId, id, caller) {
      const thread = threadOf(threadId);
      const offers = (await look(thread)).flatMap(({ plans }) => plans);
      const offer = offers.find(({ plan }) => plan.id === id);
      if (offer === undefined) throw stale(thread, id);
      const { plan: chosen, repairer } = offer;
      const prepared = await repairer.prepare(thread, chosen.kind, caller);
      const textFor = (columns: number): string => planText(thread, chosen, prepared, columns);
      const text = textFor(FULL_COLUMNS);
      const digest = deps.sha256Hex(JSON.stringify(["ApplyRepair", id, prepared.digest, text]));
      return { textFor, digest, begin: (claim) => prepared.begin(id, claim) };
    },
  };
}

function stale(thread: ThreadRow, id: string): Error {
  return fail(
    "needsRepair",
    "repair-stale",
    `"${thread.name}" has no repair ${id} now: what it was made for has changed`,
    "kk repair shows what there is to repair now",
  );
}

function planText(
  thread: ThreadRow,
  plan: NamedProposal,
  prepared: Prepared,
  columns: number,
): string {
  const layout = new PlanLayout(columns);
  layout.text(`Repair "${thread.name}": ${plan.title}`);
  layout.section("What changes");
  for (const change of plan.changes) layout.item(change);
  layout.gap();
  layout.text(`repair ${plan.id} (${plan.kind})`);
  const more = prepared.textFor(columns);
  return `${layout.toString()}${more === "" ? "" : `\n${more}`}`;
}
