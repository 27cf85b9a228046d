/** Who stands behind a process that shows a plan: a person's terminal, or something an agent has started. */
import type { ProcessIdentity, Processes } from "../ports/processes.ts";
import type { Terminals } from "../ports/terminals.ts";

export interface Presence {
  /** null: no controlling terminal, or no such process. */
  terminal: string | null;
  foreground: boolean;
  /** It, or what it was started by, is an agent's, or it sits on an agent's terminal; or nobody can tell. */
  agent: boolean;
  /** It does not let itself be looked at: nobody can tell. */
  unreadable: boolean;
}

export interface PresenceDeps {
  terminals: Terminals;
  processes: Pick<Processes, "parentOf" | "identify">;
  /** Harness processes of every incarnation that has not been retired. */
  agents(): ProcessIdentity[];
}

const NOBODY: Presence = { terminal: null, foreground: false, agent: false, unreadable: false };
/** A process table has no deeper lines of descent; one that seems to is not one. */
const MAX_ANCESTORS = 256;

/**
 * `pid` is what the client says of itself: a process of the same user can lie about it, which docs/authority.md says.
 * Agents are told by line of descent (pid and start time), by the mark in their environment, which what they start
 * inherits, and by their terminal, for what has lost both.
 */
export function presenceOf(deps: PresenceDeps, pid: number | undefined): Presence {
  const shown = pid === undefined ? null : deps.terminals.look(pid);
  if (pid === undefined || shown === null) return NOBODY;
  const agents = deps.agents();
  const terminals = agents.map((agent) => {
    const seen = deps.terminals.look(agent.pid);
    return seen?.startTime === agent.startTime ? seen.terminal : null;
  });
  return {
    terminal: shown.terminal,
    foreground: shown.foreground,
    unreadable: shown.agentMark === null,
    agent:
      // Its own environment must be readable; that of a root-owned ancestor never is.
      shown.agentMark !== false ||
      (shown.terminal !== null && terminals.includes(shown.terminal)) ||
      descends(deps, pid, agents),
  };
}

function descends(deps: PresenceDeps, pid: number, agents: readonly ProcessIdentity[]): boolean {
  const known = new Map(agents.map((agent) => [agent.pid, agent.startTime]));
  let at: number | null = pid;
  for (let depth = 0; depth < MAX_ANCESTORS && at !== null && at > 1; depth += 1) {
    const start = known.get(at);
    if (start !== undefined && deps.processes.identify(at)?.startTime === start) return true;
    if (deps.terminals.look(at)?.agentMark === true) return true;
    at = deps.processes.parentOf(at);
  }
  return false;
}
