/**
 * tmux (3.2 and later; measured on 3.3a) as one object per server socket.
 *
 * Three things tmux does that shape this file: `-t foo` matches `foobar`, so every target is an id; a query about
 * something that is gone may exit 0 with nothing, so absence is proved by listing alone; a client meeting a server of
 * another version may wait for ever, so every command has a time limit.
 */
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { fail, type KikiError } from "../../core/errors.ts";
import { requirement } from "../../core/tool-versions.ts";
import type { Observed } from "../../core/result.ts";
import type { TmuxBackend, TmuxPane, TmuxSession } from "../../ports/tmux.ts";
import { baseEnv, firstLine, run, type RunResult } from "../exec.ts";
import {
  literal,
  PANE_FORMAT,
  PANE_MARK,
  parsePanes,
  parseSessions,
  parseVersion,
  saysLeaving,
  saysNoServer,
  saysVersionSkew,
  SESSION_FORMAT,
  word,
} from "./parse.ts";

/** A session that is listed still is killed again this often. */
const KILL_ATTEMPTS = 10;
const KILL_PAUSE_MS = 100;
/** A command takes 4–9 ms; starting a server with a person's configuration and plugins may take a second or two. */
export const TMUX_TIMEOUT_MS = 10_000;
/** A server ends with its last session, and for a moment still takes connections that it then drops. */
const LEAVING_RETRIES = 20;
const LEAVING_POLL_MS = 50;
const MAX_OUTPUT_BYTES = 8 * 1024 * 1024;

export interface TmuxOptions {
  /** `-S`; null is the person's default server. Their configuration is never replaced. */
  socket: string | null;
  /** Complete environment of the tmux client, and of a server it has to start. Default: kiki's allow-list. */
  env?: Record<string, string>;
  timeoutMs?: number;
}

export function openTmux(options: TmuxOptions): TmuxBackend {
  const call = caller(options);
  return {
    checkVersion: () => checkVersion(call),
    listSessions: () => listSessions(call),
    listPanes: () => listPanes(call),
    newSession(input) {
      if (options.socket !== null) makeServerFolder(options.socket);
      return newSession(call, input);
    },
    splitPane: (input) => splitPane(call, input),
    killSession: (sessionId) => killSession(call, sessionId),
    capturePane: (paneId) => capturePane(call, paneId),
    attachCommand: (sessionId, insideThisServer) => [
      ...serverArgs(options.socket),
      insideThisServer ? "switch-client" : "attach-session",
      "-t",
      target(sessionId, "$"),
    ],
    displayMessage: (sessionId, text) => displayMessage(call, sessionId, text),
  };
}

/** Runs `tmux <args>`; throws `tmux-missing` and `tmux-timeout`, returns everything else. */
type Call = (args: readonly string[]) => Promise<RunResult>;

function serverArgs(socket: string | null): [string, ...string[]] {
  return socket === null ? ["tmux"] : ["tmux", "-S", socket];
}

function caller(options: TmuxOptions): Call {
  const timeoutMs = options.timeoutMs ?? TMUX_TIMEOUT_MS;
  const env = options.env ?? baseEnv();
  return async (args) => {
    const [program, ...server] = serverArgs(options.socket);
    let result: RunResult;
    try {
      result = await run({
        // -u: without a UTF-8 locale in the daemon's environment tmux would print `_` for other letters.
        argv: [program, "-u", ...server, ...args],
        cwd: "/",
        env,
        timeoutMs,
        maxOutputBytes: MAX_OUTPUT_BYTES,
      });
    } catch (error) {
      if ((error as Partial<KikiError>).code !== "command-missing") throw error;
      throw fail("failed", "tmux-missing", "tmux is not on PATH", requirement("tmux").fix);
    }
    if (result.timedOut) throw skewed(`did not answer within ${timeoutMs / 1000} s`);
    if (result.code !== 0 && saysVersionSkew(result.stderr)) throw skewed(firstLine(result.stderr));
    return result;
  };
}

function skewed(what: string): KikiError {
  return fail(
    "failed",
    "tmux-timeout",
    `tmux: ${what}; the running server may be of another version than the tmux on PATH`,
    "compare `tmux -V` with `tmux display-message -p '#{version}'`, and restart the tmux server if they differ",
  );
}

function failed(doing: string, result: RunResult): KikiError {
  const said = firstLine(result.stderr) || `exit ${result.code ?? result.signal ?? "unknown"}`;
  return fail("failed", "tmux-failed", `tmux could not ${doing}: ${said}`);
}

