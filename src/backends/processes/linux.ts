/** Processes as Linux shows them in /proc. A process that ends while it is looked at is simply not there. */
import { readdirSync, readFileSync } from "node:fs";
import type { ProcessIdentity, Processes } from "../../ports/processes.ts";

export const linuxProcesses: Processes = {
  identify(pid) {
    const stat = statOf(pid);
    return stat === null ? null : { pid, startTime: stat.startTime };
  },
  parentOf(pid) {
    return statOf(pid)?.parent ?? null;
  },
  withArgument(text) {
    const found: ProcessIdentity[] = [];
    for (const name of readdirSync("/proc")) {
      const pid = Number(name);
      if (!Number.isInteger(pid) || pid === process.pid) continue;
      const command = readOr(`/proc/${pid}/cmdline`);
      if (command === null || !command.includes(text)) continue;
      const identity = this.identify(pid);
      if (identity !== null) found.push(identity);
    }
    return found;
  },
};

interface Stat {
  parent: number;
  startTime: string;
}

/**
 * null when there is no such process, or it has ended and only waits to be collected. The second field is the
 * program's name in parentheses and may hold anything, spaces and parentheses included, so counting starts after
 * the last one.
 */
function statOf(pid: number): Stat | null {
  if (!Number.isInteger(pid) || pid <= 0) return null;
  const text = readOr(`/proc/${pid}/stat`);
  if (text === null) return null;
  const rest = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, parent] = rest;
  const startTime = rest[19]; // field 22
  if (parent === undefined || startTime === undefined || state === "Z" || state === "X")
    return null;
  return { parent: Number(parent), startTime };
}

function readOr(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}
