/**
 * The agent pane's side of a launch: the one-use gate, the reports of its wrapper, and the ready handshake. Every
 * move is one transaction decided from the database, so it does not matter which daemon process is asked.
 */
import { fail } from "../core/errors.ts";
import type { IncarnationId, ThreadId } from "../core/ids.ts";
import { acknowledgeAttention, raiseAttention } from "../store/attention.ts";
import { write, type Db } from "../store/db.ts";
import { appendEvent } from "../store/events.ts";
import {
  completeStep,
  endOperation,
  latestOperation,
  startStep,
  stepsOf,
} from "../store/lifecycle-ops.ts";
import {
  gateOf,
  moveGate,
  noteSessionStarted,
  openGate,
  retireSession,
  revokeGate,
  sessionById,
  setProcess,
  setReady,
  type SessionRow,
} from "../store/sessions.ts";
import { setLifecycle, threadById } from "../store/threads.ts";
import type { CreationDeps } from "./creation-deps.ts";
import { provedLaunch, type Launch, type LaunchFile } from "./launch.ts";
import type { Signals } from "./signals.ts";

/** Exit status of a wrapper that could not start the harness at all, as a shell would give it. */
const EXIT_NOT_STARTED = 127;

export class Gate {
  readonly #deps: CreationDeps;
  readonly #signals: Signals;
  readonly #troubles = new Map<ThreadId, Error>();
  /** Incarnations whose end is kiki's own doing. */
  readonly #expected = new Set<IncarnationId>();

  constructor(deps: CreationDeps, signals: Signals) {
    this.#deps = deps;
    this.#signals = signals;
  }

  /** What must end the thread's creation although no step of it failed; null normally. */
  trouble(threadId: ThreadId): Error | null {
    return this.#troubles.get(threadId) ?? null;
  }

  /** Another launch of the thread begins: what was wrong with the one before says nothing about it. */
  forgetTrouble(threadId: ThreadId): void {
    this.#troubles.delete(threadId);
  }

  /** The end of this incarnation is not to be reported as a crash. */
  expectEnd(incarnation: IncarnationId): void {
    this.#expected.add(incarnation);
  }

  /**
   * Waits at most `waitMs` for a gate of exactly this pane, claims it and hands out the launch; null when none
   * opened. A `Claimed` gate is handed out again to the same pane while no process was reported: the wrapper has one
   * thread and asks only when it has no child, so the first answer was lost. Throws `unknown-thread`,
   * `settings-changed`.
   */
  async awaitGate(
    threadId: ThreadId,
    paneId: string,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<Launch | null> {
    const { clock, db } = this.#deps;
    if (threadById(db, threadId) === null) {
      throw fail("notFound", "unknown-thread", `no thread ${threadId}`);
    }
    const deadline = clock.monotonic() + waitMs;
    for (;;) {
      const launch = await this.#tryGate(threadId, paneId);
      const left = deadline - clock.monotonic();
      if (launch !== null || left <= 0 || signal?.aborted) return launch;
      await this.#signals.wait(threadId, left, signal);
    }
  }

  async #tryGate(threadId: ThreadId, paneId: string): Promise<Launch | null> {
    const { db, files } = this.#deps;
    const gate = openGate(db, threadId);
    const session = gate === null ? null : sessionById(db, gate.incarnation);
    if (gate === null || session === null || gate.paneId !== paneId) return null;
    let launch: Launch;
    try {
      launch = await provedLaunch(files, gate.launchFile, session);
    } catch (error) {
      this.#report(threadId, error as Error);
      throw error;
    }
    const passed = write(db, () => {
      // Read again: the gate may have been revoked, or its process reported, while the file was read.
      const now = gateOf(db, gate.incarnation);
      if (now?.state === "Activated") return moveGate(db, now.gateId, "Activated", "Claimed");
      return now?.state === "Claimed" && sessionById(db, gate.incarnation)?.pid === null;
    });
    if (!passed) return null;
    const { incarnation, argv, env, cwd } = launch;
    return { incarnation, argv, env, cwd };
  }

