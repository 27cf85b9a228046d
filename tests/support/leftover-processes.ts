/** Processes that work in a folder, found as the kernel shows them (Linux). */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Pids of processes of this program name whose working folder is `folder` or lies below it. */
export function processesOfFolder(folder: string, program: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => {
      if (!Number.isInteger(pid)) return false;
      try {
        const cwd = readlinkSync(`/proc/${pid}/cwd`);
        const inside = cwd === folder || cwd.startsWith(`${folder}/`);
        return inside && readFileSync(`/proc/${pid}/comm`, "utf8").trim() === program;
      } catch {
        return false; // ended meanwhile
      }
    });
}
