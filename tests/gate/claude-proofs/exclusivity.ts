/** Only kiki's hooks run, whatever a person, a project, a plugin or a skill brings; managed policy is refused. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorLine } from "../../../src/core/errors.ts";
import { agent, bash, say, skill, write } from "../model.ts";
import { inOwnMounts } from "../mounts.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { claude } from "./row.ts";
import { ClaudeScene, type SceneOptions } from "./scene.ts";

const NEEDED = ["exclusive_pre_tool_use"] as const;

/** Runs one call with a competing hook in place; straight: as kiki starts it, inverted: without the isolation. */
async function competes(
  run: ProofRun,
  scope: string,
  options: Omit<SceneOptions, "scripts">,
  more: (scene: ClaudeScene) => readonly string[] = () => [],
): Promise<Evidence> {
  return ClaudeScene.use(
    run,
    {
      ...options,
      scripts: () => ({ one: [() => [bash("echo one", "toolu_one")], () => [say("Done.")]] }),
    },
    async (scene) => {
      await scene.print({
        prompt: "SCRIPT:one",
        plain: run.inverted,
        more: run.inverted ? more(scene) : [],
      });
      return alone(scene, scope);
    },
  );
}

/** kiki's hook saw the call, and no marker of that scope is there. */
function alone(scene: ClaudeScene, scope: string): Evidence {
  const mine = scene.recorder.hooks("PreToolUse").length;
  const others = scene.home.markers().filter((name) => name.startsWith(`${scope}-`));
  return {
    holds: mine > 0 && others.length === 0,
    seen: `kiki's PreToolUse ran ${mine} times; others: ${others.join(", ") || "none"}`,
  };
}

function definition(scene: ClaudeScene, name: string, scope: string, text: string): string {
  const hook = {
    matcher: "*",
    hooks: [{ type: "command", command: scene.home.markerCommand(`${scope}-PreToolUse`) }],
  };
  // JSON is YAML.
  return `---\nname: ${name}\ndescription: ${name}\nhooks: ${JSON.stringify({ PreToolUse: [hook] })}\n---\n${text}\n`;
}

function put(root: string, name: string, text: string): void {
  mkdirSync(dirname(join(root, name)), { recursive: true });
  writeFileSync(join(root, name), text);
}

const PLAIN = "started without kiki's isolation flags";

const scopes: Proof[] = [
  claude("exclusive-user", "hooks of the person's settings do not run", PLAIN, NEEDED, (run) =>
    competes(run, "user", {
      home: ({ home }) => ({ "settings.json": home.markedSettings("user") }),
    }),
  ),
  claude("exclusive-project", "hooks of the project's settings do not run", PLAIN, NEEDED, (run) =>
    projectScope(run, "project", "settings.json"),
  ),
  claude("exclusive-local", "hooks of the local settings do not run", PLAIN, NEEDED, (run) =>
    projectScope(run, "local", "settings.local.json"),
  ),
  claude(
    "exclusive-plugin",
    "hooks of a plugin that the person's settings enable do not run",
    "the plugin's folder named on the command line, which kiki refuses",
    NEEDED,
    (run) =>
      competes(
        run,
        "plugin",
        {
          home: (scene) => {
            const hooks = JSON.parse(scene.home.markedSettings("plugin")) as object;
            put(scene.folder, "market/.claude-plugin/marketplace.json", market());
            put(scene.folder, "market/loud/.claude-plugin/plugin.json", '{"name":"loud"}');
            put(scene.folder, "market/loud/hooks/hooks.json", JSON.stringify(hooks));
            const path = join(scene.folder, "market");
            return {
              "settings.json": JSON.stringify({
                skipDangerousModePermissionPrompt: true,
                enabledPlugins: { "loud@gate": true },
                extraKnownMarketplaces: { gate: { source: { source: "directory", path } } },
              }),
            };
          },
        },
        (scene) => ["--plugin-dir", join(scene.folder, "market/loud")],
      ),
  ),
  claude(
    "exclusive-skill",
    "a hook in a skill's front matter does not run, and the skill does",
    PLAIN,
    NEEDED,
    (run) =>
      frontMatter(run, ".claude/skills/look/SKILL.md", "look", () => [
        skill(run.inverted ? "look" : "project:look"),
      ]),
  ),
  claude(
    "exclusive-agent",
    "a hook in an agent's front matter does not run, and the agent does",
    PLAIN,
    NEEDED,
    (run) =>
      frontMatter(run, ".claude/agents/helper.md", "helper", () => [
        agent("SCRIPT:helper", run.inverted ? "helper" : "project:helper"),
      ]),
  ),
];

