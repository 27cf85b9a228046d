/**
 * The launch that kiki's adapter prepares, on the real Claude Code, without daemon or threads: flags, prompt, merged
 * settings, briefing, and that kiki's hooks are the only ones and fail closed. With --record its hook payloads become
 * fixtures.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import {
  lastToolResults,
  startModelServer,
  type ModelBlock,
  type ModelScripts,
  type ModelServer,
} from "../../../fixtures/model-servers/claude.ts";
import { runInPane, tmuxOn, type PaneRun } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";
import { makeClaudeHome, type ClaudeHome } from "../claude-home.ts";
import {
  makeHookRecorder,
  type HookRecorder,
} from "../../../src/backends/harness/hook-recorder.ts";
import { CLAUDE, CLAUDE_VERSION } from "../install.ts";
import {
  agent,
  asked,
  bash,
  makeCues,
  read,
  say,
  skill,
  STEP_MS,
  write,
  type Cues,
} from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import { recordPayloads } from "../record-payloads.ts";
import type { Report } from "../report.ts";
import type { GateOptions } from "../options.ts";
import { makeProject, SENTENCES } from "./project.ts";

const SESSION = "5f0b1c7e-3d8a-4b60-9f52-0a1d2e3c4b5a";
const SESSION_2 = "5f0b1c7e-3d8a-4b60-9f52-0a1d2e3c4b5b";
const SECRET = "launch-secret";
/** Soon enough to be waited for; a minute without this. */
const IDLE_MS = 2_000;
/** Two lines, a leading dash, and a marker as a start-up delivery carries it. */
const PROMPT = "-x --settings no option\nSCRIPT:launch [[kiki:startup-1]]";
const SECOND_PROMPT = "- once more SCRIPT:again";
const REASON =
  '[kiki] Not now.\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end of message from kiki)';

interface Scene {
  dir: string;
  workspace: string;
  home: ClaudeHome;
  recorder: HookRecorder;
  model: ModelServer;
  harness: ClaudeCodeHarness;
  cues: Cues;
  env: Record<string, string>;
}

function scripts(scene: () => Scene): ModelScripts {
  const file = (name: string): string => join(scene().workspace, name);
  const after = (cue: string, blocks: () => ModelBlock[]) => async (): Promise<ModelBlock[]> => {
    await scene().cues.taken(cue);
    return blocks();
  };
  return {
    launch: [
      () => [
        say("I look around."),
        bash("printenv GATE_USER GATE_PROJECT"),
        read(file("notes.txt")),
        bash("cat nowhere.txt"),
      ],
      () => [skill("look")],
      () => [agent("SCRIPT:helper", "project:helper")],
      () => [write(file("asked.txt"), "yes\n")],
      after("deny", () => [bash("echo denied"), write(file("denied.txt"), "no\n")]),
      after("barrier", () => [skill("look")]),
      after("broken", () => [bash("touch unsafe.txt")]),
      after("mended", () => [say("Done.")]),
    ],
    helper: [() => [bash("echo helper")], () => [say("Helped.")]],
    again: [() => [say("Here again.")]],
  };
}

export async function claudeLaunch(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("claude-launch: the adapter's launch on the real Claude Code");
  const dir = mkdtempSync(join(options.folder, "launch-"));
  let scene: Scene | undefined;
  const model = startModelServer({ scripts: scripts(() => scene!), recordDir: join(dir, "model") });
  const socket = join(dir, "tmux.sock");
  try {
    const project = await makeProject(dir, (root) =>
      makeClaudeHome(dir, root, model.url, { messageIdleNotifThresholdMs: IDLE_MS }),
    );
    scene = {
      dir,
      workspace: project.workspace,
      home: project.home,
      recorder: makeHookRecorder(dir),
      model,
      harness: new ClaudeCodeHarness(),
      cues: makeCues(),
      env: { ...project.repo.env, ...project.home.env },
    };
    await firstLaunch(report, scene, socket);
    await secondLaunch(report, scene, socket);
    await pretrustedLaunch(report, scene, socket);
    report.check(
      "not one hook of user, project or local settings, of skill or agent has run",
      scene.home.markers().length === 0,
      scene.home.markers().join("\n"),
    );
    if (options.record)
      report.say(
        `  recorded ${recordPayloads(scene.recorder.hooks(), dir, CLAUDE_VERSION).join(", ")}`,
      );
  } catch (error) {
    for (const pane of tmuxOn(socket).run("list-panes", "-a", "-F", "#{pane_id}").out.split("\n")) {
      report.block(`pane ${pane}`, tmuxOn(socket).run("capture-pane", "-p", "-t", pane).out);
    }
    throw error;
  } finally {
    if (!options.keep) {
      await tmuxOn(socket).kill();
    }
    await model.close();
  }
}

