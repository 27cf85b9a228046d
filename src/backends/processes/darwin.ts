/**
 * Processes as `ps` shows them, for systems without /proc. The start time has a resolution of one second there,
 * which with the pid still tells a reused pid: pids are not reused within a second.
 *
 * What `ps` cannot show is said to be unknown: environments, sessions, single threads, descriptors. So a sample is
 * never complete, nothing is ever proved to be still, and a folder is never proved to be free.
 */
import { userInfo } from "node:os";
import type { ProcessFacts } from "../../core/process-tree.ts";
import type { OnTerminal } from "../../ports/terminals.ts";
import type { ProcessIdentity, Processes } from "../../ports/processes.ts";
import { runSync } from "../exec.ts";

const PS_TIMEOUT_MS = 5_000;

export const darwinProcesses: Processes = {
  identify(pid) {
    return rows(["-p", String(pid)])[0]?.identity ?? null;
  },
  parentOf(pid) {
    return rows(["-p", String(pid)])[0]?.parent ?? null;
  },
  withArgument(text) {
    return rows(["-A"])
      .filter((row) => row.command.includes(text) && row.identity.pid !== process.pid)
      .map((row) => row.identity);
  },
  sample() {
    const me = userInfo().uid;
    const processes = lines(["-A"], "pid=,ppid=,pgid=,uid=,stat=,lstart=,comm=").flatMap(
      (line) => parseFacts(line, me) ?? [],
    );
    return { processes, complete: false };
  },
  // Arguments come joined by blanks: which of them is one argument cannot be told.
  argvOf: () => null,
  observe(target) {
    const [state = ""] = lines(["-p", String(target.pid)], "stat=");
    if (!isStill(target)) return { state: "gone", tracer: null };
    return { state: state.trim().startsWith("T") ? "stopped" : "running", tracer: null };
  },
  /** There is no handle on a process here: between the look and the signal its number could change hands. */
  signal(target, signal) {
    if (!isStill(target)) return "gone";
    try {
      process.kill(target.pid, signal);
      return "sent";
    } catch (error) {
      return (error as { code?: string }).code === "ESRCH" ? "gone" : "refused";
    }
  },
  openLocks: () => null,
  holders: () => Promise.resolve({ holders: [], unreadable: [], complete: false }),
};

/** `ps` shows no environment: whether it is an agent's is then known by its ancestors alone. */
export function darwinTerminal(pid: number): OnTerminal | null {
  const [line = ""] = lines(["-p", String(pid)], "uid=,pgid=,tpgid=,tty=,lstart=");
  const match = TERMINAL.exec(line);
  if (match === null || Number(match[1]) !== userInfo().uid) return null;
  const [, , pgid, terminalGroup, tty = "", start = ""] = match;
  const none = /^\?+$/.test(tty);
  return {
    startTime: start.replace(/\s+/g, " "),
    terminal: none ? null : `tty ${tty}`,
    foreground: !none && pgid === terminalGroup,
    agentMark: false,
  };
}

function isStill(target: ProcessIdentity): boolean {
  return darwinProcesses.identify(target.pid)?.startTime === target.startTime;
}

interface Row {
  identity: ProcessIdentity;
  parent: number;
  command: string;
}

function rows(selection: readonly string[]): Row[] {
  return lines(selection, "pid=,ppid=,stat=,lstart=,command=").flatMap(
    (line) => parsePsLine(line) ?? [],
  );
}

function lines(selection: readonly string[], columns: string): string[] {
  const { stdout } = runSync({
    argv: ["ps", "-ww", ...selection, "-o", columns],
    cwd: "/",
    // lstart is written in the locale's language.
    env: { PATH: "/bin:/usr/bin", LC_ALL: "C" },
    timeoutMs: PS_TIMEOUT_MS,
  });
  return stdout.split("\n");
}

/** As `lstart` prints it: `Www Mmm dd hh:mm:ss yyyy`. */
const START = String.raw`(\w{3}\s+\w{3}\s+\d+\s+[\d:]{8}\s+\d{4})`;
const ROW = new RegExp(String.raw`^\s*(\d+)\s+(\d+)\s+(\S+)\s+${START}\s?(.*)$`);
const TERMINAL = new RegExp(String.raw`^\s*(\d+)\s+(\d+)\s+(-?\d+)\s+(\S+)\s+${START}`);
const FACTS = new RegExp(String.raw`^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+${START}\s?(.*)$`);

/** `pid ppid stat lstart command…`; null for an empty line or a process that has ended. */
export function parsePsLine(line: string): Row | null {
  const match = ROW.exec(line);
  if (match === null || match[3]!.startsWith("Z")) return null;
  return {
    identity: { pid: Number(match[1]), startTime: match[4]!.replace(/\s+/g, " ") },
    parent: Number(match[2]),
    command: match[5]!,
  };
}

/** `pid ppid pgid uid stat lstart comm`. The session is not shown. */
function parseFacts(line: string, me: number): ProcessFacts | null {
  const match = FACTS.exec(line);
  if (match === null || match[5]!.startsWith("Z")) return null;
  const mine = Number(match[4]) === me;
  return {
    pid: Number(match[1]),
    startTime: match[6]!.replace(/\s+/g, " "),
    parent: Number(match[2]),
    pgid: Number(match[3]),
    session: 0,
    mine,
    name: match[7]!.slice(match[7]!.lastIndexOf("/") + 1).slice(0, 15),
    marked: mine ? "unreadable" : "no",
  };
}
