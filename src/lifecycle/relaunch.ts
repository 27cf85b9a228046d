/**
 * The agent after its first incarnation: stopped, ended, and started again in the pane it has, through the same gate as
 * at its creation. Decisions about deliveries are the cascade's; here is what is done to processes, files and rows.
 */
import { fail } from "../core/errors.ts";
import type { IncarnationId, IntentId, ThreadId } from "../core/ids.ts";
import { threadPaths } from "../core/paths.ts";
import { anewPrompt } from "../core/payload.ts";
import { threadWord } from "../core/shell-line.ts";
import type { ProcessIdentity } from "../ports/processes.ts";
import type { TmuxPane } from "../ports/tmux.ts";
import { raiseAttention } from "../store/attention.ts";
import { write } from "../store/db.ts";
import { provenConversation } from "../store/deliveries.ts";
import {
  insertGate,
  insertSession,
  liveSession,
  retireForGood,
  revokeGate,
  sessionById,
  sessionsOf,
  type SessionRow,
  type StartupClaim,
} from "../store/sessions.ts";
import { parentOf, threadById, type ThreadRow } from "../store/threads.ts";
import { launchFile, type CreationDeps } from "./creation-deps.ts";
import { TAG_ROLE, TAG_THREAD } from "./creation-steps-session.ts";
import { DIALOG_TIMEOUT_MS, PANE_POLL_MS, READY_TIMEOUT_MS } from "./creation-steps-ready.ts";
import { freeze } from "./freeze.ts";
import { resume, resumeAtBoot } from "./freeze-resume.ts";
import type { Gate } from "./gate.ts";
import { provedLaunch } from "./launch.ts";
import { conversationFor, prepareLaunch } from "./launch-prepare.ts";
import type { Signals } from "./signals.ts";

const FILE_MODE = 0o600;
/** jj and git commands of an agent that is to be stopped get this long to end by themselves. */
const DRAIN_MS = 5_000;
const SETTLE_MS = 2_000;
/** SIGKILL acts at once, except on a process in the middle of a system call that cannot be interrupted. */
const END_MS = 5_000;
const END_POLL_MS = 20;

interface Startup extends Omit<StartupClaim, "deliveryId"> {
  prompt(deliveryId: string, begunWith: string | null): string;
}

/** Nothing is owed; `words`: what a person had typed. */
interface Plain {
  words: string | null;
}

export class Relaunch {
  readonly #deps: CreationDeps;
  readonly #gate: Gate;
  readonly #signals: Signals;
  readonly #stopping: AbortSignal;

  constructor(deps: CreationDeps, gate: Gate, signals: Signals, stopping: AbortSignal) {
    this.#deps = deps;
    this.#gate = gate;
    this.#signals = signals;
    this.#stopping = stopping;
  }

