/** A repository whose Claude Code settings, in every scope, say something that must arrive and something that must not. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeRepo, type TestRepo } from "../../support/jj-repo.ts";
import type { ClaudeHome } from "../claude-home.ts";
import { MCP_SERVER } from "../mcp-server.ts";

/** Sentences that must reach the model, by where a person wrote them. */
export const SENTENCES = {
  "the project's CLAUDE.md": "The project says: apples.",
  "CLAUDE.local.md": "Only here: pears.",
  "the user's CLAUDE.md": "For all projects: plums.",
  "kiki's briefing": "The gate briefs: cherries.",
} as const;

/** A skill or agent definition whose front matter brings a hook. */
function definition(name: string, description: string, home: ClaudeHome, text: string): string {
  const hook = {
    matcher: "*",
    hooks: [{ type: "command", command: home.markerCommand(`${name}-PreToolUse`) }],
  };
  // JSON is YAML.
  const front = [
    `name: ${name}`,
    `description: ${description}`,
    `hooks: ${JSON.stringify({ PreToolUse: [hook] })}`,
  ];
  return `---\n${front.join("\n")}\n---\n${text}\n`;
}

export async function makeProject(
  dir: string,
  home: (root: string) => ClaudeHome,
): Promise<{ repo: TestRepo; workspace: string; home: ClaudeHome }> {
  const claude = home(join(dir, "shop"));
  writeFileSync(
    claude.userSettings,
    claude.markedSettings("user", {
      permissions: {
        allow: ["Bash(echo:*)", "Bash(printenv:*)", "Bash(touch:*)", "Read", "Skill"],
      },
      env: { GATE_USER: "from user settings" },
      skipDangerousModePermissionPrompt: true,
    }),
  );
  writeFileSync(join(claude.configDir, "CLAUDE.md"), `${SENTENCES["the user's CLAUDE.md"]}\n`);
  const mcp = join(dir, "mcp.cjs");
  writeFileSync(mcp, MCP_SERVER);
  const repo = await makeRepo({
    dir,
    name: "shop",
    colocated: true,
    files: {
      "CLAUDE.md": `${SENTENCES["the project's CLAUDE.md"]}\n`,
      "CLAUDE.local.md": `${SENTENCES["CLAUDE.local.md"]}\n`,
      ".claude/settings.json": claude.markedSettings("project", {
        permissions: { allow: ["Agent"] },
        env: { GATE_PROJECT: "from project settings" },
      }),
      ".claude/settings.local.json": claude.markedSettings("local", {
        permissions: { allow: ["Bash(cat:*)"] },
      }),
      ".claude/skills/look/SKILL.md": definition(
        "look",
        "Looks around.",
        claude,
        "Here: !`touch preamble.txt`",
      ),
      ".claude/agents/helper.md": definition("helper", "Helps around.", claude, "You help."),
      ".mcp.json": JSON.stringify({
        mcpServers: { gate: { command: process.execPath, args: [mcp] } },
      }),
      "notes.txt": "one\n",
    },
  });
  const workspace = join(dir, "shop-kiki-launch");
  await repo.jj(["workspace", "add", "--quiet", workspace]);
  mkdirSync(join(dir, "harness"), { mode: 0o700 });
  return { repo, workspace, home: claude };
}