/** A repository of its own that nobody has trusted, with `[agent.claude-code] pretrust`. */
async function pretrustedLaunch(report: Report, scene: Scene, socket: string): Promise<void> {
  const { recorder, home, dir } = scene;
  const workspace = join(dir, "untrusted");
  mkdirSync(join(workspace, ".git"), { recursive: true });
  const state = join(home.configDir, ".claude.json");
  const before = JSON.parse(readFileSync(state, "utf8")) as Record<string, unknown>;
  const place = { ...scene, workspace };
  const started = recorder.hooks("SessionStart").length;
  const { pane } = await start(place, socket, null, false, { pretrust: true, session: SESSION_2 });
  await waitFor(() => recorder.hooks("SessionStart").length > started, STEP_MS, "SessionStart");
  report.check(
    "a workspace that nobody has trusted starts without a dialog under pretrust",
    recorder.hooks("SessionStart").at(-1)?.payload["cwd"] === workspace,
  );
  const after = JSON.parse(readFileSync(state, "utf8")) as Record<string, unknown>;
  const { projects: _was, ...others } = before;
  report.check(
    "nothing else a person has in .claude.json is lost by it",
    Object.keys(others).every((key) => key in after),
  );
  await leave(report, place, pane, recorder.hooks("SessionEnd").length + 1);
}

async function start(
  scene: Scene,
  socket: string,
  prompt: string | null,
  resume: boolean,
  other: { pretrust: boolean; session: string } = { pretrust: false, session: SESSION },
): Promise<{ pane: PaneRun; argv: string[] }> {
  const { dir, workspace, recorder, harness } = scene;
  const folder = join(dir, "harness");
  const extraArgs = ["--permission-mode", "manual"];
  harness.checkArguments(extraArgs);
  const spec = await harness.prepare({
    repoId: "repo",
    threadId: "thread",
    threadName: "launch",
    incarnation: resume ? "incarnation-2" : "incarnation-1",
    incarnationSecret: SECRET,
    sessionId: other.session,
    claudeCode: { pretrust: other.pretrust },
    resume,
    workspaceRoot: workspace,
    folder,
    executable: CLAUDE,
    prompt,
    extraArgs,
    env: scene.env,
    briefing: `${SENTENCES["kiki's briefing"]}\n`,
    hook: {
      executable: recorder.executable,
      socket: join(dir, "kkd.sock"),
      credentialFile: join(folder, "credential"),
      errorLog: join(dir, "errors.log"),
      passedFolder: join(folder, "passed"),
      spoolFolder: join(folder, "spool"),
      barrierFile: join(folder, "barrier"),
      kk: "/nonexistent/kk",
      stateDir: join(dir, "state"),
    },
  });
  const pane = runInPane({
    socket,
    env: spec.env,
    cwd: spec.cwd,
    command: spec.argv,
    columns: 140,
    rows: 45,
  });
  return { pane, argv: spec.argv };
}

async function firstLaunch(report: Report, scene: Scene, socket: string): Promise<void> {
  const { recorder, model, cues } = scene;
  const { pane } = await start(scene, socket, PROMPT, false);
  const first = await asked(model, "launch", 0);
  const started = recorder.hooks("SessionStart")[0]?.payload;
  report.check(
    "no dialog: the session starts by itself, with the id kiki chose",
    started?.["session_id"] === SESSION && started["source"] === "startup",
    JSON.stringify(started),
  );
  report.check(
    "the hook sees the incarnation's secret",
    recorder.environment().includes(`KIKI_INCARNATION_SECRET=${SECRET}`),
  );
  const submitted = recorder.hooks("UserPromptSubmit")[0]?.payload;
  report.check(
    "a prompt that begins with a dash arrives byte for byte",
    submitted?.["prompt"] === PROMPT,
    JSON.stringify(submitted),
  );
  for (const [where, sentence] of Object.entries(SENTENCES)) {
    report.check(`the model is told what stands in ${where}`, first.raw.includes(sentence));
  }
  report.check("the project's skill is offered", first.raw.includes("Looks around."));
  report.check("the project's agent is offered", first.raw.includes("Helps around."));

  const second = await asked(model, "launch", 1);
  report.check(
    "env of user and project settings is merged",
    second.raw.includes("from user settings\\nfrom project settings"),
    JSON.stringify(lastToolResults(second.body.messages)),
  );
  await asked(model, "launch", 3);
  // Connected in the background, so not in the first request.
  await model.waitFor((r) => r.raw.includes("mcp__gate__count"), STEP_MS);
  report.check("the project's MCP server is there", true);
  // An Agent call in the interactive program returns at once; the helper works beside its caller.
  await waitFor(() => recorder.hooks("SubagentStop").length > 0, STEP_MS, "SubagentStop");
  report.check(
    "calls inside a subagent are hooked, with its agent_id",
    recorder.hooks("PreToolUse").some(({ payload }) => payload["agent_id"] !== undefined),
  );
  report.check(
    "a skill's shell command runs while nothing is held",
    existsSync(join(scene.workspace, "preamble.txt")),
  );
  await permissionDialog(report, scene, pane);

  recorder.denyWith(scene.harness.denyOutput(REASON));
  cues.give("deny");
  const denied = await asked(model, "launch", 5);
  const results = lastToolResults(denied.body.messages);
  const expected = ["Bash", "Write"].map((toolName) =>
    scene.harness.expectedResult(REASON, { toolName }),
  );
  report.check(
    "denied calls: the model gets prefix and reason byte for byte",
    results.length === 2 && results.every((r) => expected.includes(r.text)),
    JSON.stringify(results),
  );
  report.check("a denied call does not run", !existsSync(join(scene.workspace, "denied.txt")));
  recorder.denyWith(null);

  await skillUnderBarrier(report, scene);
  const launcher = join(scene.dir, "harness/hook");
  chmodSync(launcher, 0o600);
  cues.give("broken");
  const broken = await asked(model, "launch", 7);
  const [refusal] = lastToolResults(broken.body.messages);
  report.check(
    "a launcher that cannot be started blocks the call (onFailure)",
    refusal?.isError === true &&
      refusal.text.includes('onFailure is "block"') &&
      !existsSync(join(scene.workspace, "unsafe.txt")),
    refusal?.text,
  );
  chmodSync(launcher, 0o700);
  cues.give("mended");
  await waitFor(() => recorder.hooks("Stop").length > 0, STEP_MS, "Stop");
  await leave(report, scene, pane, 1);
  report.check(
    "the session record holds the denial",
    recordText(scene).includes(JSON.stringify(expected[0]).slice(1, -1)),
  );
}