  /** Makes "exec'd" durable. Idempotent for the same process. Throws `incarnation-retired`, `gate-not-claimed`. */
  harnessStarted(incarnation: IncarnationId, pid: number, startTime: string): void {
    const { db } = this.#deps;
    const done = write(db, () => {
      const session = this.#session(incarnation);
      if (session.pid === pid && session.startTime === startTime) return { session, ready: null };
      if (session.retiredAt !== null) {
        throw fail("failed", "incarnation-retired", `incarnation ${incarnation} has ended already`);
      }
      const gate = gateOf(db, incarnation);
      if (gate === null || !moveGate(db, gate.gateId, "Claimed", "Exec")) {
        throw fail(
          "failed",
          "gate-not-claimed",
          `the gate of incarnation ${incarnation} is ${gate?.state ?? "missing"}, not Claimed`,
        );
      }
      setProcess(db, incarnation, { pid, startTime });
      // The harness may have reported its session before the wrapper reported the process.
      const ready = session.sessionStartedAt !== null ? this.#becomeReady(db, incarnation) : null;
      return { session, ready };
    });
    done.ready?.committed();
    this.#settled(done.session.threadId, done.ready?.active === true);
  }

  /** Retires the incarnation: `Quiescent` after exit 0, else `Crashed` with an attention event. Idempotent. */
  harnessExited(incarnation: IncarnationId, exitCode: number | null, signal: number | null): void {
    const status = exitCode === 0 ? "Quiescent" : "Crashed";
    this.retire(incarnation, { status, event: describeExit(exitCode, signal) });
  }