function market(): string {
  return JSON.stringify({
    name: "gate",
    owner: { name: "gate" },
    plugins: [{ name: "loud", source: "./loud" }],
  });
}

async function projectScope(run: ProofRun, scope: string, file: string): Promise<Evidence> {
  return ClaudeScene.use(
    run,
    { scripts: () => ({ one: [() => [bash("echo one")], () => [say("Done.")]] }) },
    async (scene) => {
      put(scene.project, `.claude/${file}`, scene.home.markedSettings(scope));
      await scene.print({ prompt: "SCRIPT:one", plain: run.inverted });
      return alone(scene, scope);
    },
  );
}

async function frontMatter(
  run: ProofRun,
  file: string,
  name: string,
  call: () => ReturnType<typeof bash>[],
): Promise<Evidence> {
  return ClaudeScene.use(
    run,
    {
      scripts: () => ({
        one: [call, () => [bash("echo after")], () => [say("Done.")]],
        helper: [() => [bash("echo helper")], () => [say("Helped.")]],
      }),
    },
    async (scene) => {
      put(scene.project, file, definition(scene, name, name, `SENTINEL ${name}: SCRIPT:one`));
      await scene.print({ prompt: "SCRIPT:one", plain: run.inverted });
      const evidence = alone(scene, name);
      const used = scene.model.requests.some((r) =>
        name === "helper" ? r.script === "helper" : r.raw.includes(`SENTINEL ${name}`),
      );
      return { holds: evidence.holds && used, seen: `${evidence.seen}; it was used: ${used}` };
    },
  );
}

const managed: Proof[] = [
  claude(
    "managed-refused",
    "a managed PreToolUse hook is refused before the start, with its file named",
    "no managed policy",
    NEEDED,
    (run) =>
      ClaudeScene.use(
        run,
        { scripts: () => ({}), managedFolder: join(run.folder, "etc") },
        async (scene) => {
          const file = join(run.folder, "etc/managed-settings.json");
          if (!run.inverted)
            put(run.folder, "etc/managed-settings.json", scene.home.markedSettings("managed"));
          const refusal = await scene
            .print({ prompt: "SCRIPT:one" })
            .then(() => "started", errorLine);
          return {
            holds: refusal.includes(file) && scene.recorder.hooks().length === 0,
            seen: refusal,
          };
        },
      ),
  ),
  claude(
    "managed-runs",
    "managed hooks do run in spite of every flag, so that refusing them is the only way",
    "the private mount holds no policy",
    [],
    (run) =>
      ClaudeScene.use(
        run,
        { scripts: () => ({ one: [() => [bash("echo one")], () => [say("Done.")]] }) },
        async (scene) => {
          const policy = run.inverted ? "{}" : scene.home.markedSettings("managed");
          put(run.folder, "etc/managed-settings.json", policy);
          await inOwnMounts([[join(run.folder, "etc"), "/etc/claude-code"]], (wrap) =>
            scene.print({ prompt: "SCRIPT:one", wrap }),
          );
          const ran = scene.home.markers().filter((name) => name.startsWith("managed-"));
          return { holds: ran.includes("managed-PreToolUse"), seen: ran.join(", ") || "none ran" };
        },
      ),
  ),
];

const untouched = claude(
  "settings-untouched",
  "the person's, the project's and the local settings are byte-identical after a run with tools",
  "the agent itself writes into the project's settings",
  [],
  (run) =>
    ClaudeScene.use(
      run,
      {
        scripts: (scene) => ({
          one: [
            () => [write(scene.file("made.txt"), "made\n"), bash("echo one")],
            () => [bash(run.inverted ? "echo >> .claude/settings.json" : "echo two")],
            () => [say("Done.")],
          ],
        }),
      },
      async (scene) => {
        const files = [
          scene.home.userSettings,
          scene.file(".claude/settings.json"),
          scene.file(".claude/settings.local.json"),
        ];
        put(scene.project, ".claude/settings.json", scene.home.markedSettings("project"));
        put(scene.project, ".claude/settings.local.json", scene.home.markedSettings("local"));
        const before = files.map((file) => readFileSync(file, "utf8"));
        await scene.print({ prompt: "SCRIPT:one" });
        const changed = files.filter((file, i) => readFileSync(file, "utf8") !== before[i]);
        return {
          holds: scene.has("made.txt") && changed.length === 0,
          seen: `changed: ${changed.map((file) => file.slice(run.folder.length)).join(", ") || "none"}`,
        };
      },
    ),
);

export const exclusivity: readonly Proof[] = [...scopes, ...managed, untouched];
