/**
 * What an agent is told about the thread it works in (harness chapter, "Briefing"). Versioned: it is part of the
 * settings fingerprint, and a changed text is a changed incarnation. No secrets, no prompts of other threads.
 */
import { KIKI_HEADER } from "./generic-deny.ts";

export const BRIEFING_VERSION = 1;

export interface BriefingFacts {
  threadName: string;
  workspacePath: string;
  /** Name of the thread this one follows. */
  followsName: string | null;
  colocated: boolean;
}

export function composeBriefing(f: BriefingFacts): string {
  const follows =
    f.followsName === null
      ? "It follows no other thread."
      : `It follows the thread "${f.followsName}": when that one's work changes, your files are brought up to date and you are told.`;
  const repository = f.colocated
    ? "The repository is a jj repository that shares its store with git; both commands work here."
    : "The repository is a jj repository without a git checkout: use jj, not git.";
  return [
    `[kiki briefing ${BRIEFING_VERSION}]`,
    `You work in the thread "${f.threadName}", in its own workspace ${f.workspacePath}. ${follows}`,
    "",
    repository,
    "There is no staging: what is in the files is in the current change.",
    "- `jj st` shows the current change, `jj log` where it stands.",
    '- `jj describe -m "…"` names the current change; `jj new` starts the next one on top of it.',
    "",
    `When a tool result begins with "${KIKI_HEADER}", no tool of that batch ran. Files under you may have changed: re-read what you rely on, repeat what is still needed, and continue.`,
    "",
    "Other threads have their own workspaces next to this one. Do not read or change them.",
  ].join("\n");
}