  /** Stops all processes of the thread's agent, on the intent's account. null, or why they do not all stand still. */
  async stop(threadId: ThreadId, intentId: IntentId): Promise<string | null> {
    const { db } = this.#deps;
    const thread = this.#thread(threadId);
    const wrapper = await this.#wrapper(thread);
    // Left behind by earlier incarnations, too: whatever they still do, they do to the same files.
    const sessions = sessionsOf(db, threadId);
    const outcome = await freeze(this.#freezeDeps(), {
      owner: { kind: "intent", id: intentId },
      threadId,
      roots: wrapper === null ? [] : [wrapper],
      since: wrapper?.startTime ?? oldest(sessions),
      marks: sessions.map((s) => `KIKI_INCARNATION=${s.incarnation}`),
      keep: [],
      launchers: [threadPaths(this.#deps.stateDir, this.#deps.repoId, threadId).hook],
      drainMs: DRAIN_MS,
      settleMs: SETTLE_MS,
      unproved: "resume",
    });
    if (outcome.outcome === "frozen") return null;
    const names = outcome.processes.map((p) => `${p.name} (${p.pid})`).join(", ");
    return outcome.outcome === "not-drained"
      ? `${names} does not end`
      : `${outcome.reason}${names === "" ? "" : `: ${names}`}`;
  }

  async end(incarnation: IncarnationId): Promise<string | null> {
    const { clock, db, processes } = this.#deps;
    const session = sessionById(db, incarnation);
    if (session === null) return null;
    this.#gate.expectEnd(incarnation);
    // Claimed and not reported: from here on no wrapper gets it any more, and what it started is found by its mark.
    if (session.pid === null) write(db, () => revokeGate(db, incarnation));
    const harness = await this.#harness(session);
    if (harness === null) return null;
    if (processes.signal(harness, "SIGKILL") === "refused")
      return `the agent's process ${harness.pid} may not be ended by this user`;
    const until = clock.monotonic() + END_MS;
    while (processes.identify(harness.pid)?.startTime === harness.startTime) {
      if (clock.monotonic() >= until) return `the agent's process ${harness.pid} does not end`;
      await clock.sleep(END_POLL_MS);
    }
    return null;
  }

  async release(intentId: IntentId): Promise<void> {
    const outcome = await resume(this.#freezeDeps(), { kind: "intent", id: intentId });
    if (!outcome.resumed)
      this.#deps.log.warn(`intent ${intentId}: ${outcome.stuck.length} processes stay stopped`);
  }

  async releaseAllBut(needed: (intentId: IntentId) => boolean): Promise<void> {
    // What a lifecycle operation holds is that operation's to resume.
    await resumeAtBoot(this.#freezeDeps(), ({ kind, id }) => kind === "lifecycle" || needed(id));
  }

  /** One transaction retires the incarnation before and makes this one. Throws when nothing could be started. */
  async replace(
    threadId: ThreadId,
    input: Startup | Plain,
    claim: (made: { incarnation: IncarnationId; deliveryId: string }) => () => void,
  ): Promise<IncarnationId> {
    const { clock, db, files, ids } = this.#deps;
    const thread = this.#thread(threadId);
    const pane = await this.#agentPane(thread);
    if (pane === null) {
      throw fail(
        "failed",
        "agent-pane-gone",
        `"${thread.name}" has no agent pane any more`,
        "kk status",
      );
    }
    this.#clearPane(threadId, pane);
    const [incarnation, deliveryId, gateId] = [ids.uuid(), ids.uuid(), ids.uuid()];
    const conversation = provenConversation(db, threadId);
    const startup = "words" in input ? null : input;
    const words = "words" in input ? input.words : null;
    const launch = await prepareLaunch(this.#deps, thread, {
      incarnation,
      ...conversationFor(this.#deps, thread.harness, conversation),
      prompt:
        startup?.prompt(deliveryId, null) ??
        words ??
        (conversation === null ? thread.firstPrompt : null),
      anew:
        startup?.prompt(deliveryId, thread.firstPrompt) ?? anewPrompt(thread.firstPrompt, words),
      follows: parentOf(db, threadId),
    });
    const { harness: folder } = threadPaths(this.#deps.stateDir, this.#deps.repoId, threadId);
    const path = launchFile(folder);
    await files.writeDurable(path, JSON.stringify(launch), FILE_MODE);
    await provedLaunch(files, path, launch);
    const { before, committed } = write(db, () => {
      const now = clock.now();
      const before = liveSession(db, threadId);
      if (before !== null) retireForGood(db, before.incarnation, now);
      const { harnessVersion, harnessSessionId, secretSha256, settingsFingerprint, capabilities } =
        launch;
      insertSession(db, {
        incarnation,
        threadId,
        harness: thread.harness,
        harnessVersion,
        harnessSessionId,
        secretSha256,
        settingsFingerprint,
        capabilities,
        now,
        startup: startup === null ? null : claimOf(startup, deliveryId),
      });
      insertGate(db, { gateId, threadId, incarnation, paneId: pane.id, launchFile: path, now });
      return { before, committed: claim({ incarnation, deliveryId }) };
    });
    this.#gate.forgetTrouble(threadId);
    committed();
    if (before !== null) this.#deps.onRetired?.(threadId, before.incarnation);
    this.#signals.notify(threadId);
    return incarnation;
  }

  /** Waits for the handshake. What ends the wait otherwise retires the incarnation, once its process is gone. */
  async settled(incarnation: IncarnationId): Promise<"ready" | "ended" | "suspended"> {
    const { clock, db } = this.#deps;
    const { threadId, harness } = sessionById(db, incarnation)!;
    const thread = this.#thread(threadId);
    const began = clock.monotonic();
    let limitMs = READY_TIMEOUT_MS;
    for (;;) {
      if (this.#stopping.aborted) return "suspended";
      const session = sessionById(db, incarnation)!;
      if (session.retiredAt !== null) return "ended";
      if (session.readyAt !== null) return "ready";
      const shown = await this.#paneText(thread);
      const text = shown?.text ?? "";
      const adapter = this.#deps.harness(harness);
      const dialog = adapter.startupDialog(text);
      if (dialog === null && adapter.naming === "harness" && adapter.composer(text)) {
        await this.#gate.composerSeen(incarnation);
        if (sessionById(db, incarnation)?.readyAt !== null) continue;
      }
      if (dialog !== null) {
        limitMs = DIALOG_TIMEOUT_MS;
        this.#askForDialog(thread, incarnation, dialog);
      }
      const left = limitMs - (clock.monotonic() - began);
      const trouble = this.#gate.trouble(threadId)?.message ?? null;
      const why =
        trouble ??
        (shown === null ? "its pane is gone" : left <= 0 ? "it did not report its start" : null);
      if (why !== null) return this.#giveUp(incarnation, why);
      await this.#signals.wait(threadId, Math.min(PANE_POLL_MS, Math.max(left, 1)), this.#stopping);
    }
  }

  async #giveUp(incarnation: IncarnationId, why: string): Promise<"ended" | "suspended"> {
    const left = await this.end(incarnation);
    if (left !== null) {
      this.#deps.log.warn(`incarnation ${incarnation}: ${why}, and ${left}`);
      return "suspended";
    }
    this.#gate.retire(incarnation, { status: "Crashed", event: why });
    return "ended";
  }

  /** A harness whose gate was closed while its launch was on the way to the wrapper: it keeps the pane, and is nobody's. */
  #clearPane(threadId: ThreadId, pane: TmuxPane): void {
    const { db, processes } = this.#deps;
    const marks = sessionsOf(db, threadId)
      .filter((s) => s.retiredAt !== null)
      .map((s) => `KIKI_INCARNATION=${s.incarnation}`);
    for (const one of processes.sample(marks).processes)
      if (one.parent === pane.pid && one.marked === "yes") processes.signal(one, "SIGKILL");
  }

  #thread(threadId: ThreadId): ThreadRow {
    const thread = threadById(this.#deps.db, threadId);
    if (thread === null) throw new Error(`no thread ${threadId}`);
    return thread;
  }

  /** By its tags; null when it is provably not there. Throws `tmux-unknown`. */
  async #agentPane(thread: ThreadRow): Promise<TmuxPane | null> {
    const tmux = this.#deps.tmux(thread.tmuxSocket);
    const [sessions, panes] = [await tmux.listSessions(), await tmux.listPanes()];
    if (!sessions.known || !panes.known) {
      const reason = sessions.known ? (panes.known ? "" : panes.reason) : sessions.reason;
      throw fail("failed", "tmux-unknown", `tmux gave no usable answer: ${reason}`, "tmux ls");
    }
    const own = sessions.value.filter((s) => s.tags[TAG_THREAD] === thread.threadId);
    const agent = panes.value.find(
      (p) => p.tags[TAG_ROLE] === "agent" && !p.dead && own.some((s) => s.id === p.sessionId),
    );
    return agent ?? null;
  }

  /** null: no pane. `text` null: tmux does not say what it shows, or whether it is there. */
  async #paneText(thread: ThreadRow): Promise<{ text: string | null } | null> {
    try {
      const pane = await this.#agentPane(thread);
      if (pane === null) return null;
      const text = await this.#deps.tmux(thread.tmuxSocket).capturePane(pane.id);
      return { text: text.known ? text.value : null };
    } catch {
      return { text: null };
    }
  }

  async #wrapper(thread: ThreadRow): Promise<ProcessIdentity | null> {
    const pane = await this.#agentPane(thread).catch(() => null);
    return pane === null ? null : this.#deps.processes.identify(pane.pid);
  }

