/**
 * One tmux server in memory (after tmux 3.3a). Ids are exact and begin again with the server, which ends with its last
 * session; a duplicate name, an unknown target, a relative program or a tag that cannot be read back is an error.
 */
import { fail } from "../../src/core/errors.ts";
import type { Observed } from "../../src/core/result.ts";
import type { TmuxBackend, TmuxPane, TmuxSession } from "../../src/ports/tmux.ts";

export interface FakePane extends TmuxPane {
  command: readonly string[];
  text: string;
}

/** What a server needs of the processes in its panes. */
interface PaneProcesses {
  start(argument?: string): { pid: number };
  end(pid: number): void;
}

type Action = "newSession" | "splitPane" | "killSession";

const PANE_MARK = "@kiki_role";

export class FakeTmux implements TmuxBackend {
  readonly sessions: TmuxSession[] = [];
  readonly panes: FakePane[] = [];
  /** Every session and pane ever made, for "nothing twice". */
  readonly made: string[] = [];
  /** Lines shown to clients of a session. */
  readonly messages: { sessionId: string; text: string }[] = [];
  /** The server does not answer. */
  mute = false;
  /** This many of the next lists come back empty, cut or with another failure: nothing is known. */
  unsure = 0;
  version = "3.3a";
  onPane: (pane: FakePane) => void = () => undefined;
  /** Called before a pane's process ends with its session. */
  onKill: (pane: FakePane) => void = () => undefined;
  /** The server continues a stopped pane leader, and with it the leader's process group. Called with the leader. */
  onContinue: (pid: number) => void = () => undefined;
  /** Effects that take place while their answer is lost, or that do not while the failure looks the same. Each once. */
  readonly lost = new Map<Action, "done" | "not-done">();
  readonly #processes: PaneProcesses;
  #nextSession = 0;
  #nextPane = 0;

  constructor(processes: PaneProcesses) {
    this.#processes = processes;
  }

  // ---- the port ----------------------------------------------------------------------------------------------

  async checkVersion(): Promise<string> {
    const [major = 0, minor = 0] = this.version.split(".").map((part) => Number.parseInt(part, 10));
    if (major < 3 || (major === 3 && minor < 2)) {
      throw fail("failed", "tmux-too-old", `kiki needs tmux 3.2 or newer; this is ${this.version}`);
    }
    return this.version;
  }

  async listSessions(): Promise<Observed<TmuxSession[]>> {
    return this.#list(this.sessions);
  }

