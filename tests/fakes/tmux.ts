/** One tmux server in memory. Ids are exact; a duplicate name, an unknown target or a relative program is an error. */
import { fail } from "../../src/core/errors.ts";
import type { Observed } from "../../src/core/result.ts";
import type { TmuxBackend, TmuxPane, TmuxSession } from "../../src/ports/tmux.ts";
import type { FakeProcesses } from "./processes.ts";

export interface FakePane extends TmuxPane {
  command: readonly string[];
  text: string;
}

export class FakeTmux implements TmuxBackend {
  readonly sessions: TmuxSession[] = [];
  readonly panes: FakePane[] = [];
  /** Every session and pane ever made, for "nothing twice". */
  readonly made: string[] = [];
  /** The server does not answer. */
  mute = false;
  version = "3.3a";
  onPane: (pane: FakePane) => void = () => undefined;
  /** Called before a pane's process ends with its session. */
  onKill: (pane: FakePane) => void = () => undefined;
  readonly #processes: FakeProcesses;
  #next = 1;

  constructor(processes: FakeProcesses) {
    this.#processes = processes;
  }

  async checkVersion(): Promise<string> {
    return this.version;
  }

  async listSessions(): Promise<Observed<TmuxSession[]>> {
    if (this.mute) return { known: false, reason: "no answer" };
    return { known: true, value: structuredClone(this.sessions) };
  }

  async listPanes(): Promise<Observed<TmuxPane[]>> {
    if (this.mute) return { known: false, reason: "no answer" };
    return { known: true, value: structuredClone(this.panes) };
  }

  async newSession(
    input: Parameters<TmuxBackend["newSession"]>[0],
  ): Promise<{ sessionId: string; paneId: string }> {
    if (this.sessions.some((s) => s.name === input.name)) {
      throw fail("failed", "tmux-duplicate", `a session ${input.name} exists`);
    }
    const session = {
      id: `$${this.#next}`,
      name: input.name,
      attached: 0,
      tags: { ...input.tags },
    };
    this.sessions.push(session);
    this.made.push(`session ${input.name}`);
    const pane = this.#addPane(session, input.command, input.paneTags);
    return { sessionId: session.id, paneId: pane.id };
  }

  async splitPane(input: Parameters<TmuxBackend["splitPane"]>[0]): Promise<{ paneId: string }> {
    const beside = this.panes.find((p) => p.id === input.target);
    const session = this.sessions.find((s) => s.id === beside?.sessionId);
    if (session === undefined) throw new Error(`no pane ${input.target}`);
    this.made.push(`pane of ${session.name}`);
    return { paneId: this.#addPane(session, input.command, input.tags).id };
  }

  #addPane(
    session: TmuxSession,
    command: readonly string[],
    tags: Record<string, string>,
  ): FakePane {
    if (!command[0]?.startsWith("/")) throw new Error(`not an absolute program: ${command[0]}`);
    const { pid } = this.#processes.start(command.join(" "));
    const pane: FakePane = {
      id: `%${this.#next}`,
      sessionId: session.id,
      sessionName: session.name,
      pid,
      dead: false,
      tags: { ...tags },
      command,
      text: "",
    };
    this.#next += 1;
    this.panes.push(pane);
    this.onPane(pane);
    return pane;
  }

  async killSession(sessionId: string): Promise<void> {
    if (this.mute) throw fail("failed", "tmux-failed", "no answer");
    for (const pane of this.panes.filter((p) => p.sessionId === sessionId)) this.killPane(pane);
    const at = this.sessions.findIndex((s) => s.id === sessionId);
    if (at >= 0) this.sessions.splice(at, 1);
  }

  killPane(pane: FakePane): void {
    this.onKill(pane);
    this.#processes.end(pane.pid);
    this.panes.splice(this.panes.indexOf(pane), 1);
  }

  async capturePane(paneId: string): Promise<Observed<string>> {
    const pane = this.panes.find((p) => p.id === paneId);
    if (this.mute || pane === undefined) return { known: false, reason: "no answer" };
    return { known: true, value: pane.text };
  }

  attachCommand(sessionId: string, inside: boolean): string[] {
    return ["tmux", inside ? "switch-client" : "attach-session", "-t", sessionId];
  }

  async displayMessage(): Promise<void> {}
}
