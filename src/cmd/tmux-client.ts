/** The person's own tmux client: which server they are in, which thread they look at, how to move them. */
import { realpathSync } from "node:fs";
import { ask } from "./spawn-tty.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Socket of the server this terminal is inside of; null outside tmux. `$TMUX` is `<socket>,<pid>,<session>`. */
export function insideSocket(env: Env): string | null {
  const value = env["TMUX"];
  if (!value) return null;
  const match = /^(.*),\d+,\d+$/.exec(value);
  return match?.[1] ?? value;
}

/**
 * Where a new thread's session goes: this terminal's server, else KIKI_TMUX_SOCKET, else its default one: null, or by
 * its path where TMUX_TMPDIR moves it, because that differs between the terminals one daemon serves.
 */
export function sessionSocket(env: Env): string | null {
  const given = insideSocket(env) ?? env["KIKI_TMUX_SOCKET"];
  if (given) return given;
  return env["TMUX_TMPDIR"] ? defaultSocket(env) : null;
}

/** Thread of the session this terminal shows (kiki's `@kiki_thread` tag); null outside a kiki session. */
export function tmuxThread(env: Env): string | null {
  const socket = insideSocket(env);
  if (socket === null) return null;
  const pane = env["TMUX_PANE"];
  const target = pane !== undefined && /^%\d+$/.test(pane) ? ["-t", pane] : [];
  const said = ask(["tmux", "-S", socket, "display-message", "-p", ...target, "#{@kiki_thread}"]);
  const thread = said?.code === 0 ? said.stdout.trim() : "";
  return thread === "" ? null : thread;
}

export type Move =
  /** Run this on the person's terminal. */
  | { how: "run"; argv: string[] }
  /** Cannot be done from here: `argv` is what to type, `why` where. */
  | { how: "tell"; argv: string[]; why: string };

/** How this terminal gets to a session: within its server, by attaching, or not at all from inside another server. */
export function moveTo(
  session: { socket: string | null; sessionId: string },
  env: Env,
  isTerminal: boolean,
): Move {
  // null is the default server of a terminal without TMUX_TMPDIR; with one, `tmux` alone means another.
  const socket = session.socket ?? (env["TMUX_TMPDIR"] ? defaultSocket({}) : null);
  const server = socket === null ? ["tmux"] : ["tmux", "-S", socket];
  const inside = insideSocket(env);
  if (inside !== null && sameSocket(inside, socket ?? defaultSocket({}))) {
    return { how: "run", argv: ["tmux", "-S", inside, "switch-client", "-t", session.sessionId] };
  }
  const attach = [...server, "attach-session", "-t", session.sessionId];
  if (inside !== null) {
    return {
      how: "tell",
      argv: attach,
      why: "its session is in another tmux server, so detach first",
    };
  }
  if (!isTerminal) return { how: "tell", argv: attach, why: "this is not a terminal" };
  return { how: "run", argv: attach };
}

/** tmux(1): the default socket is `default` in `${TMUX_TMPDIR:-/tmp}/tmux-<uid>`. */
function defaultSocket(env: Env): string {
  return `${env["TMUX_TMPDIR"] || "/tmp"}/tmux-${process.getuid?.() ?? 0}/default`;
}

function sameSocket(a: string, b: string): boolean {
  return a === b || realPath(a) === realPath(b);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
