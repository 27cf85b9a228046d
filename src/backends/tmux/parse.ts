/**
 * tmux's text in and out. Formats ask for one record per line, fields apart by `|`, the only field that may hold
 * anything (a session's name) last.
 */
import { isAtLeast, requirement } from "../../core/tool-versions.ts";
import type { TmuxPane, TmuxSession } from "../../ports/tmux.ts";

const SESSION_TAGS = ["@kiki_thread", "@kiki_op"] as const;
const PANE_TAGS = ["@kiki_role", "@kiki_op"] as const;
/** Never set on a session. Options are inherited, so a pane a person split off would show its session's `@kiki_op`. */
export const PANE_MARK = "@kiki_role";

/** A tag's value with the separator made harmless: anybody may set a user option to anything. */
function tagField(name: string): string {
  return `#{s/[|]/_/:${name}}`;
}

export const SESSION_FORMAT = [
  "#{session_id}",
  "#{session_attached}",
  ...SESSION_TAGS.map(tagField),
  "#{session_name}",
].join("|");

export const PANE_FORMAT = [
  "#{pane_id}",
  "#{session_id}",
  "#{pane_pid}",
  "#{pane_dead}",
  ...PANE_TAGS.map(tagField),
  "#{session_name}",
].join("|");

/** null when a line is not what the format asked for: then the whole answer proves nothing. */
export function parseSessions(text: string): TmuxSession[] | null {
  return parseLines(text, (fields) => {
    const [id = "", attached = "", ...rest] = fields;
    const values = rest.splice(0, SESSION_TAGS.length);
    if (!/^\$\d+$/.test(id) || !/^\d+$/.test(attached) || rest.length === 0) return null;
    const tags = tagsOf(SESSION_TAGS, values);
    return { id, name: rest.join("|"), attached: Number(attached), tags };
  });
}

/** Like `parseSessions`. A pane without `@kiki_role` is not kiki's and has no tags. */
export function parsePanes(text: string): TmuxPane[] | null {
  return parseLines(text, (fields) => {
    const [id = "", sessionId = "", pid = "", dead = "", ...rest] = fields;
    const values = rest.splice(0, PANE_TAGS.length);
    if (!/^%\d+$/.test(id) || !/^\$\d+$/.test(sessionId) || rest.length === 0) return null;
    if (!/^\d+$/.test(pid)) return null;
    const tags = tagsOf(PANE_TAGS, values);
    return {
      id,
      sessionId,
      sessionName: rest.join("|"),
      pid: Number(pid),
      dead: dead === "1",
      tags: PANE_MARK in tags ? tags : {},
    };
  });
}

function parseLines<T>(text: string, parse: (fields: string[]) => T | null): T[] | null {
  const found: T[] = [];
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const record = parse(line.split("|"));
    if (record === null) return null;
    found.push(record);
  }
  return found;
}

function tagsOf(names: readonly string[], values: readonly string[]): Record<string, string> {
  const tags: Record<string, string> = {};
  names.forEach((name, i) => {
    const value = values[i];
    if (value !== undefined && value !== "") tags[name] = value;
  });
  return tags;
}

/**
 * What `tmux -V` says: `tmux 3.3a`, `tmux next-3.5`. Builds without a number (`tmux master`, `tmux openbsd-7.4`) are
 * newer than any release kiki refuses and count as new enough. null when it is no version of tmux at all.
 */
export function parseVersion(text: string): { text: string; enough: boolean } | null {
  const version = /^tmux (\S+)\s*$/.exec(text)?.[1];
  if (version === undefined) return null;
  if (/^(master|openbsd-\d)/.test(version)) return { text: version, enough: true };
  const match = /^(?:next-)?(\d+)\.(\d+)/.exec(version);
  if (match === null) return null;
  const enough = isAtLeast(`${match[1]}.${match[2]}`, requirement("tmux").minimum);
  return { text: version, enough };
}

/**
 * tmux itself says that nothing listens on its socket (3.3a: ECONNREFUSED reads "no server running on", ENOENT "error
 * connecting to … (No such file or directory)"). Any other failure says nothing about what exists.
 */
export function saysNoServer(stderr: string): boolean {
  return (
    /^no server running on /m.test(stderr) ||
    /^error connecting to .* \(No such file or directory\)$/m.test(stderr)
  );
}

/** The server was on its way down and has done nothing of what was asked (3.3a). */
export function saysLeaving(stderr: string): boolean {
  return /^server exited unexpectedly$/m.test(stderr);
}

/** Client and server speak different protocols (3.3a: "protocol version mismatch (client 8, server 7)"). */
export function saysVersionSkew(stderr: string): boolean {
  return /protocol version mismatch|server version is too (?:old|new)/.test(stderr);
}

/**
 * One argument of a tmux command list. tmux takes a trailing `;` of any argument for the end of the command, also
 * when the argument vector never saw a shell.
 */
export function word(text: string): string {
  return text.endsWith(";") ? `${text.slice(0, -1)}\\;` : text;
}

/**
 * Text for an argument that tmux expands as a format (`new-session -c`, `display-message`): `#(…)` in a folder's name
 * would run a command. A run of `#` before `[` is left alone by tmux 3.3a and cannot be doubled.
 */
export function literal(text: string): string {
  return text.replace(/#+(?![#[])/g, (run) => run + run);
}
