/** The implementation for the machine kiki runs on. */
import type { Processes } from "../../ports/processes.ts";
import { darwinProcesses } from "./darwin.ts";
import { linuxProcesses } from "./linux.ts";

export function processesFor(platform: string = process.platform): Processes {
  return platform === "linux" ? linuxProcesses : darwinProcesses;
}
