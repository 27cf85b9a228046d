/**
 * Holding a thread's processes still, and proving it.
 *
 * Stopped from the top down, each level observed before the next: a shell with job control that sees its child stop
 * takes the terminal back and calls the job stopped, which no later SIGCONT undoes (measured, bash 5.2); a shell that is
 * itself stopped sees nothing. Continued from the bottom up for the same reason (freeze-resume.ts).
 *
 * jj, git and holders of their locks are waited for. First with everything still running, because what they wait for
 * may be among the rest; then with the rest stopped, because it might start the next one for ever.
 */
import { errorLine } from "../core/errors.ts";
import { freezeRound, sameStopSet, type FreezeRound, type FreezeRules } from "../core/freeze.ts";
import type { ThreadId } from "../core/ids.ts";
import { keyOf, type ProcessFacts, type ProcessIdentity } from "../core/process-tree.ts";
import type { Clock } from "../ports/clock.ts";
import type { CrashPoints } from "../ports/crash.ts";
import type { Processes, ProcessSample } from "../ports/processes.ts";
import type { Db } from "../store/db.ts";
import {
  heldBy,
  heldByOthers,
  markStopped,
  recordStops,
  settleStop,
  type StopOwner,
} from "../store/stopped-processes.ts";
import { resume, type ResumeOutcome } from "./freeze-resume.ts";

export interface FreezeDeps {
  db: Db;
  processes: Processes;
  clock: Clock;
  /** `freeze.recorded`, `freeze.signalled`, `resume.signalled`. */
  crash: CrashPoints;
  /** The daemon's own pid: it, its ancestors and its children are never stopped. */
  self: number;
}

export interface FreezeRequest extends FreezeRules {
  owner: StopOwner;
  threadId: ThreadId;
  /** Inert wrappers at the roots of the thread's panes. */
  roots: readonly ProcessIdentity[];
  /** As in `TreeQuery`: nothing older than this can be the thread's. */
  since: string | null;
  /** Entries of the environment that only the thread's processes have. */
  marks: readonly string[];
  /** How long jj, git and holders of their locks are waited for. */
  drainMs: number;
  /** How long the rest may take to stand still once nothing is waited for. */
  settleMs: number;
  /** What becomes of those already stopped when the freeze cannot be proved. */
  unproved: "resume" | "keep-stopped";
}

export type FreezeOutcome =
  | { outcome: "frozen"; frozen: ProcessIdentity[]; kept: FreezeRound["kept"] }
  /** Still at it when the time was over. */
  | { outcome: "not-drained"; processes: ProcessFacts[]; resumed: ResumeOutcome | null }
  /** Nothing may be concluded. `processes` are those that could not be told, or did not stop. */
  | {
      outcome: "unknown";
      reason: string;
      processes: ProcessFacts[];
      resumed: ResumeOutcome | null;
    };

const POLL_MS = 10;
/** A stop is usually taken within microseconds. */
const STOP_POLL_MS = 1;
/** An environment cannot be read in the middle of an exec; one that stays closed is closed. */
const UNPROVABLE_MS = 250;

/** Stops everything below the roots but what the rules keep, or says why it could not. */
export async function freeze(deps: FreezeDeps, request: FreezeRequest): Promise<FreezeOutcome> {
  return new Freeze(deps, request).run();
}

class Unproved extends Error {
  readonly processes: ProcessFacts[];
  constructor(reason: string, processes: ProcessFacts[] = []) {
    super(reason);
    this.processes = processes;
  }
}

class Freeze {
  readonly #deps: FreezeDeps;
  readonly #request: FreezeRequest;
  /** Everybody this owner has recorded: members for good. */
  readonly #known: Set<string>;
  /** Those of them that an earlier daemon recorded. */
  readonly #inherited: Set<string>;
  readonly #start: number;

  constructor(deps: FreezeDeps, request: FreezeRequest) {
    this.#deps = deps;
    this.#request = request;
    this.#known = new Set(heldBy(deps.db, request.owner).map(keyOf));
    this.#inherited = new Set(this.#known);
    this.#start = deps.clock.monotonic();
  }