  /** The harness's own process; one that nobody reported yet is the wrapper's child that carries the incarnation. */
  async #harness(session: SessionRow): Promise<ProcessIdentity | null> {
    const { processes } = this.#deps;
    if (session.pid !== null) {
      const now = processes.identify(session.pid);
      return now?.startTime === session.startTime ? now : null;
    }
    const wrapper = await this.#wrapper(this.#thread(session.threadId));
    if (wrapper === null) return null;
    const sample = processes.sample([`KIKI_INCARNATION=${session.incarnation}`]);
    return sample.processes.find((p) => p.parent === wrapper.pid && p.marked === "yes") ?? null;
  }

  #freezeDeps() {
    const { db, processes, clock, crash } = this.#deps;
    return { db, processes, clock, crash, self: process.pid };
  }

  #askForDialog(thread: ThreadRow, incarnation: IncarnationId, dialog: string): void {
    const { clock, db } = this.#deps;
    write(db, () => {
      raiseAttention(db, {
        threadId: thread.threadId,
        kind: "startup-dialog",
        dedupKey: incarnation,
        message: `"${thread.name}" waits: accept the dialog in the agent pane (${dialog}) — kk switch ${threadWord(thread.name)}`,
        loud: true,
        now: clock.now(),
      });
    });
  }
}

function claimOf({ intentId, epoch, payloadSha256 }: Startup, deliveryId: string): StartupClaim {
  return { intentId, epoch, payloadSha256, deliveryId };
}

/** Start times are ticks since boot: nothing older than the first agent can be an agent's. */
function oldest(sessions: readonly SessionRow[]): string | null {
  return sessions.find((s) => s.startTime !== null)?.startTime ?? null;
}
