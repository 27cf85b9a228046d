/** Start-up dialogs of Claude Code (texts of 2.1.332) that wait for the person before any hook runs. */

const DIALOGS: readonly { pattern: RegExp; what: string }[] = [
  {
    pattern: /Quick safety check|trust this folder|Do you trust the files/,
    what: "Claude Code asks whether you trust the workspace folder",
  },
  {
    pattern: /Detected a custom API key/,
    what: "Claude Code asks whether to use the API key in the environment",
  },
  { pattern: /Select login method/, what: "Claude Code asks you to log in" },
  {
    pattern: /Choose the text style|Syntax theme|Let.s get started/,
    what: "Claude Code shows its first-run set-up",
  },
  {
    pattern: /running in Bypass Permissions mode.*No, exit/,
    what: "Claude Code asks you to accept running without permission checks",
  },
  {
    pattern: /New MCP servers? found/,
    what: "Claude Code asks whether to use the project's MCP servers",
  },
  {
    pattern: /Settings Error/,
    what: "Claude Code found an error in the settings",
  },
  {
    pattern: /Allow external CLAUDE\.md file imports/,
    what: "Claude Code asks whether CLAUDE.md may import files from outside",
  },
];

/** What the pane waits for, for an attention event; null when it shows no such dialog. */
export function claudeStartupDialog(paneText: string): string | null {
  // Panes wrap and frame: a sentence may stand on several lines between box characters.
  const flat = paneText.replace(/[\s\u2500-\u257f]+/g, " ");
  return DIALOGS.find(({ pattern }) => pattern.test(flat))?.what ?? null;
}