  /** The same, with the reason in words. */
  retire(
    incarnation: IncarnationId,
    { status, event }: { status: "Quiescent" | "Crashed"; event: string },
  ): void {
    const { clock, db } = this.#deps;
    const expected = this.#expected.delete(incarnation);
    const { session, committed } = write(db, () => {
      const found = this.#session(incarnation);
      const now = clock.now();
      if (!retireSession(db, incarnation, { status, event, now })) {
        return { session: found, committed: null };
      }
      revokeGate(db, incarnation);
      const thread = threadById(db, found.threadId);
      // While it is being made, the creation itself says what went wrong.
      if (status === "Crashed" && !expected && thread?.lifecycle !== "Creating") {
        const message = `the agent of "${thread?.name ?? found.threadId}" ended: ${event}`;
        const { threadId } = found;
        raiseAttention(db, {
          threadId,
          kind: "agent-crashed",
          dedupKey: incarnation,
          message,
          loud: true,
          now,
        });
      }
      const data = { incarnation, status };
      appendEvent(db, { threadId: found.threadId, kind: "agent-ended", data, now });
      return { session: found, committed: this.#alongside("ended", found.threadId, incarnation) };
    });
    committed?.();
    this.#settled(session.threadId, false);
    if (committed !== null) this.#deps.onRetired?.(session.threadId, incarnation);
  }

  /**
   * The ready handshake: the harness reported a session with this incarnation's secret (the caller has checked it).
   * The first one makes the incarnation ready, and with it a `Creating` thread `Active`; later ones (`/clear`, a
   * resume) only record the conversation id. Throws `unknown-incarnation`.
   */
  async sessionStarted(incarnation: IncarnationId, sessionId: string): Promise<void> {
    const { clock, db, files } = this.#deps;
    const before = this.#session(incarnation);
    if (before.retiredAt !== null) return;
    if (before.readyAt === null) {
      try {
        await provedLaunch(files, gateOf(db, incarnation)?.launchFile ?? "", before);
      } catch (error) {
        this.#report(before.threadId, error as Error);
        return;
      }
    }
    const ready = write(db, () => {
      const session = this.#session(incarnation);
      if (session.retiredAt !== null) return null;
      noteSessionStarted(db, incarnation, { harnessSessionId: sessionId, now: clock.now() });
      const first = session.readyAt === null && session.pid !== null;
      return first ? this.#becomeReady(db, incarnation) : null;
    });
    ready?.committed();
    this.#settled(before.threadId, ready?.active === true);
  }

  /**
   * The other way to be ready, for a harness that reports its session with the first prompt only and was started
   * without one. The caller has seen its composer. It counts for the very process that the gate let through, running
   * what was proved, with this incarnation's secret in its environment; anything else changes nothing.
   */
  async composerSeen(incarnation: IncarnationId): Promise<void> {
    const { db, files } = this.#deps;
    const before = this.#session(incarnation);
    if (before.retiredAt !== null || before.readyAt !== null) return;
    let launch: LaunchFile;
    try {
      launch = await provedLaunch(files, gateOf(db, incarnation)?.launchFile ?? "", before);
    } catch (error) {
      this.#report(before.threadId, error as Error);
      return;
    }
    if (launch.readyBy !== "composer" || !this.#runs(before, launch)) return;
    const ready = write(db, () => {
      const session = this.#session(incarnation);
      const waiting = session.retiredAt === null && session.readyAt === null;
      return waiting ? this.#becomeReady(db, incarnation) : null;
    });
    ready?.committed();
    this.#settled(before.threadId, ready?.active === true);
  }

  /** Whether the reported process is there and is the launch: its command line, and in its environment every mark. */
  #runs({ pid, startTime }: SessionRow, { argv, env, marks = [] }: LaunchFile): boolean {
    const { processes } = this.#deps;
    const process = pid === null ? null : processes.identify(pid);
    if (process === null || process.startTime !== startTime || marks.length === 0) return false;
    // In front of a script stands its interpreter.
    const running = processes.argvOf(process)?.slice(-argv.length);
    if (running === undefined || running.join("\0") !== argv.join("\0")) return false;
    return marks.every((name) =>
      processes
        .sample([`${name}=${env[name] ?? ""}`])
        .processes.some((p) => p.pid === pid && p.startTime === startTime && p.marked === "yes"),
    );
  }

  isReady(incarnation: IncarnationId): boolean {
    const session = sessionById(this.#deps.db, incarnation);
    return session !== null && session.readyAt !== null && session.retiredAt === null;
  }

  /** True as soon as the ready transaction has committed; false after `ms`, or once the incarnation has ended. */
  async waitReady(incarnation: IncarnationId, ms: number): Promise<boolean> {
    const { clock, db } = this.#deps;
    const deadline = clock.monotonic() + ms;
    for (;;) {
      const session = sessionById(db, incarnation);
      if (session === null || session.retiredAt !== null) return false;
      if (session.readyAt !== null) return true;
      const left = deadline - clock.monotonic();
      if (left <= 0) return false;
      await this.#signals.wait(session.threadId, left);
    }
  }

  /** Inside a transaction; `committed` is to be called after it. `active`: the thread became `Active` by it. */
  #becomeReady(
    db: Db,
    incarnation: IncarnationId,
  ): { active: boolean; committed: () => void } | null {
    const now = this.#deps.clock.now();
    const session = this.#session(incarnation);
    const { threadId } = session;
    // A hook may outlive the harness it speaks for: what is gone is not ready, and whoever waits for it sees that.
    if (this.#isGone(session)) return null;
    const creating = threadById(db, threadId)?.lifecycle === "Creating";
    const op = creating ? latestOperation(db, threadId) : null;
    // A creation that is being undone is not rescued by a late handshake.
    if (creating && (op === null || op.state !== "Running" || op.failing)) return null;
    setReady(db, incarnation, now);
    const committed = this.#alongside("ready", threadId, incarnation);
    // The one before it may have crashed: there is an agent again.
    acknowledgeAttention(db, threadId, "agent-crashed", now);
    acknowledgeAttention(db, threadId, "startup-dialog", now);
    appendEvent(db, { threadId, kind: "agent-ready", data: { incarnation }, now });
    if (op === null) return { active: false, committed };
    const { operationId } = op;
    const ready = stepsOf(db, operationId).at(-1)!;
    const at = { operationId, ordinal: ready.ordinal };
    if (ready.state === "Pending") startStep(db, at, { incarnation });
    completeStep(db, at, { incarnation });
    endOperation(db, operationId, { state: "Completed", now });
    setLifecycle(db, threadId, "Creating", "Active");
    appendEvent(db, { threadId, kind: "lifecycle", data: { to: "Active" }, now });
    return { active: true, committed };
  }

  /** Provably: where this very process is not to be seen, "not seen" proves nothing. */
  #isGone({ pid, startTime }: SessionRow): boolean {
    const { processes } = this.#deps;
    if (pid === null || processes.identify(process.pid) === null) return false;
    return processes.identify(pid)?.startTime !== startTime;
  }

  #alongside(what: "ready" | "ended", threadId: ThreadId, incarnation: IncarnationId): () => void {
    return this.#deps.deliveries?.[what](threadId, incarnation) ?? (() => undefined);
  }

  #session(incarnation: IncarnationId): SessionRow {
    const session = sessionById(this.#deps.db, incarnation);
    if (session !== null) return session;
    throw fail("notFound", "unknown-incarnation", `no incarnation ${incarnation}`);
  }

  #report(threadId: ThreadId, error: Error): void {
    this.#troubles.set(threadId, error);
    this.#signals.notify(threadId);
  }

  #settled(threadId: ThreadId, active: boolean): void {
    this.#signals.notify(threadId);
    if (active) this.#deps.onActive(threadId);
  }
}

function describeExit(exitCode: number | null, signal: number | null): string {
  if (exitCode === EXIT_NOT_STARTED) return "exit code 127: it could not be started";
  if (exitCode !== null) return `exit code ${exitCode}`;
  return signal === null ? "exit status unknown" : `signal ${signal}`;
}