  async run(): Promise<FreezeOutcome> {
    try {
      return await this.#untilStill();
    } catch (error) {
      if (!(error instanceof Unproved)) throw error;
      const resumed = await this.#giveUp();
      return { outcome: "unknown", reason: error.message, processes: error.processes, resumed };
    }
  }

  async #untilStill(): Promise<FreezeOutcome> {
    const { clock } = this.#deps;
    const { drainMs, settleMs } = this.#request;
    let before: FreezeRound | null = null;
    let settlingSince: number | null = null;
    for (;;) {
      const round = await provableRound(this.#deps, this.#request, this.#known);
      const now = clock.monotonic();
      if (round.drain.length > 0) {
        if (now - this.#start >= drainMs) {
          const resumed = await this.#giveUp();
          return { outcome: "not-drained", processes: round.drain, resumed };
        }
        this.#release(round);
        if (now - this.#start >= drainMs / 2) await this.#stop(round);
        before = null;
        settlingSince = null;
        await clock.sleep(POLL_MS);
        continue;
      }
      settlingSince ??= now;
      if (now - settlingSince > settleMs) {
        throw new Unproved(
          "processes keep starting others",
          round.stop.map((s) => s.process),
        );
      }
      this.#release(round);
      const still = await this.#stop(round);
      if (still && before !== null && sameStopSet(before, round)) {
        const frozen = round.stop.map(({ process }) => process);
        return { outcome: "frozen", frozen, kept: round.kept };
      }
      before = still ? round : null;
      // Hooks are answered in between.
      await clock.sleep(STOP_POLL_MS);
    }
  }

  /** Stops level by level. True when nobody had to be signalled: all stood still already. */
  async #stop(round: FreezeRound): Promise<boolean> {
    const { db, processes } = this.#deps;
    const { owner } = this.#request;
    const inSet = new Set(round.stop.map(({ process }) => process.pid));
    const recorded = new Map(heldBy(db, owner).map((row) => [keyOf(row), row]));
    let still = true;
    for (const level of levels(round)) {
      const seen = level.flatMap((process) => {
        const { state, tracer } = processes.observe(process);
        if (state === "gone") return [];
        // A debugger that is itself stopped holds the process; another one may let it go at any moment.
        const wasStopped = state === "stopped" || (tracer !== null && inSet.has(tracer));
        return [{ ...process, wasStopped }];
      });
      const running = seen.filter((process) => !process.wasStopped);
      const unrecorded = seen.filter((process) => {
        const row = recorded.get(keyOf(process));
        return row === undefined || !process.wasStopped;
      });
      if (unrecorded.length > 0) this.#record(unrecorded);
      if (running.length > 0) {
        still = false;
        for (const process of running) this.#signal(process);
      }
      await this.#observed(level, inSet);
      this.#mark(seen.filter((p) => !p.wasStopped || recorded.get(keyOf(p))?.state !== "Stopped"));
    }
    return still;
  }

