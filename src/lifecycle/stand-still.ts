/**
 * Holding an agent's processes still (harness chapter, "Stopping"): every descendant of the incarnation but the pane's
 * wrapper and hook chains; while its files change also the harness goes on, which waits for its hooks, and while a
 * person is waited for it does not. What was stopped is durable on the intent's account, and exactly that goes on
 * afterwards.
 */
import type { IncarnationId, IntentId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { keyOf, ProcessTable, type ProcessIdentity } from "../core/process-tree.ts";
import { MAX_HOLDS } from "../ports/processes.ts";
import { intentById } from "../store/intents.ts";
import type { Db } from "../store/db.ts";
import { liveSession, sessionById, sessionsOf, type SessionRow } from "../store/sessions.ts";
import { heldBy, type StopOwner } from "../store/stopped-processes.ts";
import { resume, resumeAtBoot } from "./freeze-resume.ts";
import { freeze, type FreezeDeps, type FreezeOutcome, type FreezeRequest } from "./freeze.ts";

export interface StandStillDeps extends FreezeDeps {
  repoId: string;
  stateDir: string;
}

export interface Held {
  threadId: ThreadId;
  intentId: IntentId;
  incarnation: IncarnationId | null;
  workspacePath: string;
  /**
   * A hard pause: they are stopped already on the intent's account, the harness with them, and stay so where it cannot
   * be proved this time.
   */
  paused: boolean;
}

export interface StandStill {
  /**
   * Nobody but the harness and its hooks moves until `release`. Safe to repeat: newcomers are found as well. `open`:
   * paths in the workspace that a stopped process keeps open, and will go on writing into, whatever lies there then.
   */
  hold(of: Held): Promise<{ still: true; open: string[] } | { still: false; reason: string }>;
  /** The hard pause: the harness stops as well. null, or why not everybody stands still; the others do all the same. */
  pause(of: Held): Promise<string | null>;
  /** Continues exactly what `hold` and `pause` stopped for this intent. */
  release(intentId: IntentId): Promise<void>;
  /** At boot: what no intent needs stopped any more goes on. Returns how many intents' processes that were. */
  resumeAtBoot(): Promise<number>;
}

/** jj and git of the agent are waited for so long; a held call waits longer. */
const DRAIN_MS = 3_000;
const SETTLE_MS = 2_000;
/** Most writes last microseconds: whoever was caught in one is let go on, and caught again. */
const OPEN_ATTEMPTS = 12;
const OPEN_PAUSE_MS = 3;

export function makeStandStill(deps: StandStillDeps): StandStill {
  const ownerOf = (id: IntentId): StopOwner => ({ kind: "intent", id });
  return {
    async hold(of) {
      const session = sessionFor(deps.db, of);
      // Never started: there is nothing to be still.
      if (session === null) return { still: true, open: [] };
      const request = requestFor(deps, of, session);
      for (let attempt = 1; ; attempt += 1) {
        const outcome = await freeze(deps, request);
        if (outcome.outcome !== "frozen") return { still: false, reason: reasonOf(outcome) };
        const open = await openFiles(deps, of.workspacePath, outcome.frozen);
        if (open !== null && open.length === 0) return { still: true, open };
        if (attempt === OPEN_ATTEMPTS) {
          return open === null
            ? { still: false, reason: "it cannot be seen which files are open" }
            : { still: true, open };
        }
        // Caught between opening a file and writing into it: its bytes would go into the file that jj replaces.
        await resume(deps, request.owner, (one) => keyOf(one) === keyOf(session));
        await deps.clock.sleep(OPEN_PAUSE_MS);
      }
    },
    async pause(of) {
      const session = sessionFor(deps.db, of);
      if (session === null) return null;
      const outcome = await freeze(deps, requestFor(deps, { ...of, paused: true }, session));
      return outcome.outcome === "frozen" ? null : reasonOf(outcome);
    },
    async release(intentId) {
      if (heldBy(deps.db, ownerOf(intentId)).length > 0) await resume(deps, ownerOf(intentId));
    },
    async resumeAtBoot() {
      const { resumed } = await resumeAtBoot(deps, (owner) => needs(deps, owner));
      return resumed.length;
    },
  };
}

/** null: no process of the agent was ever started. */
function sessionFor(db: Db, of: Held): (SessionRow & ProcessIdentity) | null {
  const session =
    of.incarnation === null ? newest(db, of.threadId) : sessionById(db, of.incarnation);
  const { pid = null, startTime = null } = session ?? {};
  return session === null || pid === null || startTime === null
    ? null
    : { ...session, pid, startTime };
}

function requestFor(deps: StandStillDeps, of: Held, harness: ProcessIdentity): FreezeRequest {
  const wrapper = wrapperOf(deps, harness);
  // What an earlier incarnation left running goes on when it has been replaced, and writes into the same files.
  const sessions = sessionsOf(deps.db, of.threadId);
  return {
    owner: { kind: "intent", id: of.intentId },
    threadId: of.threadId,
    roots: wrapper === null ? [] : [wrapper],
    since: wrapper?.startTime ?? oldest(sessions),
    marks: sessions.map((s) => `KIKI_INCARNATION=${s.incarnation}`),
    keep: of.paused
      ? []
      : [{ process: harness, reach: "itself", why: "the harness, which waits for its hooks" }],
    launchers: [threadPaths(deps.stateDir, deps.repoId, of.threadId).hook],
    drainMs: DRAIN_MS,
    settleMs: SETTLE_MS,
    unproved: of.paused ? "keep-stopped" : "resume",
  };
}

/** Nothing that began before the first harness can be an agent's. */
function oldest(sessions: readonly SessionRow[]): string | null {
  const times = sessions.flatMap((s) => (s.startTime === null ? [] : [Number(s.startTime)]));
  return times.length === 0 ? null : String(Math.min(...times));
}

/** The live one; where nobody lives any more, the last that did: it may have left something running. */
function newest(db: Db, threadId: ThreadId): SessionRow | null {
  return (
    liveSession(db, threadId) ??
    sessionsOf(db, threadId).findLast((session) => session.pid !== null) ??
    null
  );
}

function reasonOf(outcome: Exclude<FreezeOutcome, { outcome: "frozen" }>): string {
  const names = [...new Set(outcome.processes.map((p) => p.name))].join(", ");
  const why = outcome.outcome === "unknown" ? outcome.reason : "jj or git is still at work";
  return names === "" ? why : `${why} (${names})`;
}

/** Workspace-relative; null when there may be more than can be seen. */
async function openFiles(
  deps: StandStillDeps,
  workspacePath: string,
  frozen: readonly ProcessIdentity[],
): Promise<string[] | null> {
  if (frozen.length === 0) return [];
  const { holders } = await deps.processes.holders(workspacePath);
  const own = new Set(frozen.map(keyOf));
  const paths = new Set<string>();
  for (const holder of holders.filter((h) => own.has(keyOf(h)))) {
    if (holder.holds.length >= MAX_HOLDS) return null;
    for (const { kind, path } of holder.holds)
      if (kind === "descriptor" || kind === "map") paths.add(path);
  }
  return [...paths]
    .map((path) => path.replace(/ \(deleted\)$/, ""))
    .filter((path) => path.startsWith(`${workspacePath}/`))
    .map((path) => path.slice(workspacePath.length + 1));
}

/**
 * The process the harness was started by. Where it has ended its children are nobody's, and found by their mark: a
 * subreaper that the harness was handed to, such as the user's service manager, has everything else of theirs below it.
 * The wrapper leads the session that the harness was born into.
 */
function wrapperOf(deps: StandStillDeps, harness: ProcessIdentity): ProcessIdentity | null {
  const { processes } = deps;
  if (processes.identify(harness.pid)?.startTime !== harness.startTime) return null;
  const parent = processes.parentOf(harness.pid);
  if (parent === null || parent <= 1) return null;
  let table: ProcessTable;
  try {
    table = new ProcessTable(processes.sample([]).processes);
  } catch {
    return null; // the freeze cannot see anybody either, and says so
  }
  const above = table.get(parent);
  const isWrapper = above !== undefined && above.session === table.find(harness)?.session;
  return isWrapper ? { pid: above.pid, startTime: above.startTime } : null;
}

/** An intent whose files may be half changed, or which waits for a person, keeps its agent's processes where they are. */
function needs(deps: StandStillDeps, owner: StopOwner): boolean {
  if (owner.kind !== "intent") return true; // a lifecycle operation's own
  const intent = intentById(deps.db, owner.id);
  return (
    intent !== null &&
    (intent.state === "Reconciling" || intent.state === "RecoveryRequired" || intent.exhausted)
  );
}
