/**
 * The inert process at the root of every pane kiki makes. tmux continues a stopped pane root and its process group at
 * once (measured, 3.3a), so what kiki may have to stop runs below this process, in a group of its own. The wrapper
 * itself is never stopped, holds nothing in the workspace and does nothing while its child runs.
 *
 * An agent's wrapper waits for the thread's launch gate, runs the harness, reports, and waits for the next gate; a
 * shell's wrapper ends with its shell. A killed wrapper takes its child along: it passes SIGHUP and SIGTERM on, and
 * the kernel sends SIGHUP to the foreground group when the leader of the terminal's session dies some other way.
 */
import { existsSync, readFileSync, writeSync } from "node:fs";
import { constants as os } from "node:os";
import { errorLine, fail, KikiError } from "../core/errors.ts";
import { threadPaths } from "../core/paths.ts";
import { makeClient, type Client } from "../rpc/client.ts";
import type { Input, Output } from "../rpc/contract/methods.ts";
import { findSocket } from "../rpc/find-socket.ts";
import { VERSION } from "../version.ts";
import { inertWrapper, type ChildExit, type PaneSystem } from "./pane-spawn.ts";

/** One held AwaitLaunchGate; a gate that opens answers at once. */
const GATE_WAIT_MS = 25_000;
/** On top of the held time, for an answer under load. */
const GATE_GRACE_MS = 10_000;
const REPORT_TIMEOUT_MS = 10_000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 3_000;
/** The daemon answered and refused: asking again at once would change nothing. */
const REFUSED_RETRY_MS = 2_000;
/** Some ten minutes: a report that will never be taken must not keep the pane from its next launch. */
const MAX_TROUBLES = 200;
/** Failures by which the daemon says what it has decided about this incarnation. */
const DECIDED: ReadonlySet<string> = new Set(["incarnation-retired", "gate-not-claimed"]);
/** What a shell says for a command it could not start. */
const EXIT_NOT_STARTED = 127;

