/**
 * Every hook event and every shape of answer of the real Codex CLI, in its own terminal interface with a scripted model
 * on loopback. With --record they become fixtures/hooks/codex, which the scripted stand-in is held to.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  itemText,
  outputOf,
  refusal,
  startCodexModelServer,
  type CodexModelServer,
  type CodexScripts,
} from "../../../fixtures/model-servers/codex.ts";
import { runInPane, type PaneRun } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";
import { exec, patch, rawPatch, say, submit } from "../codex-model.ts";
import { bundledCatalog, makeCodexHome, type CodexHome } from "../codex-home.ts";
import {
  makeHookRecorder,
  type HookRecorder,
} from "../../../src/backends/harness/hook-recorder.ts";
import { CODEX, CODEX_VERSION } from "../install.ts";
import { STEP_MS } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { hooksList } from "./app-server.ts";
import { missingPayloads, recordCodex } from "./record.ts";

const REASON = `  line 1\n"q" é🙂 `;

const deny = JSON.stringify({
  hookSpecificOutput: {
    hookEventName: "PreToolUse",
    permissionDecision: "deny",
    permissionDecisionReason: REASON,
  },
});
/** A patch a shell command would apply: Codex applies it itself, and no PostToolUse follows. */
const INNER_PATCH =
  "apply_patch <<'EOF'\n*** Begin Patch\n*** Delete File: a.txt\n*** End Patch\nEOF";

function scripts(recorder: HookRecorder): CodexScripts {
  return {
    tour: [
      [say("first"), exec("c_echo", "echo hi")],
      [patch("c_patch", "a.txt")],
      [exec("c_background", "sleep 1.2; echo later", { yield_time_ms: 300 })],
      (request) => {
        const running = /session ID (\d+)/.exec(outputOf(request, "c_background") ?? "")?.[1];
        const poll = { session_id: Number(running), chars: "", yield_time_ms: 5_000 };
        return [{ type: "function_call", name: "write_stdin", arguments: poll, call_id: "c_poll" }];
      },
      () => {
        recorder.denyWith(deny);
        return [exec("c_deny", "echo DENY"), patch("c_deny_patch", "b.txt")];
      },
      () => {
        recorder.denyWith(null);
        return [
          exec("c_false", "echo out; false"),
          { type: "function_call", name: "nope", arguments: {}, call_id: "c_unknown" },
          { type: "function_call", name: "exec_command", arguments: "{bad", call_id: "c_bad" },
          exec("c_slow", "sleep 4; echo steered"),
        ];
      },
      [
        rawPatch("c_no_patch", "garbage"),
        rawPatch("c_gone", "*** Begin Patch\n*** Delete File: gone\n*** End Patch"),
        exec("c_inner_patch", INNER_PATCH),
        { type: "function_call", name: "exec_command", arguments: {}, call_id: "c_no_cmd" },
      ],
      [say("turn over")],
    ],
    stopped: [
      [exec("c_esc", "touch started; sleep 60", { yield_time_ms: 60_000 })],
      [say("a summary")],
    ],
    more: [[say("here again")]],
  };
}

interface Stage {
  dir: string;
  workspace: string;
  recorder: HookRecorder;
  model: CodexModelServer;
  home: CodexHome;
  panes: PaneRun[];
}

export async function codexPayloads(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("codex-payloads: what the real Codex tells a hook, and writes down");
  const stage = setUp(mkdtempSync(join(options.folder, "codex-payloads-")));
  try {
    const screens = await session(report, stage);
    Object.assign(screens, await dialogs(stage));
    const outputs = outputsOf(stage.model);
    checkOutputs(report, outputs);
    const hooks = stage.recorder.hooks();
    const missing = missingPayloads(hooks);
    report.check("every kind of payload was seen", missing.length === 0, missing.join(", "));
    if (!options.record || missing.length > 0) return;
    const list = await hooksList(listHome(stage), stage.workspace);
    const catalog = bundledCatalog({ ...stage.home.env, CODEX_HOME: join(stage.dir, "home") });
    const recording = {
      hooks,
      rollout: rollout(stage),
      screens,
      hooksList: list,
      catalog,
      outputs,
    };
    const names = recordCodex(recording, stage.dir, CODEX_VERSION);
    report.say(`  ${names.length} files written to fixtures/hooks/codex/${CODEX_VERSION}`);
  } finally {
    if (!options.keep) for (const pane of stage.panes) await pane.tmux.kill();
    await stage.model.close();
  }
}

