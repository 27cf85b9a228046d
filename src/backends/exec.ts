/**
 * The only spawner. Argument vectors only, an explicit environment, a time-out and an output cap on every command.
 *
 * Built on Bun.spawn (1.4.5) and not on execa: it costs 3 ms less per command, jj runs many times a second, and the
 * one thing execa would add — ending a command on time-out — both do for the leader alone; a grandchild that holds
 * the pipe then delays the result by seconds. Hence a process group per command, ended as a whole.
 */
import { commandEnv } from "../core/daemon-env.ts";
import { closeSync, constants, openSync, statSync } from "node:fs";
import { constants as osConstants } from "node:os";
import { fail } from "../core/errors.ts";
import { CommandFiles } from "./command-files.ts";

export interface RunRequest {
  /** Program (looked up on `env.PATH` when it has no slash) and arguments; never a shell line. */
  argv: readonly string[];
  cwd: string;
  /** The complete environment of the child, usually `baseEnv()`. */
  env: Record<string, string>;
  timeoutMs: number;
  /** Bytes for standard input; without it standard input is empty. */
  input?: string | Uint8Array;
  /** Cap on stdout and stderr together; default `DEFAULT_MAX_OUTPUT_BYTES`. */
  maxOutputBytes?: number;
  /** Beyond the cap: return what fits, with `cut`, instead of failing. The command is ended either way. */
  cutOutput?: boolean;
  /** Ends the command's whole group when aborted. */
  signal?: AbortSignal;
}

export interface RunResult {
  /** Exit code; null when a signal ended the command. */
  code: number | null;
  /** Name of the ending signal (`SIGKILL`), else null. */
  signal: string | null;
  stdout: Buffer;
  stderr: string;
  /** The time limit passed and kiki ended the group. */
  timedOut: boolean;
  /** Output was cut at the cap (`cutOutput` only). */
  cut: boolean;
}

export const DEFAULT_MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
/** Between SIGTERM and SIGKILL: git removes its lock files on SIGTERM. */
const TERMINATE_GRACE_MS = 500;
/** SIGKILL acts at once, except in a system call that cannot be interrupted; a zombie of somebody else's counts as there. */
const KILLED_MS = 500;
const KILLED_POLL_MS = 5;
/** How often a running command's output is measured against its cap. */
const SIZE_CHECK_MS = 200;

/** The allow-listed part of `from` (default: this process's environment), with `extra` on top. */
export function baseEnv(
  extra: Record<string, string> = {},
  from: Record<string, string | undefined> = process.env,
): Record<string, string> {
  return { ...commandEnv(from), ...extra };
}

/**
 * Runs one command to its end. A non-zero exit, a signal and a time-out are results; thrown KikiErrors are
 * `command-missing` (no such program), `command-cwd` (no such folder), `command-output` (cap exceeded),
 * `command-aborted` (signal), `command-temp` (no place for its output).
 */
export async function run(request: RunRequest): Promise<RunResult> {
  const name = request.argv[0] ?? "(no program)";
  if (request.signal?.aborted) throw aborted(name);
  const files = new CommandFiles(request.input);
  try {
    const child = start(request, files);
    const ending = { timedOut: false, aborted: false, tooLarge: false };
    const over: Promise<void>[] = [];
    const end = (why: keyof typeof ending): void => {
      ending[why] = true;
      if (over.length === 0) over.push(endGroup(child.pid, child.exited));
    };
    const cap = request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES;
    const timer = setTimeout(() => end("timedOut"), request.timeoutMs);
    const watch = setInterval(() => {
      if (files.size() > cap && !ending.tooLarge) end("tooLarge");
    }, SIZE_CHECK_MS);
    const onAbort = (): void => end("aborted");
    request.signal?.addEventListener("abort", onAbort, { once: true });
    try {
      await child.exited;
      // What it had started may still write: only when that is gone, too, is the command over.
      await Promise.all(over);
    } finally {
      clearTimeout(timer);
      clearInterval(watch);
      request.signal?.removeEventListener("abort", onAbort);
    }
    if (ending.aborted) throw aborted(name);
    const cut = files.size() > cap;
    if (cut && !request.cutOutput) {
      throw fail("failed", "command-output", `${name} wrote more output than kiki accepts`);
    }
    return {
      code: child.signalCode === null ? child.exitCode : null,
      signal: child.signalCode === null ? null : String(child.signalCode),
      stdout: files.stdout(cap),
      stderr: files.stderr(cap).toString("utf8"),
      timedOut: ending.timedOut,
      cut,
    };
  } finally {
    files.close();
  }
}

