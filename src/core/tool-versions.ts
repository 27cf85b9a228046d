/** The tools a person needs beside kiki, and the oldest version of each that was measured. */

export interface ToolRequirement {
  name: "jj" | "git" | "tmux";
  versionFlag: string;
  /** Dotted numbers. */
  minimum: string;
  /** What to do when it is missing or older. */
  fix: string;
}

/**
 * jj 0.46.0: first release with everything used here, and the one measured (`--no-integrate-operation`,
 * `--[no-]colocate`, …). git 2.42.0: jj 0.46 needs `worktree add --orphan` and `fetch --porcelain`. tmux 3.2: oldest
 * with `new-session -e` and pane options in the form used here.
 */
export const TOOLS: readonly ToolRequirement[] = [
  {
    name: "jj",
    versionFlag: "--version",
    minimum: "0.46.0",
    fix: "install jj 0.46.0 or newer: https://docs.jj-vcs.dev/latest/install-and-setup/",
  },
  {
    name: "git",
    versionFlag: "--version",
    minimum: "2.42.0",
    fix: "install git 2.42.0 or newer (jj needs it): https://git-scm.com/downloads",
  },
  {
    name: "tmux",
    versionFlag: "-V",
    minimum: "3.2",
    fix: "install tmux 3.2 or newer: https://github.com/tmux/tmux/wiki/Installing",
  },
];

export function requirement(name: ToolRequirement["name"]): ToolRequirement {
  return TOOLS.find((tool) => tool.name === name)!;
}

/** First dotted number in what a tool prints: `git version 2.39.5 (Apple Git-154)`, `tmux next-3.5`, `tmux 3.3a`. */
export function versionIn(output: string): string | null {
  return /\d+\.\d+(?:\.\d+)?/.exec(output)?.[0] ?? null;
}

/** Both dotted numbers; missing parts are 0. */
export function isAtLeast(version: string, minimum: string): boolean {
  const have = version.split(".").map(Number);
  const want = minimum.split(".").map(Number);
  for (let at = 0; at < want.length; at += 1) {
    const difference = (have[at] ?? 0) - (want[at] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}