/** Variables tmux gives its panes, which the recorded environment cannot have. */
const PANE_NAMES = ["TERM", "TMUX", "TMUX_PANE", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"];

type Launch = NonNullable<Output<"AwaitLaunchGate">["launch"]>;

export interface PaneDeps {
  system: PaneSystem;
  /** One line for the person looking at the pane. */
  print(line: string): void;
  /** Ends modes a dead full-screen program left the terminal in. */
  resetScreen(): void;
  sleep(ms: number): Promise<void>;
  /** False once the terminal is gone: the wrapper then has nothing left to be for. */
  terminalThere(): boolean;
  /** The pane's own variables, see `PANE_NAMES`. */
  paneEnv: Record<string, string>;
  /** Tells who must be ended with the wrapper; null when nobody. */
  foreground(pid: number | null): void;
}

export interface AgentPane {
  repoId: string;
  threadId: string;
  paneId: string;
  /** A client for one attempt: socket and credential are read anew, as a restart may have changed them. */
  connect(): Pick<Client, "call">;
}

/** Returns when the terminal is gone without a SIGHUP (the pane's root gets one), or when `again` says so, in tests. */
export async function runAgentPane(
  pane: AgentPane,
  deps: PaneDeps,
  again: () => boolean = () => true,
): Promise<void> {
  do {
    const launch = await awaitGate(pane, deps);
    if (launch === null) return;
    await runHarness(pane, launch, deps);
  } while (again());
}

/** Asks until a gate opens; survives every absence of the daemon. Says each new reason for waiting once. */
async function awaitGate(pane: AgentPane, deps: PaneDeps): Promise<Launch | null> {
  const { repoId, threadId, paneId } = pane;
  let said = "waiting for the launch gate…";
  deps.print(said);
  for (let failures = 0; deps.terminalThere();) {
    try {
      const input = { repoId, threadId, paneId, waitMs: GATE_WAIT_MS };
      const timeoutMs = GATE_WAIT_MS + GATE_GRACE_MS;
      const { launch } = await pane.connect().call("AwaitLaunchGate", input, { timeoutMs });
      failures = 0;
      if (launch !== null) return launch;
    } catch (error) {
      const away = isAway(error);
      const line = away ? "the daemon is away; waiting for it…" : `not yet: ${errorLine(error)}`;
      if (line !== said) deps.print(line);
      said = line;
      await deps.sleep(away ? backoff(failures) : REFUSED_RETRY_MS);
      failures += 1;
    }
  }
  return null;
}

async function runHarness(pane: AgentPane, launch: Launch, deps: PaneDeps): Promise<void> {
  const { repoId, threadId } = pane;
  const of = { repoId, threadId, incarnation: launch.incarnation };
  let pid: number;
  try {
    pid = deps.system.spawn({
      executable: launch.argv[0] ?? "",
      argv: launch.argv,
      env: { ...launch.env, ...deps.paneEnv },
      cwd: launch.cwd,
      dropTyped: true,
    });
  } catch (error) {
    deps.print(errorLine(error));
    await report(pane, deps, "ReportHarnessExited", {
      ...of,
      exitCode: EXIT_NOT_STARTED,
      signal: null,
    });
    return;
  }
  deps.foreground(pid);
  const startTime = deps.system.startTime(pid);
  // Both at once: the start is reported as soon as the daemon is there, the end is seen when it happens.
  let runs = true;
  const started = report(pane, deps, "ReportHarnessStarted", { ...of, pid, startTime }).then(
    (taken) => {
      // Its gate was closed while the launch was on its way here: it is nobody's, and keeps the pane from the next one.
      if (!taken && runs) deps.system.signalGroup(pid, os.signals.SIGKILL);
    },
  );
  const exit = await deps.system.ended(pid);
  runs = false;
  deps.foreground(null);
  deps.system.takeTerminal();
  if (exit.signal !== null) deps.resetScreen();
  deps.print(`agent ended (${describe(exit)}); the thread stays, its pane too`);
  await started;
  await report(pane, deps, "ReportHarnessExited", {
    ...of,
    exitCode: exit.code,
    signal: exit.signal,
  });
}

/**
 * Delivers one report, however long the daemon is away or cannot write (a full disk): an end nobody recorded would
 * leave the agent running for ever in everybody's eyes. A refusal is final. False: the daemon has decided otherwise.
 */
async function report<M extends "ReportHarnessStarted" | "ReportHarnessExited">(
  pane: AgentPane,
  deps: PaneDeps,
  method: M,
  input: Input<M>,
): Promise<boolean> {
  for (let failures = 0; ; failures += 1) {
    try {
      await pane.connect().call(method, input, { timeoutMs: REPORT_TIMEOUT_MS });
      return true;
    } catch (error) {
      const again = isAway(error) || (isTrouble(error) && failures < MAX_TROUBLES);
      if (!again || !deps.terminalThere()) return !isDecided(error);
      await deps.sleep(backoff(failures));
    }
  }
}

function isDecided(error: unknown): boolean {
  return error instanceof KikiError && DECIDED.has(error.code);
}

/** The daemon could not do it, which says nothing about whether it may be done. */
function isTrouble(error: unknown): boolean {
  return error instanceof KikiError && error.kind === "failed" && !isDecided(error);
}

/** Not answered at all, rather than refused. A credential that cannot be read counts as a refusal. */
function isAway(error: unknown): boolean {
  return error instanceof KikiError && error.kind === "daemonUnavailable";
}

function backoff(failures: number): number {
  return Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** failures);
}

function describe(exit: ChildExit): string {
  if (exit.code !== null) return `exit ${exit.code}`;
  if (exit.signal === null) return "exit status unknown";
  const name = Object.entries(os.signals).find(([, number]) => number === exit.signal)?.[0];
  return name ?? `signal ${exit.signal}`;
}

export interface ShellPane {
  cwd: string;
  shell: string;
  env: Record<string, string>;
}

/** Runs the shell once and returns what it exited with. A shell or folder that is gone is said and stood in for. */
export async function runShellPane(pane: ShellPane, deps: PaneDeps): Promise<number> {
  const env: Record<string, string> = { ...pane.env, SHELL: pane.shell, ...deps.paneEnv };
  const start = (shell: string, cwd: string): number =>
    deps.system.spawn({ executable: shell, argv: [shell], env, cwd, dropTyped: false });
  let pid: number;
  try {
    pid = start(pane.shell, pane.cwd);
  } catch (error) {
    deps.print(errorLine(error));
    const cwd = existsSync(pane.cwd) ? pane.cwd : (env["HOME"] ?? "/");
    pid = start(existsSync(pane.shell) ? pane.shell : "/bin/sh", cwd);
  }
  deps.foreground(pid);
  const exit = await deps.system.ended(pid);
  deps.foreground(null);
  deps.system.takeTerminal();
  return exit.code ?? 128 + (exit.signal ?? 0);
}

