/** Terminals of processes: /proc on Linux, `ps` elsewhere. */
import { statSync } from "node:fs";
import { userInfo } from "node:os";
import type { OnTerminal, Terminals } from "../../ports/terminals.ts";
import { darwinTerminal } from "./darwin.ts";
import { DENIED, hasVariable, liveStat } from "./proc-fs.ts";

/** What kiki gives every agent, and an agent's processes inherit. */
const AGENT_VARIABLE = "KIKI_INCARNATION";

export function terminalsFor(platform: string = process.platform): Terminals {
  return platform === "linux" ? { look: lookInProc } : { look: darwinTerminal };
}

function lookInProc(pid: number): OnTerminal | null {
  const stat = liveStat(pid);
  if (stat === null || !isMine(pid)) return null;
  const mark = hasVariable(`/proc/${pid}/environ`, AGENT_VARIABLE);
  return {
    startTime: stat.startTime,
    terminal: stat.tty === 0 ? null : terminalOf(stat.tty, stat.session),
    foreground: stat.tty !== 0 && stat.terminalGroup === stat.pgid,
    // An empty environment is one, too: `env -i`.
    agentMark: mark === DENIED || mark === null ? null : mark,
  };
}

/** A terminal's number is given again once it is closed; the session's leader, with its start time, is not. */
function terminalOf(tty: number, session: number): string {
  return `tty ${tty} session ${session}@${liveStat(session)?.startTime ?? "ended"}`;
}

function isMine(pid: number): boolean {
  try {
    return statSync(`/proc/${pid}`).uid === userInfo().uid;
  } catch {
    return false; // ended meanwhile
  }
}
