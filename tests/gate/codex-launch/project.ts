/**
 * A person's home and a repository that both say something about Codex: settings, hooks for every event, instructions, a
 * plugin, a login. What has to reach the model must, and not one of the hooks may ever run.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EVENT_LABELS } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import { makeRepo, type TestRepo } from "../../support/jj-repo.ts";

/** Sentences that must reach the model, by where somebody wrote them. */
export const SENTENCES = {
  "the project's AGENTS.md": "The project says: apples.",
  "kiki's briefing": 'The gate briefs: "cherries"\nand $HOME \\ plums.',
} as const;
export const FORBIDDEN_SENTENCE = "From the person's own home: quinces.";

export interface Project {
  repo: TestRepo;
  workspace: string;
  /** The person's home folder; `.codex` in it is theirs. */
  home: string;
  /** Names of the hooks that have run, as `<scope>-<event>`. */
  markers(): string[];
}

export async function makeProject(dir: string): Promise<Project> {
  const markerDir = join(dir, "markers");
  const home = join(dir, "home");
  const mark = (name: string): string => `: >'${join(markerDir, name)}'`;
  const hooks = (scope: string): string => {
    const table: Record<string, unknown> = {};
    for (const event of Object.keys(EVENT_LABELS)) {
      table[event] = [{ hooks: [{ type: "command", command: mark(`${scope}-${event}`) }] }];
    }
    return `${JSON.stringify({ hooks: table }, null, 2)}\n`;
  };
  mkdirSync(markerDir, { recursive: true });
  const own = join(home, ".codex");
  const plugin = join(own, "plugins/cache/gate/decoy/1.0.0");
  mkdirSync(join(plugin, "hooks"), { recursive: true });
  mkdirSync(join(plugin, ".codex-plugin"), { recursive: true });
  writeFileSync(join(own, "config.toml"), 'model = "from-the-home"\n[features]\nhooks = true\n');
  writeFileSync(join(own, "hooks.json"), hooks("user"));
  writeFileSync(join(own, "AGENTS.md"), `${FORBIDDEN_SENTENCE}\n`);
  writeFileSync(join(own, "auth.json"), '{"OPENAI_API_KEY":"sk-gate-no-real-key"}\n', {
    mode: 0o600,
  });
  writeFileSync(join(plugin, "hooks/hooks.json"), hooks("plugin"));
  writeFileSync(join(plugin, ".codex-plugin/plugin.json"), '{"name":"decoy","version":"1.0.0"}\n');
  const repo = await makeRepo({
    dir,
    name: "shop",
    colocated: true,
    files: {
      "AGENTS.md": `${SENTENCES["the project's AGENTS.md"]}\n`,
      ".codex/hooks.json": hooks("project"),
      // Everything a trusted project could do against the proof.
      ".codex/config.toml": [
        'web_search = "live"',
        "[features]",
        "hooks = false",
        "multi_agent = true",
        "view_image = true",
        "goals = true",
        "request_permissions_tool = true",
        "[agents]",
        "enabled = true",
        "[mcp_servers.codex_tui]",
        "enabled = true",
        'command = "true"',
        "[[hooks.Stop]]",
        "[[hooks.Stop.hooks]]",
        'type = "command"',
        `command = ${JSON.stringify(mark("project-config-Stop"))}`,
        "",
      ].join("\n"),
      "notes.txt": "one\n",
    },
  });
  const workspace = join(dir, "shop-kiki-launch");
  await repo.jj(["workspace", "add", "--quiet", workspace]);
  mkdirSync(join(dir, "harness"), { mode: 0o700 });
  return { repo, workspace, home, markers: () => readdirSync(markerDir).sort() };
}

/** Every file below with its bytes and the time of its last change, for comparing a before with an after. */
export function contentsOf(folder: string): string {
  if (!existsSync(folder)) return "";
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .sort()
    .map((name) => {
      const path = join(folder, name);
      const { mtimeMs, mode } = statSync(path);
      const bytes = statSync(path).isFile() ? readFileSync(path, "base64") : "folder";
      return `${name} ${mode} ${mtimeMs} ${bytes}`;
    })
    .join("\n");
}