// The process ------------------------------------------------------------------------------------

/**
 * `kk __pane agent --repo R --thread T --state-dir D` and
 * `kk __pane shell --cwd W --shell S --env-file F [--state-dir D]`. Resolves with the exit code.
 */
export async function runPane(args: readonly string[]): Promise<number> {
  const [kind, ...rest] = args;
  const flags = parseFlags(rest);
  if (kind === "agent") {
    const paths = {
      repoId: flags("repo"),
      threadId: flags("thread"),
      stateDir: flags("state-dir"),
    };
    const paneId = process.env["TMUX_PANE"] ?? "";
    const connect = (): Pick<Client, "call"> => connectAs(paths);
    await runAgentPane({ ...paths, paneId, connect }, processDeps());
    return 0;
  }
  if (kind === "shell") {
    const env = readEnv(flags("env-file"));
    const stateDir = flags("state-dir", true);
    // So that `kk` typed in this shell finds the daemon this thread belongs to.
    if (stateDir !== "") env["KIKI_PATHS__USER_STATE_DIR"] = stateDir;
    return runShellPane({ cwd: flags("cwd"), shell: flags("shell"), env }, processDeps());
  }
  throw fail("usage", "usage", "kk __pane is kiki's own: agent or shell");
}

function parseFlags(args: readonly string[]): (name: string, optional?: boolean) => string {
  return (name, optional = false) => {
    const at = args.indexOf(`--${name}`);
    const value = at < 0 ? undefined : args[at + 1];
    if (value === undefined && !optional) {
      throw fail("usage", "usage", `kk __pane needs --${name}`);
    }
    return value ?? "";
  };
}

function connectAs(of: { repoId: string; threadId: string; stateDir: string }): Client {
  const file = threadPaths(of.stateDir, of.repoId, of.threadId).credential;
  const credential = readFileSync(file, "utf8").trim();
  const socket = findSocket(of.stateDir, process.env["XDG_RUNTIME_DIR"]);
  return makeClient({ socket, credential, clientVersion: VERSION });
}

/** `harness/<thread>/env.json`. Without it the shell still starts, with what the pane itself has. */
function readEnv(file: string): Record<string, string> {
  try {
    const values = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    return Object.fromEntries(
      Object.entries(values).filter(
        (entry): entry is [string, string] => typeof entry[1] === "string",
      ),
    );
  } catch {
    const { PATH = "/usr/local/bin:/usr/bin:/bin", HOME = "/" } = process.env;
    return { PATH, HOME };
  }
}

function processDeps(): PaneDeps {
  const system = inertWrapper();
  let child: number | null = null;
  for (const name of ["SIGHUP", "SIGTERM"] as const) {
    process.on(name, () => {
      if (child !== null) system.signalGroup(child, os.signals[name]);
      process.exit(128 + os.signals[name]);
    });
  }
  const paneEnv: Record<string, string> = {};
  for (const name of PANE_NAMES) {
    const value = process.env[name];
    if (value !== undefined) paneEnv[name] = value;
  }
  return {
    system,
    print: (line) => write(`kiki: ${line}\r\n`),
    resetScreen: () => write(RESET_SCREEN),
    sleep: (ms) => Bun.sleep(ms),
    terminalThere: () => system.terminalThere(),
    paneEnv,
    foreground: (pid) => {
      child = pid;
    },
  };
}

/**
 * Normal screen (1047 and not 1049, which would move the cursor to wherever it was when some program before last
 * drew there), last line, cursor shown, mouse, focus and paste reports off, keypad and key encodings back, no colour.
 */
const RESET_SCREEN =
  "\x1b[?1047l\x1b[999;1H\r\n\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l" +
  "\x1b[?2004l\x1b[?1l\x1b>\x1b[>4m\x1b[0m";

function write(text: string): void {
  try {
    writeSync(1, text);
  } catch {
    // The terminal is gone; SIGHUP is on its way, or `terminalThere` will tell.
  }
}
