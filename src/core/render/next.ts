/** What a person does next about a thread: one line of `kk status`, the most urgent thing only. */
import { shellWord, threadWord } from "../shell-line.ts";
import type { StatusThread } from "./status.ts";

/** Attention that ends in the agent's own pane. */
const ANSWERED_IN_PANE = new Set(["startup-dialog", "permission_prompt"]);
const PROMPT = '-m "<what to do>"';

/** null: nothing is needed, or it goes on by itself. */
export function nextStep(thread: StatusThread): string | null {
  const { summary, attention } = thread;
  const go = `kk switch ${threadWord(summary.name)}`;
  if (attention.some((item) => ANSWERED_IN_PANE.has(item.kind))) {
    return `${go}, and answer in the agent's pane`;
  }
  if (summary.lifecycle === "CreateFailed") {
    return `mend what it says, then kk repair ${threadWord(summary.name)}`;
  }
  if (summary.lifecycle !== "Active") return null;
  if (attention.some((item) => item.kind === "catalog-refused")) {
    return `look at what it says; with the setting, go on in a new thread: kk new ${PROMPT}`;
  }
  return blockedStep(thread) ?? (isWaiting(thread) ? `${go}, and ${FIRST_CALL}` : null);
}

const FIRST_CALL = "give the agent something to do: its next tool call brings its files up to date";

/** What this version cannot mend is gone on with in a new thread; nothing of the old one is touched by that. */
function blockedStep(thread: StatusThread): string | null {
  const { summary, workspaceName, intents, attention, issues } = thread;
  const anew = `kk new --no-follow --base ${shellWord(`${workspaceName}@`)} ${PROMPT}`;
  const repair = `kk repair ${threadWord(summary.name)}`;
  const stands = intents.some((intent) => intent.state === "RecoveryRequired");
  if (!stands && intents.some((intent) => intent.state === "TopologyDiverged")) {
    return `the agent may work on, on its old base; ${repair} shows the ways to the new one`;
  }
  if (summary.cascade === "conflicted") return repair;
  if (issues.some((item) => item.issue === "WorkspaceDirectoryMissing")) {
    return `put the folder back, or go on in a new thread: ${anew}`;
  }
  const crashed = attention.some((item) => item.kind === "agent-crashed");
  if (crashed || summary.agent === null || issues.length > 0) {
    return `kk cannot start its agent again yet; to go on in a new thread: ${anew}`;
  }
  return null;
}

/** A parent's move waits for a tool call, and this agent makes none unless it is asked to. */
function isWaiting({ intents, summary }: StatusThread): boolean {
  const calls = summary.agent !== "idle" && summary.agent !== "finished";
  return !calls && intents.some((intent) => intent.state === "Detected");
}
