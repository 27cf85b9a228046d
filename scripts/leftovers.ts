/** Finding the processes of one test run by the folder that run was given. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

export interface Leftover {
  what: string;
  pid?: number;
}

/** The value, or "" when the process is gone or not ours to look at. */
function peek(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

/** Processes whose command line, environment or working directory lies in `folder`. */
export function processesMentioning(folder: string): Leftover[] {
  return process.platform === "linux" ? fromProc(folder) : fromPs(folder);
}

function fromProc(folder: string): Leftover[] {
  const found: Leftover[] = [];
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const command = peek(() => readFileSync(`/proc/${pid}/cmdline`, "utf8"));
    const environment = peek(() => readFileSync(`/proc/${pid}/environ`, "utf8"));
    const cwd = peek(() => readlinkSync(`/proc/${pid}/cwd`));
    // A zombie has none of the three: it has ended and waits for its parent.
    if (![command, environment, `${cwd}/`].some((text) => text.includes(folder))) continue;
    const words = command.split("\0").filter(Boolean).join(" ");
    found.push({ what: `process ${pid}: ${words.slice(0, 160)}`, pid });
  }
  return found;
}

/** Without /proc only the command line can be seen, which is where socket paths are. */
function fromPs(folder: string): Leftover[] {
  const listing = Bun.spawnSync(["ps", "-axo", "pid=,command="]).stdout.toString();
  return listing
    .split("\n")
    .filter((line) => line.includes(folder))
    .map((line) => ({ what: `process ${line.trim().slice(0, 160)}`, pid: Number.parseInt(line) }))
    .filter(({ pid }) => pid !== process.pid);
}

/** Ends what was found, so that one forgetful test does not burden the machine or the next run. */
export function endProcesses(leftovers: Leftover[]): void {
  for (const { pid } of leftovers) {
    if (pid === undefined) continue;
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It ended by itself in the meantime.
    }
  }
}