  async listPanes(): Promise<Observed<TmuxPane[]>> {
    return this.#list(
      this.panes.map(({ id, sessionId, sessionName, pid, dead, tags }) => ({
        id,
        sessionId,
        sessionName,
        pid,
        dead,
        tags: PANE_MARK in tags ? tags : {},
      })),
    );
  }

  async newSession(
    input: Parameters<TmuxBackend["newSession"]>[0],
  ): Promise<{ sessionId: string; paneId: string }> {
    if (!/^[A-Za-z0-9_][A-Za-z0-9_-]*$/.test(input.name)) {
      throw new Error(`not a session name kiki makes: ${JSON.stringify(input.name)}`);
    }
    if (PANE_MARK in input.tags) throw new Error(`${PANE_MARK} belongs on a pane`);
    if (!(input.columns > 0 && input.rows > 0)) throw new Error("a session has a size");
    checkStart(input, input.paneTags);
    checkTags(input.tags);
    this.#answering();
    return this.#act("newSession", () => {
      if (this.sessions.some((s) => s.name === input.name)) {
        throw fail("failed", "tmux-duplicate", `a session ${input.name} exists`);
      }
      const session = this.#addSession(input.name, input.tags);
      const pane = this.#addPane(session, input.command, input.paneTags);
      this.made.push(`session ${input.name}`);
      this.onPane(pane);
      return { sessionId: session.id, paneId: pane.id };
    });
  }

  async splitPane(input: Parameters<TmuxBackend["splitPane"]>[0]): Promise<{ paneId: string }> {
    const ofSession = input.target.startsWith("$");
    const target = exact(input.target, ofSession ? "$" : "%");
    if (!(input.sizePercent > 0 && input.sizePercent < 100)) throw new Error("no such size");
    checkStart(input, input.tags);
    this.#answering();
    return this.#act("splitPane", () => {
      const beside = this.panes.find((p) => (ofSession ? p.sessionId : p.id) === target);
      const session = this.sessions.find((s) => s.id === beside?.sessionId);
      if (session === undefined) throw failed(`split ${target}: can't find it`);
      const pane = this.#addPane(session, input.command, input.tags);
      this.made.push(`pane of ${session.name}`);
      this.onPane(pane);
      return { paneId: pane.id };
    });
  }

  async killSession(sessionId: string): Promise<void> {
    const id = exact(sessionId, "$");
    if (this.mute) throw failed(`tell whether session ${id} is gone: no answer`);
    const session = this.sessions.find((s) => s.id === id);
    if (session === undefined) return;
    if (session.tags["@kiki_thread"] === undefined) {
      throw fail("failed", "tmux-foreign-session", `session ${id} (${session.name}) is not kiki's`);
    }
    this.#act("killSession", () => this.#endSession(session));
  }

  async capturePane(paneId: string): Promise<Observed<string>> {
    const pane = this.panes.find((p) => p.id === exact(paneId, "%"));
    if (this.mute || pane === undefined) return { known: false, reason: "no answer" };
    return { known: true, value: pane.text };
  }

  attachCommand(sessionId: string, inside: boolean): string[] {
    return ["tmux", inside ? "switch-client" : "attach-session", "-t", exact(sessionId, "$")];
  }

  async displayMessage(sessionId: string, text: string): Promise<void> {
    const id = exact(sessionId, "$");
    const looked = this.sessions.some((s) => s.id === id && s.attached > 0);
    if (!this.mute && looked)
      this.messages.push({ sessionId: id, text: text.replaceAll("\n", " ") });
  }

  // ---- other people and accidents ----------------------------------------------------------------------------

  /** A person's own session; tmux makes `_` of every `.` and `:` in its name, and says nothing. */
  personSession(name: string): TmuxSession {
    const session = this.#addSession(name.replace(/[.:]/g, "_"), {});
    this.#addPane(session, ["/bin/sh"], {});
    return session;
  }

  /** A person splits off a pane: it has none of kiki's tags. */
  personPane(sessionId: string): FakePane {
    return this.#addPane(
      this.sessions.find((s) => s.id === sessionId)!,
      ["/bin/sh"],
      {},
    );
  }

  /** Somebody runs `tmux kill-session`. */
  personKills(sessionId: string): void {
    this.#endSession(this.sessions.find((s) => s.id === sessionId)!);
  }

  /** The server dies, and every pane's process with it. The next one begins with `$0` and `%0`. */
  serverDies(): void {
    while (this.sessions[0] !== undefined) this.#endSession(this.sessions[0]);
  }

  /** The pane's process ends and the pane closes; with a session's last pane the session ends. */
  killPane(pane: FakePane): void {
    this.onKill(pane);
    this.#processes.end(pane.pid);
    const at = this.panes.indexOf(pane);
    if (at < 0) return; // `onKill` may have closed it
    this.panes.splice(at, 1);
    if (this.panes.some((p) => p.sessionId === pane.sessionId)) return;
    const session = this.sessions.findIndex((s) => s.id === pane.sessionId);
    if (session >= 0) this.sessions.splice(session, 1);
    this.#endWithLast();
  }

  /** The process ends and the pane stays, dead (`remain-on-exit`), or as if tmux had not noticed. */
  paneProcessEnds(pane: FakePane, noticed = true): void {
    this.#processes.end(pane.pid);
    pane.dead = noticed;
  }

  /** A process was stopped. tmux continues a pane's leader at once; anything below it stays stopped. */
  stopped(pid: number): void {
    if (this.panes.some((p) => p.pid === pid && !p.dead)) this.onContinue(pid);
  }

  // ---- within ------------------------------------------------------------------------------------------------

  #list<T>(value: readonly T[]): Observed<T[]> {
    if (this.mute) return { known: false, reason: "no answer" };
    if (this.unsure > 0) {
      this.unsure -= 1;
      return { known: false, reason: "no usable answer" };
    }
    return { known: true, value: structuredClone([...value]) };
  }

  #answering(): void {
    if (this.mute) throw fail("failed", "tmux-timeout", "tmux: did not answer");
  }

  #act<T>(action: Action, effect: () => T): T {
    const lost = this.lost.get(action);
    this.lost.delete(action);
    if (lost === "not-done") throw fail("failed", "tmux-timeout", "tmux: did not answer");
    const value = effect();
    if (lost === "done") throw fail("failed", "tmux-timeout", "tmux: did not answer");
    return value;
  }

  #addSession(name: string, tags: Record<string, string>): TmuxSession {
    const session = { id: `$${this.#nextSession}`, name, attached: 0, tags: { ...tags } };
    this.#nextSession += 1;
    this.sessions.push(session);
    return session;
  }

  #addPane(
    session: TmuxSession,
    command: readonly string[],
    tags: Record<string, string>,
  ): FakePane {
    const { pid } = this.#processes.start(command.join(" "));
    const { id: sessionId, name: sessionName } = session;
    const id = `%${this.#nextPane}`;
    this.#nextPane += 1;
    const place = { id, sessionId, sessionName, pid, dead: false };
    const pane: FakePane = { ...place, tags: { ...tags }, command, text: "" };
    this.panes.push(pane);
    return pane;
  }

  #endSession(session: TmuxSession): void {
    for (const pane of this.panes.filter((p) => p.sessionId === session.id)) this.killPane(pane);
    const at = this.sessions.indexOf(session);
    if (at >= 0) this.sessions.splice(at, 1);
    this.#endWithLast();
  }

  /** A server ends with its last session, and its ids are given out again. */
  #endWithLast(): void {
    if (this.sessions.length > 0) return;
    this.#nextSession = 0;
    this.#nextPane = 0;
  }
}

/** `id` when it is an exact id of that kind: anything else could match by prefix. */
function exact(id: string, kind: "$" | "%"): string {
  if (id.startsWith(kind) && /^\d+$/.test(id.slice(1))) return id;
  throw new Error(`not an exact tmux target: ${JSON.stringify(id)}`);
}

function checkStart(
  input: { cwd: string; command: readonly string[] },
  tags: Record<string, string>,
): void {
  const [program] = input.command;
  if (program?.startsWith("/") !== true) throw new Error(`not an absolute program: ${program}`);
  if (!input.cwd.startsWith("/")) throw new Error(`not an absolute folder: ${input.cwd}`);
  checkTags(tags);
}

function checkTags(tags: Record<string, string>): void {
  for (const [name, value] of Object.entries(tags)) {
    if (!/^@kiki_[a-z_]+$/.test(name) || !/^[\w.:-]*$/.test(value)) {
      throw new Error(`not a tag kiki can read back: ${name}=${value}`);
    }
  }
}

function failed(doing: string): Error {
  return fail("failed", "tmux-failed", `tmux could not ${doing}`);
}
