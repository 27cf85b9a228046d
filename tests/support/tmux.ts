/**
 * A real tmux server of the test's own: socket in the test's temp dir, no configuration of anybody's, killed by its
 * socket. `runInPane` gives a command a real terminal to be typed at.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isAlive } from "../../src/cmd/alive.ts";
import { waitFor } from "./wait.ts";

export interface TmuxResult {
  code: number;
  out: string;
  err: string;
}

export interface TestTmux {
  readonly socket: string;
  /** Runs one tmux command; never throws on a non-zero exit. Starts the server when the command does. */
  run(...args: string[]): TmuxResult;
  /** Like `run`, but throws with tmux's message; returns stdout without the last newline. */
  ok(...args: string[]): string;
  /** Ends the server and waits until its process is gone. Safe when it never ran. */
  kill(): Promise<void>;
}

/** Environment of test servers and clients: nothing of the developer's, above all no TMUX. */
function serverEnv(): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "/usr/bin:/bin",
    HOME: "/nonexistent",
    LC_ALL: "C.UTF-8",
    TERM: "xterm-256color",
    SHELL: "/bin/sh",
  };
}

export function tmuxOn(socket: string): TestTmux {
  const run = (...args: string[]): TmuxResult => {
    const result = Bun.spawnSync(["tmux", "-S", socket, "-f", "/dev/null", ...args], {
      env: serverEnv(),
      cwd: "/",
      stdin: "ignore",
      timeout: 10_000,
    });
    return {
      code: result.exitCode,
      out: result.stdout.toString().replace(/\n$/, ""),
      err: result.stderr.toString().trim(),
    };
  };
  return {
    socket,
    run,
    ok(...args) {
      const result = run(...args);
      if (result.code !== 0) throw new Error(`tmux ${args.join(" ")}: ${result.err}`);
      return result.out;
    },
    async kill() {
      const pid = Number(run("display-message", "-p", "#{pid}").out);
      run("kill-server");
      if (pid > 0) await waitFor(() => !isAlive(pid), 5000, `tmux server ${pid} on ${socket} gone`);
    },
  };
}

export interface PaneRun {
  readonly tmux: TestTmux;
  readonly paneId: string;
  readonly sessionId: string;
  /** Types text as it is; end a line with `enter()`. */
  type(text: string): void;
  /** tmux key names: "Enter", "C-c", "Escape", "Down", "y". */
  send(...keys: string[]): void;
  enter(): void;
  /** What is on the screen now, without escape sequences and trailing blanks. */
  screen(): string;
  /** Screen with everything that has scrolled away above it. */
  history(): string;
  /** Resolves with the screen (and history) once it matches. Default deadline 10 s. */
  waitForText(pattern: RegExp, ms?: number): Promise<string>;
  /** Exit status of the command as a shell reports it (signal n → 128+n). Default deadline 20 s. */
  exitCode(ms?: number): Promise<number>;
}

let runs = 0;

/** Writes the script that runs the command in exactly its environment and leaves its exit status in a file. */
function writeScript(input: Parameters<typeof runInPane>[0]): { file: string; status: string } {
  runs += 1;
  const base = join(dirname(input.socket), `.pane-${process.pid}-${runs}`);
  const status = `${base}.status`;
  const names = input.outside ? ["TERM"] : ["TERM", "TMUX", "TMUX_PANE"];
  const words = [
    ...Object.entries(input.env)
      .filter(([name]) => !names.includes(name))
      .map(([name, value]) => quote(`${name}=${value}`)),
    ...names.map((name) => `"${name}=$${name}"`),
    ...input.command.map(quote),
  ];
  const lines = [
    `cd ${quote(input.cwd)} || exit 125`,
    // The shell must outlive a Ctrl-C or Ctrl-\ meant for the command; `:` (not '') leaves the child's default.
    "trap : INT QUIT",
    `env -i ${words.join(" ")}`,
    `echo $? > ${quote(`${status}.new`)} && mv ${quote(`${status}.new`)} ${quote(status)}`,
    // Holds the last screen until the server ends; tmux's remain-on-exit would write a line of its own over it.
    "stty -echo; exec cat >/dev/null",
  ];
  writeFileSync(`${base}.sh`, lines.join("\n"), { mode: 0o600 });
  return { file: `${base}.sh`, status };
}

/**
 * Runs `command` (argv) in a new detached session of the test's server. Its environment is exactly `env` plus TERM
 * and, unless `outside` is set, TMUX and TMUX_PANE, as a program started by hand inside tmux has them. The pane stays
 * after the command's end, so that its last screen can be read. The caller kills the server.
 */
export function runInPane(input: {
  socket: string;
  env: Record<string, string>;
  cwd: string;
  command: readonly string[];
  columns?: number;
  rows?: number;
  /** Hides TMUX and TMUX_PANE from the command: a person's terminal outside tmux. */
  outside?: boolean;
  /** The command is the pane's root process itself, and the pane ends with it: no exit code, no last screen. */
  asRoot?: boolean;
}): PaneRun {
  const tmux = tmuxOn(input.socket);
  const size = ["-x", String(input.columns ?? 200), "-y", String(input.rows ?? 40)];
  const start = ["new-session", "-d", "-P", "-F", "#{session_id} #{pane_id}", ...size];
  const script = input.asRoot ? null : writeScript(input);
  const program = script === null ? ["/usr/bin/env", ...input.command] : ["/bin/sh", script.file];
  const set = script === null ? Object.entries(input.env).map(([n, v]) => `-e${n}=${v}`) : [];
  const [sessionId = "", paneId = ""] = tmux
    .ok(...start, "-c", input.cwd, ...set, "--", ...program)
    .split(" ");
  const capture = (...extra: string[]): string => {
    const { code, out, err } = tmux.run("capture-pane", "-p", "-t", paneId, ...extra);
    // Part of every failure's message: a pane that has ended is not a pane with nothing on it.
    return code === 0 ? out.replace(/[ \t]+$/gm, "").trimEnd() : `[no screen: ${err}]`;
  };
  return {
    tmux,
    paneId,
    sessionId,
    type: (text) => void tmux.ok("send-keys", "-t", paneId, "-l", "--", text),
    send: (...keys) => void tmux.ok("send-keys", "-t", paneId, "--", ...keys),
    enter: () => void tmux.ok("send-keys", "-t", paneId, "Enter"),
    screen: () => capture(),
    history: () => capture("-S", "-"),
    waitForText: (pattern, ms = 10_000) =>
      waitFor(
        () => {
          const text = capture("-S", "-");
          return pattern.test(text) ? text : undefined;
        },
        ms,
        () => `${pattern} on the screen:\n${capture("-S", "-")}`,
      ),
    exitCode: (ms = 20_000) =>
      waitFor(
        // A digit string, so that status 0 does not read as "not yet".
        () => (script && existsSync(script.status) ? readFileSync(script.status, "utf8") : null),
        ms,
        () => `the command's end; screen:\n${capture()}`,
      ).then(Number),
  };
}

/** One word of POSIX shell. */
function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