/** A call that needs the person: dialog, notification, Enter. */
async function permissionDialog(
  report: Report,
  { recorder, workspace }: Scene,
  pane: PaneRun,
): Promise<void> {
  await pane.waitForText(/Do you want to create/, STEP_MS);
  await waitFor(() => recorder.hooks("Notification").length > 0, STEP_MS, "Notification");
  const kind = recorder.hooks("Notification")[0]?.payload["notification_type"];
  report.check(
    "a permission dialog is announced as a notification",
    kind === "permission_prompt",
    String(kind),
  );
  pane.enter();
  await waitFor(() => existsSync(join(workspace, "asked.txt")), STEP_MS, "asked.txt");
}

/** A skill's shell command is no tool call, so the launcher itself refuses it while the barrier marker is there. */
async function skillUnderBarrier(
  report: Report,
  { workspace, dir, cues, model }: Scene,
): Promise<void> {
  const barrier = join(dir, "harness/barrier");
  rmSync(join(workspace, "preamble.txt"));
  writeFileSync(barrier, "");
  cues.give("barrier");
  await asked(model, "launch", 6);
  rmSync(barrier);
  report.check(
    "under a barrier marker a skill's shell command does not run",
    !existsSync(join(workspace, "preamble.txt")),
  );
}

async function secondLaunch(report: Report, scene: Scene, socket: string): Promise<void> {
  const { recorder, model } = scene;
  const { pane } = await start(scene, socket, SECOND_PROMPT, true);
  await asked(model, "again", 0);
  const resumed = recorder.hooks("SessionStart").at(-1)?.payload;
  report.check(
    "--resume keeps the session id",
    resumed?.["session_id"] === SESSION && resumed["source"] === "resume",
    JSON.stringify(resumed),
  );
  report.check(
    "the resumed session gets its prompt, dash and all",
    recorder.hooks("UserPromptSubmit").at(-1)?.payload["prompt"] === SECOND_PROMPT,
  );
  await waitFor(() => recorder.hooks("Stop").length > 1, STEP_MS, "second Stop");
  await leftAlone(report, scene, pane);
  await leave(report, scene, pane, 3);
}

/** What a session does when nobody types, and when the person sums it up or clears it. */
async function leftAlone(report: Report, { recorder }: Scene, pane: PaneRun): Promise<void> {
  const idle = (): boolean =>
    recorder.hooks("Notification").some((h) => h.payload["notification_type"] === "idle_prompt");
  await waitFor(idle, STEP_MS, "an idle notification");
  const ids: unknown[] = [];
  for (const source of ["compact", "clear"]) {
    const started = () =>
      recorder.hooks("SessionStart").find((h) => h.payload["source"] === source);
    pane.type(`/${source}`);
    await pane.waitForText(new RegExp(`/${source}`), STEP_MS);
    pane.enter();
    ids.push((await waitFor(started, STEP_MS, `/${source}`)).payload["session_id"]);
  }
  report.check("/compact keeps the session id", ids[0] === SESSION);
  report.check("/clear begins another session", ids[1] !== SESSION);
}

async function leave(
  report: Report,
  { recorder }: Scene,
  pane: PaneRun,
  times: number,
): Promise<void> {
  pane.type("/exit");
  await pane.waitForText(/\/exit/, STEP_MS);
  pane.enter();
  report.check("/exit ends it with code 0", (await pane.exitCode(STEP_MS)) === 0, pane.screen());
  await waitFor(() => recorder.hooks("SessionEnd").length >= times, STEP_MS, "SessionEnd");
}

function recordText({ recorder }: Scene): string {
  return readFileSync(
    String(recorder.hooks("SessionStart")[0]?.payload["transcript_path"]),
    "utf8",
  );
}