/**
 * Runs one short command and waits for it, blocking; for facts a synchronous port needs. stdout is "" when the
 * command is missing, fails or takes too long.
 */
export function runSync(request: Pick<RunRequest, "argv" | "cwd" | "env" | "timeoutMs">): {
  code: number | null;
  stdout: string;
} {
  try {
    const result = Bun.spawnSync([...request.argv], {
      cwd: request.cwd,
      env: request.env,
      stdin: "ignore",
      stdout: "pipe",
      stderr: "ignore",
      timeout: request.timeoutMs,
      killSignal: "SIGKILL",
    });
    return { code: result.exitCode, stdout: result.exitCode === 0 ? result.stdout.toString() : "" };
  } catch {
    return { code: null, stdout: "" };
  }
}

/** One command that answers on its standard output while it is being spoken to. */
export interface Conversation {
  /** One line to its standard input. */
  say: (line: string) => void;
  /** The next line of its standard output; null once there is none any more. */
  hear: () => Promise<string | null>;
}

/**
 * Speaks line by line with a command and ends its whole group when `talk` is over, or after `timeoutMs`: then `hear`
 * gives null. Through pipes, the one place where a command has to be answered while it runs. Errors as `run`.
 */
export async function converse<T>(
  request: Pick<RunRequest, "argv" | "cwd" | "env" | "timeoutMs" | "maxOutputBytes">,
  talk: (with_: Conversation) => Promise<T>,
): Promise<T> {
  const child = spawnIn(request, { stdin: "pipe", stdout: "pipe", stderr: "ignore" });
  const reader = child.stdout.getReader();
  const timer = setTimeout(() => {
    void endGroup(child.pid, child.exited);
    // A grandchild of another group may keep the pipe open.
    void reader.cancel().catch(() => undefined);
  }, request.timeoutMs);
  const decoder = new TextDecoder();
  const cap = request.maxOutputBytes ?? DEFAULT_MAX_OUTPUT_BYTES;
  let [text, bytes] = ["", 0];
  try {
    return await talk({
      say(line) {
        void child.stdin.write(`${line}\n`);
        void child.stdin.flush();
      },
      async hear() {
        for (;;) {
          const end = text.indexOf("\n");
          if (end >= 0) {
            const line = text.slice(0, end);
            text = text.slice(end + 1);
            return line;
          }
          const { value, done } = await reader.read();
          bytes += value?.length ?? 0;
          if (bytes > cap) {
            throw fail(
              "failed",
              "command-output",
              `${request.argv[0]} wrote more output than kiki accepts`,
            );
          }
          if (done) return null;
          text += decoder.decode(value, { stream: true });
        }
      },
    });
  } finally {
    clearTimeout(timer);
    await endGroup(child.pid, child.exited);
    await reader.cancel().catch(() => undefined);
  }
}

/** What a program asks its terminal at the start, and the answer: where the cursor is, and of what kind it is. */
const TERMINAL_ANSWERS: readonly [string, string][] = [
  ["\u001b[6n", "\u001b[1;1R"],
  ["\u001b[c", "\u001b[?1;2c"],
];
const TERMINAL_LOOK_MS = 20;
const SHOWN_CHARACTERS = 4_096;

/**
 * Runs one command in the foreground of a terminal of its own (xterm, 140 × 45) until `over` is true, and then ends its
 * whole group; what it draws is dropped but for its last bytes. Errors as `run`.
 */
