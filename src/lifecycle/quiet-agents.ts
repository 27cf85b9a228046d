/**
 * Agents that count as working and of which nothing was heard for a while: their session record and their pane are
 * looked at, because a turn that a person broke off is reported by no hook. Display only: nothing is resolved,
 * completed or acknowledged by it, and the next hook event says more.
 */
import { witness, type StatusSource } from "../core/agent.ts";
import { threadPaths } from "../core/paths.ts";
import type { TurnWitnesses } from "../ports/harness.ts";
import { write } from "../store/db.ts";
import { endQuietly, quietlyRunning, type QuietAgent } from "../store/quiet.ts";
import { threadById } from "../store/threads.ts";
import { envFile, type CreationDeps } from "./creation-deps.ts";
import { TAG_ROLE, TAG_THREAD } from "./creation-steps-session.ts";

/** The record lags behind the hooks by less than a second. */
const QUIET_MS = 3_000;
/** A pane is drawn anew many times a second, and what it shows is a guess: it has to say the same twice. */
const PANE_QUIET_MS = 8_000;
const PANE_LOOKS = 2;

type QuietDeps = Pick<
  CreationDeps,
  "db" | "clock" | "harness" | "files" | "tmux" | "log" | "repoId" | "stateDir"
>;

export class QuietAgents {
  readonly #deps: QuietDeps;
  /** Looks in a row in which the pane showed no work, by incarnation, and since which event. */
  readonly #paneEnded = new Map<string, { at: number; looks: number }>();
  #looking = false;

  constructor(deps: QuietDeps) {
    this.#deps = deps;
  }

  /** Looks once at each; returns how many do not work any more. Never throws; one look at a time. */
  async look(): Promise<number> {
    if (this.#looking) return 0;
    this.#looking = true;
    try {
      const { db, clock } = this.#deps;
      const now = clock.now();
      const quiet = quietlyRunning(db, now - QUIET_MS, now);
      for (const incarnation of this.#paneEnded.keys())
        if (!quiet.some((one) => one.incarnation === incarnation))
          this.#paneEnded.delete(incarnation);
      let ended = 0;
      for (const agent of quiet) if (await this.#lookAt(agent)) ended += 1;
      return ended;
    } catch (error) {
      this.#deps.log.warn(`looking at quiet agents failed: ${String(error)}`);
      return 0;
    } finally {
      this.#looking = false;
    }
  }

  async #lookAt(agent: QuietAgent): Promise<boolean> {
    const { turns } = this.#deps.harness(agent.harness);
    if (turns === undefined) return false;
    const source = await this.#endedBy(agent, turns);
    if (source === null) return false;
    const known = { status: "Running", source: "hook" } as const;
    if (witness(known, { status: "Quiescent", source }).status !== "Quiescent") return false;
    const { db, clock } = this.#deps;
    // Only while it is still the newest that is known: a hook event since then says more.
    return write(db, () =>
      endQuietly(db, agent, { event: `Interrupted (${source})`, now: clock.now() }),
    );
  }

  /** Which witness says that the turn is over; null when none does. */
  async #endedBy(agent: QuietAgent, turns: TurnWitnesses): Promise<StatusSource | null> {
    const path = await this.#record(agent, turns);
    const recorded = path === null ? null : turns.inRecord(path);
    if (recorded === "ended") return "record";
    const age = this.#deps.clock.now() - agent.lastEventAt;
    if (age >= 0 && age < PANE_QUIET_MS) return null;
    const shown = await this.#pane(agent);
    if (shown === null || turns.inPane(shown) !== "ended") {
      this.#paneEnded.delete(agent.incarnation);
      return null;
    }
    const before = this.#paneEnded.get(agent.incarnation);
    const looks = before?.at === agent.lastEventAt ? before.looks + 1 : 1;
    this.#paneEnded.set(agent.incarnation, { at: agent.lastEventAt, looks });
    return looks >= PANE_LOOKS ? "pane" : null;
  }

  async #record(agent: QuietAgent, turns: TurnWitnesses): Promise<string | null> {
    const { db, files, repoId, stateDir } = this.#deps;
    const thread = threadById(db, agent.threadId);
    if (thread === null) return null;
    const folder = threadPaths(stateDir, repoId, agent.threadId).harness;
    const env = await files.readText(envFile(folder));
    return turns.recordPath({
      env: env === null ? {} : (JSON.parse(env) as Record<string, string>),
      workspaceRoot: thread.workspacePath,
      sessionId: agent.harnessSessionId,
    });
  }

  async #pane({ threadId }: QuietAgent): Promise<string | null> {
    const thread = threadById(this.#deps.db, threadId);
    if (thread === null) return null;
    const tmux = this.#deps.tmux(thread.tmuxSocket);
    const [sessions, panes] = [await tmux.listSessions(), await tmux.listPanes()];
    if (!sessions.known || !panes.known) return null;
    const own = sessions.value.filter((s) => s.tags[TAG_THREAD] === threadId);
    const pane = panes.value.find(
      (p) => p.tags[TAG_ROLE] === "agent" && !p.dead && own.some((s) => s.id === p.sessionId),
    );
    if (pane === undefined) return null;
    const text = await tmux.capturePane(pane.id);
    return text.known ? text.value : null;
  }
}
