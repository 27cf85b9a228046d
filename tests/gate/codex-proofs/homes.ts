/** The generated home: trust that is checked before a prompt, what is the person's stays theirs, and the login. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { askCodex, judge } from "../../../src/backends/harness/codex/preflight.ts";
import { nativeProgram } from "../../../src/backends/harness/codex/program.ts";
import { errorLine } from "../../../src/core/errors.ts";
import { contentsOf } from "../codex-launch/project.ts";
import { exec, patch, say } from "../codex-model.ts";
import { STEP_MS } from "../model.ts";
import { CODEX } from "../install.ts";
import type { Proof } from "../proof.ts";
import { codex } from "../codex-row.ts";
import { CodexScene, withTrust, type Table } from "./scene.ts";

const NEEDED = ["exclusive_pre_tool_use"] as const;
const KEY = "sk-gate-no-real-key";

const scripts = () => ({
  one: [[exec("c_one", "echo one > one.txt")], [patch("c_two", "two.txt")], [say("Done.")]],
});

/** kiki's own PreToolUse hook with a hash that is another hook's. */
function changedHash(scene: CodexScene): (config: Table) => Table {
  const key = `${join(scene.codexHome, "config.toml")}:pre_tool_use:0:0`;
  return (config) => withTrust(config, { [key]: { trusted_hash: `sha256:${"0".repeat(64)}` } });
}

/** The command line without the words that switch hooks on. */
function withoutHooks(argv: readonly string[]): string[] {
  return argv.filter(
    (word, i) =>
      !["--enable", "features.hooks=true"].includes(word) &&
      argv[i - 1] !== "--enable" &&
      argv[i + 1] !== "features.hooks=true",
  );
}

const trust: Proof[] = [
  codex(
    "untrusted-is-silent",
    "a hook whose hash is not the trusted one is skipped without a word, and the tool runs: hence the proof before the prompt",
    "the hash is its own",
    [],
    (run) =>
      CodexScene.use(run, { scripts }, async (scene) => {
        const { out, err } = await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted ? {} : { config: changedHash(scene) }),
        });
        const mine = scene.recorder.hooks("PreToolUse").length;
        const said = /trust|review|PreToolUse/i.test((out + err).replaceAll(scene.folder, ""));
        return {
          holds: mine === 0 && !said && scene.has("one.txt"),
          seen: `PreToolUse ran ${mine} times, the tool ran: ${scene.has("one.txt")}; Codex says something of it: ${said}`,
        };
      }),
  ),
  codex(
    "preflight-sees-it",
    "asked before the start, Codex says that such a hook would not run, and the launch is refused with the file named",
    "the hash is its own",
    NEEDED,
    (run) =>
      CodexScene.use(run, { scripts }, async (scene) => {
        const { env } = await scene.prepare({
          prompt: null,
          ...(run.inverted ? {} : { config: changedHash(scene) }),
        });
        const configFile = join(scene.codexHome, "config.toml");
        const answer = await askCodex({
          program: nativeProgram(CODEX),
          args: ["--enable", "hooks"],
          home: scene.codexHome,
          workspace: scene.project,
          env,
          timeoutMs: STEP_MS,
        });
        let verdict = "accepted";
        try {
          judge(answer, { configFile, hook: scene.launcher, pinned: {} });
        } catch (error) {
          verdict = errorLine(error);
        }
        return {
          holds: verdict.includes(configFile) && verdict.includes("modified"),
          seen: verdict,
        };
      }),
  ),
  codex(
    "hooks-switched-off",
    "a project's features.hooks=false is overruled by the command line",
    "started without kiki's words for it",
    NEEDED,
    (run) =>
      CodexScene.use(run, { scripts }, async (scene) => {
        scene.put("project/.codex/config.toml", "[features]\nhooks = false\n");
        await scene.print({
          prompt: "SCRIPT:one",
          ...(run.inverted ? { argv: withoutHooks } : {}),
        });
        const mine = scene.recorder.hooks("PreToolUse").length;
        return { holds: mine === 2, seen: `PreToolUse ran ${mine} times for two calls` };
      }),
  ),
];

const personal: Proof[] = [
  codex(
    "home-untouched",
    "the person's ~/.codex and the workspace's .codex are as they were, to the byte and the second, and no file of ~/.codex is opened after the copy of its login",
    "started with ~/.codex as CODEX_HOME",
    [],
    (run) =>
      CodexScene.use(run, { scripts }, async (scene) => {
        scene.put("home/.codex/auth.json", `{"OPENAI_API_KEY":"${KEY}"}\n`);
        scene.put("home/.codex/config.toml", 'model = "from-the-home"\n');
        scene.put("home/.codex/AGENTS.md", "From the person's own home: quinces.\n");
        scene.put("project/.codex/config.toml", "[features]\nview_image = true\n");
        const own = join(scene.home, ".codex");
        const theirs = [own, scene.file(".codex")];
        const before = theirs.map(contentsOf).join("\n");
        const trace = join(scene.folder, "trace");
        const words = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", trace];
        const turned = run.inverted ? { env: { CODEX_HOME: own } } : {};
        await scene.print({ prompt: "SCRIPT:one", ...turned, wrap: (argv) => [...words, ...argv] });
        const lines = readFileSync(trace, "utf8").split("\n");
        const opened = lines.filter((l) => l.includes(`"${own}`) && /\bopen(?:at2?)?\(/.test(l));
        const same = theirs.map(contentsOf).join("\n") === before;
        const told = scene.model.requests.some(({ raw }) => raw.includes("quinces"));
        if (lines.length < 1_000) throw new Error(`strace saw ${lines.length} lines only`);
        return {
          holds: same && opened.length === 0 && !told && scene.has("one.txt"),
          seen: `unchanged: ${same}; opened ${opened.length} of ~/.codex; its AGENTS.md reached the model: ${told}`,
        };
      }),
  ),
  codex(
    "login-copied",
    "the login is a copy of the person's, readable by nobody else, and it is what the provider is shown",
    "a login that was replaced after the copy",
    [],
    (run) =>
      CodexScene.use(
        run,
        { scripts, settings: ["model_providers.scripted.requires_openai_auth=true"] },
        async (scene) => {
          const theirs = scene.put("home/.codex/auth.json", `{"OPENAI_API_KEY":"${KEY}"}\n`);
          const copy = join(scene.codexHome, "auth.json");
          await scene.print({
            prompt: "SCRIPT:one",
            ready: () => {
              if (run.inverted)
                scene.put("harness/codex-home/auth.json", '{"OPENAI_API_KEY":"sk-another"}\n');
            },
          });
          const shown = scene.request("one", 0)?.headers["authorization"];
          const mode = existsSync(copy) ? (statSync(copy).mode & 0o777).toString(8) : "none";
          return {
            holds:
              mode === "600" &&
              readFileSync(copy, "utf8") === readFileSync(theirs, "utf8") &&
              shown === `Bearer ${KEY}`,
            seen: `mode ${mode}; the provider is shown ${String(shown)}`,
          };
        },
      ),
  ),
];

export const homes: readonly Proof[] = [...trust, ...personal];
