/**
 * What every agent is told about the thread it works in, through its harness's documented channel. Part of the
 * settings fingerprint, so a changed text is a changed launch. No secrets, no prompts of other threads.
 */
import { KIKI_HEADER } from "./generic-deny.ts";

/** Raised with every change of the text below. */
export const BRIEFING_VERSION = 1;

export interface BriefingFacts {
  threadName: string;
  /** What the person asked this thread for; absent or null when it was started without a prompt. */
  goal?: string | null;
  /** Absolute path. */
  workspacePath: string;
  /** Name of the thread this one follows; null when it follows none. */
  followsName: string | null;
  /** The workspace is a git checkout as well. */
  colocated: boolean;
}

/** The person's request may be long; the agent gets it as its first message anyway. */
const MAX_GOAL_CHARACTERS = 600;

export function composeBriefing(facts: BriefingFacts): string {
  const { threadName, workspacePath, followsName, goal } = facts;
  const parts = [
    `# kiki (briefing ${BRIEFING_VERSION})`,
    `You work in the kiki thread "${oneLine(threadName)}", in the workspace ${workspacePath}.`,
  ];
  if (goal != null && goal.trim() !== "") parts.push(`Its goal: ${shorten(goal)}`);
  parts.push(
    followsName === null
      ? "It follows no other thread."
      : `It follows the thread "${oneLine(followsName)}": your revisions are built on that thread's, ` +
          "and when it moves, kiki brings your files up to date between your tool calls.",
    repositoryText(facts.colocated),
    `A tool result whose first line contains "${KIKI_HEADER}" is kiki speaking. Then no tool of that ` +
      "batch ran and files under you may have changed: re-read the files it names, then continue with your " +
      "work, repeating the calls you still need. It is not an error of yours and nothing to work around.",
    "Other threads' workspaces are not your business: neither read nor change them.",
  );
  return `${parts.join("\n\n")}\n`;
}

function repositoryText(colocated: boolean): string {
  const git = colocated
    ? "jj keeps a git checkout in the same folder, so git commands that only read work too."
    : "There is no git checkout here; use jj.";
  return (
    `The repository is a jj repository. ${git} Your edits belong to the current revision by themselves: ` +
    'there is nothing to stage. `jj st` and `jj diff` show them, `jj describe -m "…"` names the current ' +
    "revision, `jj new` starts the next one on top of it."
  );
}

function shorten(text: string): string {
  const flat = oneLine(text);
  const characters = Array.from(flat); // never half a surrogate pair
  if (characters.length <= MAX_GOAL_CHARACTERS) return flat;
  return `${characters.slice(0, MAX_GOAL_CHARACTERS).join("")}…`;
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