function setUp(dir: string): Stage {
  const workspace = join(dir, "shop");
  mkdirSync(workspace);
  const recorder = makeHookRecorder(dir);
  const model = startCodexModelServer({
    recordDir: join(dir, "requests"),
    scripts: scripts(recorder),
    first: (request) =>
      itemText(request.body.input.at(-1) ?? {}) === "REFUSE-ME" ? refusal("not this") : undefined,
  });
  const home = makeCodexHome(dir, { modelUrl: model.url, workspace, hook: hookCommand(recorder) });
  return { dir, workspace, recorder, model, home, panes: [] };
}

/** Hooks whose commands name nothing of this run: a hash is of the command, and must hold for the recorded one. */
function listHome(stage: Stage): CodexHome {
  const { workspace, model } = stage;
  const hook = (event: string): string => `kk-hook ${event} || exit 2`;
  const dir = join(stage.dir, "list");
  mkdirSync(dir);
  return makeCodexHome(dir, { modelUrl: model.url, workspace, hook });
}

/** The recorder says 10 for pass and 11 for deny, as kk-hook does; Codex must see 0. */
function hookCommand(recorder: HookRecorder): (event: string) => string {
  return (event) => `'${recorder.executable}' ${event}; [ $? -le 11 ]`;
}

function start(stage: Stage, home: CodexHome, words: readonly string[], cwd = stage.workspace) {
  const pane = runInPane({
    socket: join(stage.dir, `t${stage.panes.length}.sock`),
    env: home.env,
    cwd,
    command: [CODEX, "--enable", "hooks", ...words],
    columns: 100,
    rows: 40,
  });
  stage.panes.push(pane);
  return pane;
}

const hookSeen = (stage: Stage, event: string, count = 1) =>
  waitFor(() => stage.recorder.hooks(event).length >= count, STEP_MS, `${count} × ${event}`);

