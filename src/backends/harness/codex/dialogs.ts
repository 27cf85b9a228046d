/** What Codex's pane shows at the start (texts of 0.171.0): dialogs that wait for the person, and the composer. */

const DIALOGS: readonly { pattern: RegExp; what: string }[] = [
  {
    pattern: /Folder access|Trust this folder\?/,
    what: "Codex asks whether you trust the workspace folder",
  },
  {
    pattern: /Choose how you want to use Codex|Sign in with ChatGPT|Sign in another way/,
    what: "Codex asks you to log in",
  },
  { pattern: /Hooks? needs? review/, what: "Codex asks whether other hooks may run" },
  {
    pattern: /Try new model|Use existing model/,
    what: "Codex offers another model",
  },
  { pattern: /Update available!.*Skip/, what: "Codex offers an update" },
];

function flat(paneText: string): string {
  // Panes wrap and frame: a sentence may stand on several lines between box characters.
  return paneText.replace(/[\s\u2500-\u257f]+/g, " ");
}

/** What the pane waits for, for an attention event; null when it shows no such dialog. */
export function codexStartupDialog(paneText: string): string | null {
  const text = flat(paneText);
  return DIALOGS.find(({ pattern }) => pattern.test(text))?.what ?? null;
}

/** The composer and the status line below it; above, the same mark stands before what the person has said. */
const COMPOSER_LINES = 6;

/**
 * Whether the pane takes a prompt: near its end a line begins with the composer's mark, and no dialog waits. Codex draws
 * its composer a second before a dialog may still come; by then the line below it says more than how to get help.
 */
export function codexComposer(paneText: string): boolean {
  if (codexStartupDialog(paneText) !== null) return false;
  const lines = paneText.split("\n").filter((line) => line.trim() !== "");
  const end = lines.slice(-COMPOSER_LINES);
  // A menu marks its choice the same way, and numbers it.
  const at = end.findLastIndex((line) => /^\s*›(?!\s*\d+\.)/.test(line));
  return at >= 0 && end.slice(at + 1).some((line) => line.trim() !== "? for shortcuts");
}
