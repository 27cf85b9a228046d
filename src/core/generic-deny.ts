/**
 * The refusal kiki gives when it must block a call and has no payload to show for it: hook, launcher, adapter and
 * daemon print the same words, so that a receipt can tell them from a tool's real result.
 */

/** Every text kiki addresses to a model begins with this. */
export const KIKI_HEADER = "[kiki]";

/** Plain text for a model; no white space at either end, like every payload. */
export const GENERIC_DENY_REASON =
  `${KIKI_HEADER} This call did not run and nothing was changed by it. ` +
  "The files of this workspace are being brought up to date with the thread it follows, " +
  "or kiki cannot be reached to say that they are not. " +
  "Wait a moment, re-read the files you are working on, then make the same call again.";

/**
 * The verdict both harnesses take as a refusal, with `reason` for the model (Claude Code 2.1.332 and Codex 0.171.0;
 * Codex accepts no field beyond these). One line: what is not whole JSON would count as text, and the tool would run.
 * Claude Code's commands in skills have an event of their own, with the same verdict.
 */
export function denyVerdict(
  reason: string,
  event: "PreToolUse" | "PreSkillShellCommand" = "PreToolUse",
): string {
  return JSON.stringify({
    hookSpecificOutput: {
      hookEventName: event,
      permissionDecision: "deny",
      permissionDecisionReason: reason,
    },
  });
}

/** What a whole verdict begins and ends with; the launcher checks both before it hands stdout on. */
export const DENY_VERDICT_START = '{"hookSpecificOutput":';
export const DENY_VERDICT_END = "}}";

export function genericDenyOutput(): string {
  return denyVerdict(GENERIC_DENY_REASON);
}

/** A refusal with a reason of its own, for example an unidentified hook. `message` is one line for a person. */
export function refusalReason(message: string): string {
  return `${KIKI_HEADER} This call did not run and nothing was changed by it: ${message.trim()}`;
}