export async function runOnTerminal(
  request: Pick<RunRequest, "argv" | "cwd" | "env" | "timeoutMs">,
  over: () => boolean,
): Promise<{ ended: "over" | "itself" | "timed-out"; code: number | null; shown: string }> {
  const decoder = new TextDecoder();
  let shown = "";
  const terminal: Bun.TerminalOptions = {
    cols: 140,
    rows: 45,
    data(own, data) {
      const text = decoder.decode(data, { stream: true });
      for (const [question, answer] of TERMINAL_ANSWERS)
        if (text.includes(question)) own.write(answer);
      shown = (shown + text).slice(-SHOWN_CHARACTERS);
    },
  };
  const env = { ...request.env, TERM: "xterm-256color" };
  const { argv, cwd } = request;
  const child = started(request, () =>
    Bun.spawn([...argv], { cwd, env, detached: true, terminal }),
  );
  const until = performance.now() + request.timeoutMs;
  let ended: "over" | "itself" | "timed-out" = "itself";
  const running = (): boolean => child.exitCode === null && child.signalCode === null;
  try {
    while (running()) {
      if (over()) ended = "over";
      else if (performance.now() > until) ended = "timed-out";
      if (ended !== "itself") break;
      await Promise.race([child.exited, Bun.sleep(TERMINAL_LOOK_MS)]);
    }
    const code = running() ? null : child.exitCode;
    return { ended, code, shown };
  } finally {
    await endGroup(child.pid, child.exited);
    child.terminal?.close();
  }
}

export interface DetachedCommand {
  pid: number;
  /** Resolves when the process has ended. Never rejects. */
  exited: Promise<void>;
}

/**
 * Starts a command that may outlive this process: own session and group, standard input empty, output appended to the
 * file `log` (0600, never through a symlink). No time-out and no cap: both are the caller's. Errors as `run`.
 */
export function startDetached(
  request: Pick<RunRequest, "argv" | "cwd" | "env"> & { log: string },
): DetachedCommand {
  const { O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW } = constants;
  const fd = openSync(request.log, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  try {
    const child = start(request, { stdinFd: null, stdoutFd: fd, stderrFd: fd });
    child.unref();
    return { pid: child.pid, exited: child.exited.then(() => undefined) };
  } finally {
    closeSync(fd);
  }
}

/** First line of a command's error output, for one-line messages. */
export function firstLine(text: string): string {
  return (
    text
      .split("\n")
      .find((line) => line.trim() !== "")
      ?.trim() ?? ""
  );
}

function start(
  request: Pick<RunRequest, "argv" | "cwd" | "env">,
  files: Pick<CommandFiles, "stdinFd" | "stdoutFd" | "stderrFd">,
) {
  return spawnIn(request, {
    stdin: files.stdinFd ?? "ignore",
    stdout: files.stdoutFd,
    stderr: files.stderrFd,
  });
}

function spawnIn<
  const In extends "pipe" | "ignore" | number,
  const Out extends "pipe" | number,
  const Err extends "ignore" | number,
>(
  request: Pick<RunRequest, "argv" | "cwd" | "env">,
  streams: { stdin: In; stdout: Out; stderr: Err },
): Bun.Subprocess<In, Out, Err> {
  const { argv, cwd, env } = request;
  // Own session and group: a time-out ends everything the command started, and nothing asks on a terminal.
  return started(request, () => Bun.spawn([...argv], { cwd, env, detached: true, ...streams }));
}

function started<T>(request: Pick<RunRequest, "argv" | "cwd">, spawn: () => T): T {
  try {
    return spawn();
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code !== "ENOENT" && code !== "EACCES" && code !== "ENOTDIR") throw error;
    if (!isFolder(request.cwd)) {
      throw fail(
        "failed",
        "command-cwd",
        `${request.argv[0]} cannot run in ${request.cwd}: no such folder`,
      );
    }
    throw fail(
      "failed",
      "command-missing",
      `${request.argv[0]} is not on PATH`,
      `install ${request.argv[0]}, or add its folder to PATH`,
    );
  }
}

/** SIGTERM to the group, SIGKILL after the grace; returns when nobody is left. The leader's pid is the group's id. */
async function endGroup(pid: number, exited: Promise<number>): Promise<void> {
  signalGroup(pid, "SIGTERM");
  const gone = exited.then(() => true);
  await Promise.race([gone, Bun.sleep(TERMINATE_GRACE_MS)]);
  // Also after the leader has gone: grandchildren may have ignored SIGTERM.
  const until = performance.now() + KILLED_MS;
  while (signalGroup(pid, "SIGKILL") && performance.now() < until) await Bun.sleep(KILLED_POLL_MS);
}

/** False when there is nobody in the group any more. */
function signalGroup(pid: number, signal: "SIGTERM" | "SIGKILL"): boolean {
  try {
    process.kill(-pid, osConstants.signals[signal]);
    return true;
  } catch {
    return false; // ESRCH: the group has ended by itself.
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function aborted(name: string): Error {
  return fail("failed", "command-aborted", `${name} was ended before it had finished`);
}