/** `id` when it is an exact tmux id of that kind. A bug, not an input error, otherwise. */
function target(id: string, kind: "$" | "%"): string {
  if (id.startsWith(kind) && /^\d+$/.test(id.slice(1))) return id;
  throw new Error(`not an exact tmux target: ${JSON.stringify(id)}`);
}

async function checkVersion(call: Call): Promise<string> {
  const { stdout } = await call(["-V"]);
  const said = stdout.toString("utf8").trim();
  const version = parseVersion(said);
  if (version?.enough) return version.text;
  const { minimum, fix } = requirement("tmux");
  throw fail(
    "failed",
    "tmux-too-old",
    `kiki needs tmux ${minimum} or newer; ${said === "" ? "this one names no version" : `this is ${said}`}`,
    fix,
  );
}

/** Printed after a list, so that a cut or empty answer is told from an empty list. */
const END = "kiki-end-of-list";

async function list<T>(
  call: Call,
  args: readonly string[],
  parse: (text: string) => T[] | null,
): Promise<Observed<T[]>> {
  let result: RunResult;
  try {
    result = await call([...args, ";", "display-message", "-p", END]);
  } catch (error) {
    return { known: false, reason: error instanceof Error ? error.message : String(error) };
  }
  if (result.code !== 0) {
    if (saysNoServer(result.stderr)) return { known: true, value: [] };
    return { known: false, reason: failed(args[0] ?? "", result).message };
  }
  const text = result.stdout.toString("utf8");
  // A server on its way up or down may answer with nothing at all; only a finished list proves absence.
  const value = text.endsWith(`${END}\n`) ? parse(text.slice(0, -END.length - 1)) : null;
  if (value === null) return { known: false, reason: `tmux ${args[0]} gave no usable answer` };
  return { known: true, value };
}

function listSessions(call: Call): Promise<Observed<TmuxSession[]>> {
  return list(call, ["list-sessions", "-F", SESSION_FORMAT], parseSessions);
}

async function listPanes(call: Call): Promise<Observed<TmuxPane[]>> {
  const panes = await list(call, ["list-panes", "-a", "-F", PANE_FORMAT], parsePanes);
  if (panes.known) return panes;
  // With `exit-empty off` a server may have no session; tmux then fails with "no current target" (3.3a).
  const sessions = await listSessions(call);
  return sessions.known && sessions.value.length === 0 ? { known: true, value: [] } : panes;
}

/** Folder, environment and command of a new pane. A command of one word would go through the person's shell. */
function paneStart(input: {
  cwd: string;
  env: Record<string, string>;
  command: readonly string[];
}): string[] {
  const env = Object.entries(input.env).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const command = input.command.length === 1 ? ["/usr/bin/env", ...input.command] : input.command;
  return ["-c", literal(input.cwd), ...env, "--", ...command].map(word);
}

/** `; set-option … ; set-option …` for the session or pane that the command before has made. */
function tagging(flags: readonly string[], tags: Record<string, string>): string[] {
  return Object.entries(tags).flatMap(([name, value]) => {
    if (!/^@kiki_[a-z_]+$/.test(name) || !/^[\w.:-]*$/.test(value)) {
      throw new Error(`not a tag kiki can read back: ${name}=${value}`);
    }
    return [";", "set-option", ...flags, name, value];
  });
}

/**
 * tmux makes `tmux-<uid>` for its default socket, but not for the same path given by `-S` (3.3a). Whose a folder that
 * exists is, and what is wrong with it, tmux says itself.
 */
function makeServerFolder(socket: string): void {
  try {
    mkdirSync(dirname(socket), { mode: 0o700 });
  } catch {
    // It is there already, or cannot be made: starting the server tells.
  }
}

async function newSession(
  call: Call,
  input: Parameters<TmuxBackend["newSession"]>[0],
): Promise<{ sessionId: string; paneId: string }> {
  if (!/^[A-Za-z0-9_-]+$/.test(input.name) || input.name.startsWith("-")) {
    throw new Error(`not a session name kiki makes: ${JSON.stringify(input.name)}`);
  }
  if (PANE_MARK in input.tags) throw new Error(`${PANE_MARK} belongs on a pane`);
  const size = ["-x", String(input.columns), "-y", String(input.rows)];
  const lines = [
    ["new-session", "-d", "-P", "-F", "#{session_id} #{pane_id}", "-s", input.name, ...size],
    paneStart(input),
    tagging([], input.tags),
    tagging(["-p"], input.paneTags),
    // With `destroy-unattached on` in a person's configuration a session nobody looks at would vanish.
    [";", "set-option", "destroy-unattached", "off"],
  ];
  let result = await call(lines.flat());
  for (let again = 0; again < LEAVING_RETRIES && saysLeaving(result.stderr); again += 1) {
    await Bun.sleep(LEAVING_POLL_MS);
    result = await call(lines.flat());
  }
  const match = /^(\$\d+) (%\d+)$/m.exec(result.stdout.toString("utf8"));
  if (result.code === 0 && match?.[1] && match[2]) {
    return { sessionId: match[1], paneId: match[2] };
  }
  if (/^duplicate session: /m.test(result.stderr)) {
    throw fail(
      "failed",
      "tmux-duplicate",
      `a tmux session named ${input.name} exists already and is not kiki's`,
      `rename it: tmux rename-session -t =${input.name} <name>`,
    );
  }
  throw failed(`start session ${input.name}`, result);
}