  #record(
    processes: readonly (ProcessIdentity & {
      pgid: number;
      session: number;
      wasStopped: boolean;
    })[],
  ): void {
    const { db, clock, crash } = this.#deps;
    recordStops(db, this.#request.owner, this.#request.threadId, processes, clock.now());
    for (const process of processes) this.#known.add(keyOf(process));
    crash.at("freeze.recorded");
  }

  /** One that ended before it stood still was lost to nobody: its row is settled at once. */
  #mark(processes: readonly ProcessIdentity[]): void {
    const { db, clock } = this.#deps;
    const { owner } = this.#request;
    const still = processes.filter((p) => this.#deps.processes.observe(p).state !== "gone");
    if (still.length > 0) markStopped(db, owner, still);
    for (const process of processes) {
      if (!still.includes(process)) settleStop(db, owner, process, "Gone", clock.now());
    }
  }

  #signal(process: ProcessFacts): void {
    if (this.#deps.processes.signal(process, "SIGSTOP") === "refused") {
      throw new Unproved("a process may not be stopped by this user", [process]);
    }
    this.#deps.crash.at("freeze.signalled");
  }

  /** Returns when everybody of a level stands still or is gone. */
  async #observed(level: readonly ProcessFacts[], inSet: ReadonlySet<number>): Promise<void> {
    const { clock, processes } = this.#deps;
    const until = clock.monotonic() + this.#request.settleMs;
    for (;;) {
      const moving = level.filter((process) => {
        const { state, tracer } = processes.observe(process);
        return state === "running" || (state === "traced" && !inSet.has(tracer ?? 0));
      });
      if (moving.length === 0) return;
      if (clock.monotonic() >= until) {
        throw new Unproved("a process does not stand still", moving);
      }
      await clock.sleep(STOP_POLL_MS);
    }
  }

  /**
   * Continues those that were stopped as one thing and have turned out to be another: between look and signal a shell
   * became jj or a hook, or took a lock. Then nothing is owed to them any more: what a person stops while it is waited
   * for is the person's. A daemon that died in between may have left one stopped and still `Recorded`.
   */
  #release(round: FreezeRound): void {
    const { db, processes, clock } = this.#deps;
    const { owner } = this.#request;
    const held = new Map(heldBy(db, owner).map((row) => [keyOf(row), row]));
    for (const process of [...round.drain, ...round.kept.map((kept) => kept.process)]) {
      const row = held.get(keyOf(process));
      const inherited = this.#inherited.delete(keyOf(process));
      if (row === undefined || row.wasStopped || !(row.state === "Stopped" || inherited)) continue;
      if (heldByOthers(db, owner, process)) continue;
      this.#record([{ ...process, wasStopped: false }]);
      if (processes.signal(process, "SIGCONT") === "sent")
        settleStop(db, owner, process, "Resumed", clock.now());
    }
  }

  async #giveUp(): Promise<ResumeOutcome | null> {
    if (this.#request.unproved === "keep-stopped") return null;
    return resume(this.#deps, this.#request.owner);
  }
}

/** A round in which every same-user process could be told; waits out an exec. Throws when nothing may be concluded. */
export async function provableRound(
  deps: Pick<FreezeDeps, "processes" | "self" | "clock">,
  request: FreezeRequest,
  known: ReadonlySet<string>,
): Promise<FreezeRound> {
  const { clock } = deps;
  const until = clock.monotonic() + UNPROVABLE_MS;
  for (;;) {
    const round = lookRound(deps, request, known);
    if (round.missingRoots.length > 0) {
      throw new Unproved("the process at the root of a pane is gone");
    }
    if (round.unprovable.length === 0) return round;
    if (clock.monotonic() >= until) {
      throw new Unproved("a process does not show its environment", round.unprovable);
    }
    await clock.sleep(POLL_MS);
  }
}

/** One look at the process table through the eyes of a request. */
function lookRound(
  deps: Pick<FreezeDeps, "processes" | "self">,
  request: FreezeRequest,
  known: ReadonlySet<string>,
): FreezeRound {
  const { processes } = deps;
  const sample = sampleOf(processes, request.marks);
  const self = processes.identify(deps.self);
  if (!sample.complete) throw new Unproved("this system does not show all processes");
  // Where this very process is not to be seen, "not seen" proves nothing.
  if (self === null) throw new Unproved("the process table does not show the daemon itself");
  const { since, roots } = request;
  const keep = [{ process: self, reach: "family" as const, why: "the daemon" }, ...request.keep];
  const closed: ProcessFacts[] = [];
  const rules = { keep, launchers: request.launchers };
  const round = freezeRound(sample.processes, { roots, since, known }, rules, (process) => {
    const locks = processes.openLocks(process);
    if (locks === null && processes.observe(process).state !== "gone") closed.push(process);
    return { argv: processes.argvOf(process), holdsLock: (locks ?? []).length > 0 };
  });
  // A member that may hold a lock must be neither stopped nor left running.
  const kept = new Set(round.kept.map(({ process }) => process.pid));
  round.unprovable.push(...closed.filter((process) => !kept.has(process.pid)));
  return round;
}

function sampleOf(processes: Processes, marks: readonly string[]): ProcessSample {
  try {
    return processes.sample(marks);
  } catch (error) {
    throw new Unproved(`the process table cannot be read: ${errorLine(error)}`);
  }
}

function levels(round: FreezeRound): ProcessFacts[][] {
  const byDepth = Map.groupBy(round.stop, ({ depth }) => depth);
  return [...byDepth.keys()]
    .toSorted((a, b) => a - b)
    .map((depth) => (byDepth.get(depth) ?? []).map(({ process }) => process));
}
