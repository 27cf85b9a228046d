/**
 * What kiki needs from tmux (≥ 3.2). Targets are exact (`$id`, `%id` or `=name`), never prefixes. A failed or empty
 * answer is `unknown`, never `absent`.
 */
import type { Observed } from "../core/result.ts";

export interface TmuxSession {
  /** `$3` */
  id: string;
  name: string;
  attached: number;
  /** User options kiki sets: `@kiki_thread`, `@kiki_op`. Missing ones are absent. */
  tags: Record<string, string>;
}

export interface TmuxPane {
  /** `%5` */
  id: string;
  sessionId: string;
  sessionName: string;
  /** Process at the pane's root. */
  pid: number;
  dead: boolean;
  /** Pane-level user options: `@kiki_role` (`agent`, `shell`, `sidebar`), `@kiki_op`. */
  tags: Record<string, string>;
}

/** One tmux server, reached through one socket. */
export interface TmuxBackend {
  /** Throws KikiError `tmux-missing` / `tmux-too-old`. */
  checkVersion(): Promise<string>;
  listSessions(): Promise<Observed<TmuxSession[]>>;
  listPanes(): Promise<Observed<TmuxPane[]>>;
  /**
   * Detached session with one window whose only pane runs `command` (argv, no shell) in `cwd`. Session tags and the
   * first pane's tags are set in the same tmux command list, so that they exist when the session does.
   */
  newSession(input: {
    name: string;
    cwd: string;
    command: readonly string[];
    env: Record<string, string>;
    columns: number;
    rows: number;
    tags: Record<string, string>;
    paneTags: Record<string, string>;
  }): Promise<{ sessionId: string; paneId: string }>;
  /** Splits off a pane; focus stays where it was. */
  splitPane(input: {
    target: string;
    direction: "below" | "right" | "left";
    sizePercent: number;
    cwd: string;
    command: readonly string[];
    env: Record<string, string>;
    tags: Record<string, string>;
  }): Promise<{ paneId: string }>;
  /** Kills exactly the session with this id; a session that is gone already is success. */
  killSession(sessionId: string): Promise<void>;
  /** What the pane shows; a line that it wraps is one line all the same. */
  capturePane(paneId: string): Promise<Observed<string>>;
  /** argv for a person's own terminal: `switch-client` inside this server, else `attach-session`. */
  attachCommand(sessionId: string, insideThisServer: boolean): string[];
  displayMessage(sessionId: string, text: string): Promise<void>;
}
