/**
 * The end of a freeze: exactly those that kiki stopped go on, everybody else stays as found, and the processes there
 * were before are there again or named as missing.
 */
import { depthOf, keyOf, ProcessTable, type ProcessIdentity } from "../core/process-tree.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Processes } from "../ports/processes.ts";
import type { Db } from "../store/db.ts";
import {
  heldBy,
  heldByOthers,
  settleStop,
  stopOwners,
  type StoppedRow,
  type StopOwner,
} from "../store/stopped-processes.ts";

interface ResumeDeps {
  db: Db;
  processes: Processes;
  clock: Clock;
  crash: CrashPoints;
}

export interface ResumeOutcome {
  /** False when somebody that should run does not, or cannot be signalled: its row is kept and `resume` may be retried. */
  resumed: boolean;
  /** Ended while they were stopped: the process tree is not the one it was. */
  lost: ProcessIdentity[];
  /** In another session or group than when they were stopped. */
  moved: ProcessIdentity[];
  /** Should run, and do not. */
  stuck: ProcessIdentity[];
}

const RESUME_MS = 2_000;
const POLL_MS = 2;

/**
 * Continues what `owner` stopped, children before their parents (see freeze.ts), each by its exact identity. A process
 * that another owner needs stopped stays so, on that owner's account. Repeating it after a crash does no harm.
 */
export async function resume(
  deps: ResumeDeps,
  owner: StopOwner,
  /** Those that stay as they are. */
  but: (one: ProcessIdentity) => boolean = () => false,
): Promise<ResumeOutcome> {
  const { db, processes, clock, crash } = deps;
  const table = tableNow(processes);
  const outcome: ResumeOutcome = { resumed: true, lost: [], moved: [], stuck: [] };
  const continued: StoppedRow[] = [];
  const rows = heldBy(db, owner).filter((row) => !but(row));
  for (const row of childrenFirst(table, rows)) {
    const gone = (): void => {
      settleStop(db, owner, row, "Gone", clock.now());
      // One that had only been recorded may have ended by itself before it was signalled.
      if (row.state === "Stopped") outcome.lost.push(identity(row));
    };
    if (processes.observe(row).state === "gone") {
      gone();
      continue;
    }
    const facts = table.find(row);
    if (facts !== undefined && (facts.pgid !== row.pgid || facts.session !== row.session)) {
      outcome.moved.push(identity(row));
    }
    if (row.wasStopped || heldByOthers(db, owner, row)) {
      settleStop(db, owner, row, "Resumed", clock.now());
      continue;
    }
    const sent = processes.signal(row, "SIGCONT");
    if (sent === "gone") gone();
    else if (sent === "refused") outcome.stuck.push(identity(row));
    else continued.push(row);
    crash.at("resume.signalled");
  }
  for (const row of continued) {
    if (await runs(deps, row)) settleStop(db, owner, row, "Resumed", clock.now());
    else outcome.stuck.push(identity(row));
  }
  return { ...outcome, resumed: outcome.stuck.length === 0 };
}

/**
 * At boot: first continues what no owner needs stopped any more, and leaves the rest as it is. `needs` knows from the
 * owner's own durable state. What is still needed is to be frozen again by its owner, which finds newcomers too.
 */
export async function resumeAtBoot(
  deps: ResumeDeps,
  needs: (owner: StopOwner) => boolean,
): Promise<{ resumed: { owner: StopOwner; outcome: ResumeOutcome }[]; stillNeeded: StopOwner[] }> {
  const owners = stopOwners(deps.db);
  const resumed: { owner: StopOwner; outcome: ResumeOutcome }[] = [];
  for (const owner of owners.filter((o) => !needs(o))) {
    resumed.push({ owner, outcome: await resume(deps, owner) });
  }
  return { resumed, stillNeeded: owners.filter((owner) => needs(owner)) };
}

/** Only the order depends on it: what was recorded must go on also where the table cannot be read. */
function tableNow(processes: Processes): ProcessTable {
  try {
    return new ProcessTable(processes.sample([]).processes);
  } catch {
    return new ProcessTable([]);
  }
}

/** A debugger may deliver a stop it had caught before: then the process is continued once more. */
async function runs(deps: ResumeDeps, row: StoppedRow): Promise<boolean> {
  const { processes, clock } = deps;
  const until = clock.monotonic() + RESUME_MS;
  for (;;) {
    if (processes.observe(row).state !== "stopped") return true;
    if (clock.monotonic() >= until) return false;
    processes.signal(row, "SIGCONT");
    await clock.sleep(POLL_MS);
  }
}

/** Those not in the sample any more come first; the recorded order breaks ties. */
function childrenFirst(table: ProcessTable, rows: readonly StoppedRow[]): StoppedRow[] {
  const order = new Map(rows.map((row, at) => [keyOf(row), at]));
  const at = (row: StoppedRow): number => order.get(keyOf(row)) ?? 0;
  return rows.toSorted((a, b) => depthOf(table, b.pid) - depthOf(table, a.pid) || at(b) - at(a));
}

function identity({ pid, startTime }: ProcessIdentity): ProcessIdentity {
  return { pid, startTime };
}