/** One session from its first prompt to its end, and once more; the screens it showed. */
async function session(report: Report, stage: Stage): Promise<Record<string, string>> {
  const { model, home } = stage;
  const screens: Record<string, string> = {};
  const pane = start(stage, home, ["SCRIPT:tour please"]);
  await model.waitFor((r) => outputOf(r, "c_deny_patch") !== undefined, STEP_MS);
  await pane.waitForText(/Working \(/, STEP_MS);
  screens["working"] = pane.screen();
  await submit(pane, "steer text");
  await hookSeen(stage, "Stop");
  await pane.waitForText(/Worked for/, STEP_MS);
  screens["idle"] = pane.screen();
  const prompts = stage.recorder.hooks("UserPromptSubmit").map(({ payload }) => payload);
  report.check(
    "text typed while a tool runs: a UserPromptSubmit with the same turn_id",
    prompts.length === 2 && prompts[0]!["turn_id"] === prompts[1]!["turn_id"],
  );

  await submit(pane, "SCRIPT:stopped please");
  await waitFor(() => existsSync(join(stage.workspace, "started")), STEP_MS, "a running tool");
  pane.send("Escape");
  await hookSeen(stage, "Interrupt");
  await pane.waitForText(/interrupted/i, STEP_MS);
  screens["interrupted"] = pane.screen();
  const without = (id: string): boolean =>
    !stage.recorder.hooks("PostToolUse").some(({ payload }) => payload["tool_use_id"] === id);
  report.check(
    "a patch that does not fit, and one inside a shell command: PreToolUse, no PostToolUse",
    without("c_gone") && without("c_inner_patch"),
  );
  report.check("Esc: an Interrupt, no Stop", stage.recorder.hooks("Stop").length === 1);

  await submit(pane, "/compact");
  await hookSeen(stage, "PostCompact");
  await pane.waitForText(/compacted/i, STEP_MS);
  report.check(
    "compaction: the next SessionStart comes with the next prompt, not at once",
    stage.recorder.hooks("SessionStart").length === 1,
  );
  await submit(pane, "SCRIPT:more please");
  await hookSeen(stage, "Stop", 2);
  await submit(pane, "REFUSE-ME");
  await pane.waitForText(/not this/, STEP_MS);
  report.check(
    "a request the provider refuses: the turn ends without a Stop",
    stage.recorder.hooks("Stop").length === 2,
  );
  screens["refused"] = pane.screen();
  await submit(pane, "/quit");
  await pane.exitCode(STEP_MS);
  await hookSeen(stage, "SessionEnd");
  screens["ended"] = pane.screen();

  const id = String(stage.recorder.hooks("SessionStart")[0]?.payload["session_id"]);
  const again = start(stage, home, ["resume", id, "SCRIPT:more again"]);
  await hookSeen(stage, "Stop", 3);
  await submit(again, "/quit");
  await again.exitCode(STEP_MS);
  const ids = new Set(stage.recorder.hooks().map(({ payload }) => payload["session_id"]));
  report.check("resume and compaction keep the session's id", ids.size === 1);
  return screens;
}

/** What a start shows that is not ready for a prompt, and one that is. */
async function dialogs(stage: Stage): Promise<Record<string, string>> {
  const kinds = [
    ["composer", {}, /Ask Codex to do anything[^]*default · /],
    ["folder-access", { trusted: false }, /Folder access/],
    ["login", { needsLogin: true }, /Sign in with ChatGPT/],
    ["hooks-review", { trustHooks: false }, /Hooks need review/],
  ] as const;
  const screens: Record<string, string> = {};
  for (const [name, settings, shown] of kinds) {
    const dir = join(stage.dir, `start-${name}`);
    const workspace = join(dir, "shop");
    // A folder with nothing of Codex's and no repository is not asked about.
    mkdirSync(join(workspace, ".codex"), { recursive: true });
    Bun.spawnSync(["git", "init", "-q", workspace]);
    const home = makeCodexHome(dir, {
      modelUrl: stage.model.url,
      workspace,
      hook: hookCommand(stage.recorder),
      ...settings,
    });
    const pane = start(stage, home, [], workspace);
    await pane.waitForText(shown, STEP_MS);
    screens[name] = pane.screen();
  }
  return screens;
}

function outputsOf(model: CodexModelServer): Record<string, string> {
  const outputs: Record<string, string> = {};
  for (const request of model.requests) {
    for (const item of request.body.input) {
      const id = item["call_id"];
      if (typeof id !== "string" || !String(item.type).endsWith("_output")) continue;
      outputs[id] ??= outputOf(request, id) ?? "";
    }
  }
  return outputs;
}

function checkOutputs(report: Report, outputs: Record<string, string>): void {
  const blocked = (what: string): string =>
    `Command blocked by PreToolUse hook: ${REASON.trim()}. Command: ${what}`;
  report.check(
    "a denied command: the reason trimmed, otherwise verbatim, in its known wrapper",
    outputs["c_deny"] === blocked("echo DENY"),
    outputs["c_deny"],
  );
  report.check(
    "a denied patch: the same",
    outputs["c_deny_patch"] === blocked("*** Begin Patch\n*** Add File: b.txt\n+x\n*** End Patch"),
    outputs["c_deny_patch"],
  );
}

function rollout(stage: Stage): string {
  const sessions = join(stage.home.path, "sessions");
  const found = readdirSync(sessions, { recursive: true }).map(String);
  const file = found.find((name) => name.endsWith(".jsonl"));
  if (file === undefined) throw new Error(`no session record below ${sessions}`);
  return readFileSync(join(sessions, file), "utf8");
}
