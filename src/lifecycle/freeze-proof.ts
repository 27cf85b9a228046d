/** Proofs about a frozen thread: that it is still frozen, and that nobody else has the workspace in use. */
import { errorLine } from "../core/errors.ts";
import {
  keyOf,
  ProcessTable,
  type ProcessFacts,
  type ProcessIdentity,
} from "../core/process-tree.ts";
import type { Holder, HolderReport } from "../ports/processes.ts";
import { heldBy } from "../store/stopped-processes.ts";
import { provableRound, type FreezeDeps, type FreezeRequest } from "./freeze.ts";

export type HeldOutcome =
  | { outcome: "held" }
  /** Recorded ones that run or have ended, and members that nobody stopped. */
  | { outcome: "broken"; running: ProcessIdentity[]; gone: ProcessIdentity[]; new: ProcessFacts[] }
  | { outcome: "unknown"; reason: string };

/** Looks, no signal: is everything that `freeze` stopped for this request still there and still? */
export async function verifyFrozen(
  deps: Pick<FreezeDeps, "db" | "processes" | "self" | "clock">,
  request: FreezeRequest,
): Promise<HeldOutcome> {
  const rows = heldBy(deps.db, request.owner);
  const known = new Set(rows.map(keyOf));
  let round: Awaited<ReturnType<typeof provableRound>>;
  try {
    round = await provableRound(deps, request, known);
  } catch (error) {
    return { outcome: "unknown", reason: errorLine(error) };
  }
  const pids = new Set(round.stop.map(({ process }) => process.pid));
  const running: ProcessIdentity[] = [];
  const gone: ProcessIdentity[] = [];
  for (const row of rows.filter((r) => r.state === "Stopped")) {
    const { state, tracer } = deps.processes.observe(row);
    const still = state === "stopped" || (state === "traced" && pids.has(tracer ?? 0));
    if (state === "gone") gone.push({ pid: row.pid, startTime: row.startTime });
    else if (!still) running.push({ pid: row.pid, startTime: row.startTime });
  }
  const stopped = new Set(rows.filter((row) => row.state === "Stopped").map(keyOf));
  const fresh = [...round.stop.map(({ process }) => process), ...round.drain].filter(
    (process) => !stopped.has(keyOf(process)),
  );
  if (running.length + gone.length + fresh.length === 0) return { outcome: "held" };
  return { outcome: "broken", running, gone, new: fresh };
}

export type QuiescenceOutcome =
  | { outcome: "quiescent" }
  | { outcome: "held-by"; holders: Holder[] }
  | { outcome: "unknown"; reason: string; unreadable: HolderReport["unreadable"] };

/**
 * Whether nobody but `within` (the frozen processes, and those the caller answers for: the asking command, a harness
 * that waits) has the folder in use. The daemon and its children are always within. Its ancestors may not be holders
 * either, but need not let themselves be looked at: process 1 often does not, and none of them is of the thread.
 * A known holder outweighs what could not be looked at.
 */
export async function quiescence(
  deps: Pick<FreezeDeps, "processes" | "self">,
  folder: string,
  within: readonly ProcessIdentity[],
): Promise<QuiescenceOutcome> {
  let report: HolderReport;
  let table: ProcessTable;
  try {
    report = await deps.processes.holders(folder);
    table = new ProcessTable(deps.processes.sample([]).processes);
  } catch (error) {
    return { outcome: "unknown", reason: errorLine(error), unreadable: [] };
  }
  const inside = new Set(within.map(keyOf));
  const own = table.descendants(deps.self);
  const above = new Set(table.ancestors(deps.self));
  const holders = report.holders.filter((h) => !inside.has(keyOf(h)) && !own.has(h.pid));
  if (holders.length > 0) return { outcome: "held-by", holders };
  const unreadable = report.unreadable.filter(
    (p) => !inside.has(keyOf(p)) && !own.has(p.pid) && !above.has(p.pid),
  );
  if (!report.complete) {
    return {
      outcome: "unknown",
      reason: "this system does not show who uses a folder",
      unreadable,
    };
  }
  if (unreadable.length === 0) return { outcome: "quiescent" };
  const names = [...new Set(unreadable.map((process) => process.name))].join(", ");
  return { outcome: "unknown", reason: `processes that cannot be looked at: ${names}`, unreadable };
}
