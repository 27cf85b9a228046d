/** Whether a process still runs. */
import { readFileSync } from "node:fs";

/** False for a zombie too: it holds no lock and no socket, and where process 1 reaps nobody it stays for ever. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as { code?: string }).code === "EPERM";
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat[stat.lastIndexOf(")") + 2] !== "Z";
  } catch {
    return true; // no /proc here; or it ended just now, which the next look will tell
  }
}
