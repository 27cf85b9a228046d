/**
 * Processes as `ps` shows them, for systems without /proc. The start time has a resolution of one second there,
 * which with the pid still tells a reused pid: pids are not reused within a second.
 */
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
};

interface Row {
  identity: ProcessIdentity;
  parent: number;
  command: string;
}

function rows(selection: readonly string[]): Row[] {
  const { stdout } = runSync({
    argv: ["ps", "-ww", ...selection, "-o", "pid=,ppid=,stat=,lstart=,command="],
    cwd: "/",
    // lstart is written in the locale's language.
    env: { PATH: "/bin:/usr/bin", LC_ALL: "C" },
    timeoutMs: PS_TIMEOUT_MS,
  });
  return stdout.split("\n").flatMap((line) => parsePsLine(line) ?? []);
}

/** `pid ppid stat Www Mmm dd hh:mm:ss yyyy command…`; null for an empty line or a process that has ended. */
export function parsePsLine(line: string): Row | null {
  const match = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\w{3}\s+\w{3}\s+\d+\s+[\d:]{8}\s+\d{4})\s?(.*)$/.exec(
    line,
  );
  if (match === null || match[3]!.startsWith("Z")) return null;
  return {
    identity: { pid: Number(match[1]), startTime: match[4]!.replace(/\s+/g, " ") },
    parent: Number(match[2]),
    command: match[5]!,
  };
}