const SPLIT_FLAGS = { below: ["-v"], right: ["-h"], left: ["-h", "-b"] } as const;

async function splitPane(
  call: Call,
  input: Parameters<TmuxBackend["splitPane"]>[0],
): Promise<{ paneId: string }> {
  const at = input.target.startsWith("$")
    ? `${target(input.target, "$")}:`
    : target(input.target, "%");
  const size = ["-l", `${input.sizePercent}%`];
  const lines = [
    ["split-window", ...SPLIT_FLAGS[input.direction], ...size, "-t", at, "-P", "-F", "#{pane_id}"],
    paneStart(input),
    // Not `-d`: only a split that takes the focus makes the new pane the one that set-option means. The same
    // command list gives the focus back, so nothing is drawn in between.
    tagging(["-p"], input.tags),
    [";", "last-pane", "-t", at],
  ];
  const result = await call(lines.flat());
  const paneId = /^%\d+$/m.exec(result.stdout.toString("utf8"))?.[0];
  if (result.code !== 0 || paneId === undefined) throw failed(`split ${input.target}`, result);
  return { paneId };
}

/**
 * Kills the session with this id, if it carries kiki's tag: ids begin again with the server, so the id alone may be a
 * stranger's. Absence is proved by listing. The look and the kill are two commands; in between the server would have
 * to end and another come to the same id.
 */
async function killSession(call: Call, sessionId: string): Promise<void> {
  const id = target(sessionId, "$");
  let killed: RunResult | null = null;
  for (let attempt = 1; ; attempt += 1) {
    if (await provedGone(call, id, killed)) return;
    if (attempt > KILL_ATTEMPTS) throw failed(`kill session ${id}`, killed!);
    // 3.3a: seen to answer 0 while a session's pane was ending, and to list the session still.
    if (killed !== null) await Bun.sleep(KILL_PAUSE_MS);
    killed = await call(["kill-session", "-t", id]);
  }
}

/** False while the session is listed with kiki's tag. Throws when it is somebody else's, or tmux does not say. */
async function provedGone(call: Call, id: string, killed: RunResult | null): Promise<boolean> {
  const left = await listSessions(call);
  if (!left.known) {
    // The server ends with its last session and may be on its way down.
    if (killed?.code === 0 && /server exited|lost server/.test(left.reason)) return true;
    throw fail(
      "failed",
      "tmux-failed",
      `cannot tell whether session ${id} is gone: ${left.reason}`,
    );
  }
  const still = left.value.find((session) => session.id === id);
  if (still === undefined) return true;
  if (!("@kiki_thread" in still.tags)) {
    throw fail(
      "failed",
      "tmux-foreign-session",
      `tmux session ${id} (${still.name}) is not kiki's and is left alone`,
    );
  }
  return false;
}

async function capturePane(call: Call, paneId: string): Promise<Observed<string>> {
  try {
    // -J: a line that a narrow pane wraps is one line all the same.
    const result = await call(["capture-pane", "-p", "-J", "-t", target(paneId, "%")]);
    if (result.code !== 0) return { known: false, reason: failed("read a pane", result).message };
    return { known: true, value: result.stdout.toString("utf8") };
  } catch (error) {
    return { known: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Shows one line to every client that looks at the session; nobody looking is not an error. */
async function displayMessage(call: Call, sessionId: string, text: string): Promise<void> {
  const at = target(sessionId, "$");
  const clients = await call(["list-clients", "-t", at, "-F", "#{client_name}"]);
  if (clients.code !== 0) return;
  // The message is expanded as a format, and by strftime on top.
  const message = literal(text.replaceAll("\n", " ")).replaceAll("%", "%%");
  for (const client of clients.stdout.toString("utf8").split("\n")) {
    if (client !== "") await call(["display-message", "-c", client, "--", word(message)]);
  }
}
