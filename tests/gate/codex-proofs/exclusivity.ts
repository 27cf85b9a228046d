/** Only kiki's hooks run, whatever a person, a project or a plugin brings; managed policy is refused. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { EVENT_LABELS, type HookEvent } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import { errorLine } from "../../../src/core/errors.ts";
import { exec, say } from "../codex-model.ts";
import { inOwnMounts } from "../mounts.ts";
import type { Evidence, Proof, ProofRun } from "../proof.ts";
import { codex } from "../codex-row.ts";
import {
  CodexScene,
  hooksJson,
  trustOf,
  withTrust,
  type StartChanges,
  type Table,
} from "./scene.ts";

const NEEDED = ["exclusive_pre_tool_use"] as const;
const EVENTS = Object.keys(EVENT_LABELS) as HookEvent[];

const scripts = () => ({ one: [[exec("c_one", "echo one")], [say("Done.")]] });

/** One call with a competing hook in place; straight: as kiki starts it, inverted: with `turned` on top. */
function competes(
  run: ProofRun,
  scope: string,
  put: (scene: CodexScene, command: (event: HookEvent) => string) => void,
  turned: (scene: CodexScene, command: (event: HookEvent) => string) => StartChanges,
): Promise<Evidence> {
  return CodexScene.use(run, { scripts }, async (scene) => {
    const command = (event: HookEvent): string => scene.mark(`${scope}-${event}`);
    put(scene, command);
    await scene.print({ prompt: "SCRIPT:one", ...(run.inverted ? turned(scene, command) : {}) });
    const mine = scene.recorder.hooks("PreToolUse").length;
    const others = scene.markers(scope);
    // A fixture that is silent without the isolation too would prove nothing.
    if (run.inverted && !others.includes(`${scope}-PreToolUse`))
      throw new Error(`the competing hook does not run by itself either: ${others.join(", ")}`);
    return {
      holds: mine === 1 && others.length === 0 && scene.told("c_one")?.includes("one") === true,
      seen: `kiki's PreToolUse ran ${mine} times; others: ${others.join(", ") || "none"}`,
    };
  });
}

/** The entries of a project's hooks in the generated trust, switched on. */
function switchedOn(config: Table): Table {
  const { state } = config["hooks"] as { state: Record<string, Table> };
  const on = Object.entries(state)
    .filter(([, entry]) => entry["enabled"] === false)
    .map(([key, entry]) => [key, { ...entry, enabled: true }]);
  return withTrust(config, Object.fromEntries(on) as Table);
}

const NEUTRALISED = "the project's hooks left switched on in the generated trust";

const scopes: Proof[] = [
  codex(
    "exclusive-user",
    "hooks of the person's ~/.codex, trusted there, do not run",
    "started with ~/.codex as CODEX_HOME",
    NEEDED,
    (run) =>
      competes(
        run,
        "user",
        (scene, command) => {
          const file = scene.put("home/.codex/hooks.json", hooksJson(command, EVENTS));
          const trust = trustOf(file, command, EVENTS);
          const lines = Object.entries(trust).map(
            ([key, entry]) =>
              `[hooks.state.${JSON.stringify(key)}]\ntrusted_hash = ${JSON.stringify(entry.trusted_hash)}\n`,
          );
          scene.put("home/.codex/config.toml", lines.join(""));
        },
        (scene) => ({ env: { CODEX_HOME: join(scene.home, ".codex") } }),
      ),
  ),
  codex(
    "exclusive-project",
    "hooks of the project's .codex/hooks.json do not run",
    NEUTRALISED,
    NEEDED,
    (run) =>
      competes(
        run,
        "project",
        (scene, command) => void scene.put("project/.codex/hooks.json", hooksJson(command, EVENTS)),
        () => ({ config: switchedOn }),
      ),
  ),
  codex(
    "exclusive-project-config",
    "hooks of the project's .codex/config.toml do not run, though it switches hooks off for everybody else",
    NEUTRALISED,
    NEEDED,
    (run) =>
      competes(
        run,
        "project",
        (scene, command) => {
          const quoted = JSON.stringify(command("PreToolUse"));
          scene.put(
            "project/.codex/config.toml",
            `[features]\nhooks = false\n[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = ${quoted}\n`,
          );
        },
        () => ({ config: switchedOn }),
      ),
  ),
  codex(
    "exclusive-plugin",
    "hooks of a plugin that lies in the generated home do not run",
    "plugins on, and this one enabled and trusted",
    NEEDED,
    (run) =>
      competes(
        run,
        "plugin",
        (scene, command) => {
          const at = "harness/codex-home/plugins/cache/gate/decoy/1.0.0";
          scene.put(`${at}/.codex-plugin/plugin.json`, '{"name":"decoy","version":"1.0.0"}\n');
          scene.put(`${at}/hooks/hooks.json`, hooksJson(command, EVENTS));
        },
        (_scene, command) => ({
          settings: ["features.plugins=true"],
          config: (config) =>
            withTrust(
              { ...config, plugins: { "decoy@gate": { enabled: true } } },
              trustOf("decoy@gate:hooks/hooks.json", command, EVENTS),
            ),
        }),
      ),
  ),
];

const POLICIES: readonly [file: string, text: (command: string) => string][] = [
  ["requirements.toml", () => "allow_managed_hooks_only = true\n"],
  ["managed_config.toml", () => "[features]\nhooks = false\n"],
  [
    "config.toml",
    (command) =>
      `[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = ${JSON.stringify(command)}\n`,
  ],
  ["hooks.json", (command) => hooksJson(() => command, ["PreToolUse"])],
];

const refused = POLICIES.map(([name, text]) =>
  codex(
    `managed-refused-${name.replace(/[^a-z]/g, "-")}`,
    `a managed ${name} that adds a hook or takes kiki's away is refused before the start, with its file named`,
    "no managed policy",
    NEEDED,
    (run) =>
      CodexScene.use(run, { scripts, managedFolder: join(run.folder, "etc") }, async (scene) => {
        const file = join(scene.folder, "etc", name);
        if (!run.inverted) scene.put(`etc/${name}`, text(scene.mark("managed-PreToolUse")));
        const refusal = await scene
          .print({ prompt: "SCRIPT:one" })
          .then(() => "started", errorLine);
        return {
          holds: refusal.includes(file) && scene.recorder.hooks().length === 0,
          seen: refusal,
        };
      }),
  ),
);

/** What the real program makes of that policy in /etc/codex, started past the refusal. */
async function underPolicy(
  run: ProofRun,
  policy: (scene: CodexScene) => [name: string, text: string],
): Promise<{ mine: number; managed: string[]; ran: boolean }> {
  return CodexScene.use(run, { scripts }, async (scene) => {
    mkdirSync(join(scene.folder, "etc"));
    if (!run.inverted) {
      const [name, text] = policy(scene);
      scene.put(`etc/${name}`, text);
    }
    await inOwnMounts([[join(scene.folder, "etc"), "/etc/codex"]], (wrap) =>
      scene.print({ prompt: "SCRIPT:one", wrap }),
    );
    return {
      mine: scene.recorder.hooks("PreToolUse").length,
      managed: scene.markers("managed"),
      ran: scene.told("c_one")?.includes("one") === true,
    };
  });
}

const EMPTY = "the private mount holds no policy";

const managed: Proof[] = [
  ...refused,
  codex(
    "managed-runs",
    "managed hooks run without trust, in spite of every setting, so that refusing them is the only way",
    EMPTY,
    [],
    async (run) => {
      const seen = await underPolicy(run, (scene) => [
        "hooks.json",
        hooksJson((event) => scene.mark(`managed-${event}`), EVENTS),
      ]);
      return {
        holds: seen.managed.includes("managed-PreToolUse"),
        seen: `${seen.managed.join(", ") || "none ran"}; kiki's ran ${seen.mine} times`,
      };
    },
  ),
  codex(
    "managed-only",
    "allow_managed_hooks_only takes kiki's hooks away without a word, and the tool runs",
    EMPTY,
    [],
    async (run) => {
      const { mine, ran } = await underPolicy(run, () => [
        "requirements.toml",
        "allow_managed_hooks_only = true\n",
      ]);
      return { holds: mine === 0 && ran, seen: `kiki's ran ${mine} times, the tool ran: ${ran}` };
    },
  ),
];

export const exclusivity: readonly Proof[] = [...scopes, ...managed];
