/**
 * The launch that kiki's adapter prepares, on the real Codex, without daemon or threads: home, arguments, prompt,
 * briefing, that kiki's hooks are the only ones and fail closed, that requests ask for one call at a time, and that what
 * is the person's stays as it is.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import {
  outputOf,
  startCodexModelServer,
  toolNames,
  type CodexModelServer,
  type CodexRequest,
  type CodexScripts,
  type ModelAnswer,
  type ModelItem,
} from "../../../fixtures/model-servers/codex.ts";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import { processesFor } from "../../../src/backends/processes/select.ts";
import { GENERIC_DENY_REASON } from "../../../src/core/generic-deny.ts";
import type { LaunchRequest, LaunchSpec } from "../../../src/ports/harness.ts";
import { runInPane, tmuxOn, type PaneRun } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";
import {
  makeHookRecorder,
  type HookRecorder,
} from "../../../src/backends/harness/hook-recorder.ts";
import { CODEX } from "../install.ts";
import { makeCues, STEP_MS, type Cues } from "../model.ts";
import type { LoopbackProof } from "../namespace.ts";
import type { GateOptions } from "../options.ts";
import type { Report } from "../report.ts";
import { exec, patch, patchText, say, submit } from "../codex-model.ts";
import { providerSettings } from "../codex-provider.ts";
import { codexSandbox } from "./sandbox.ts";
import { codexThreads } from "./threads.ts";
import { contentsOf, FORBIDDEN_SENTENCE, makeProject, SENTENCES, type Project } from "./project.ts";

const SECRET = "launch-secret";
/** Two lines, a leading dash, and a marker as a start-up delivery carries it. */
const PROMPT = "-x --model no option\nSCRIPT:launch [[kiki:startup-1]]";
/** The name of one of Codex's commands. */
const SECOND_PROMPT = "resume SCRIPT:again";
const REASON =
  '[kiki] Not now.\n\n  two  spaces, Ünïcödé ✓ and a "quote"\n\n(end of message from kiki)';
const TOOLS = ["apply_patch", "exec_command", "request_user_input", "write_stdin"];

interface Scene {
  dir: string;
  project: Project;
  recorder: HookRecorder;
  model: CodexModelServer;
  harness: CodexHarness;
  cues: Cues;
}

function scripts(scene: () => Scene): CodexScripts {
  const after = (cue: string, items: ModelItem[]) => async (): Promise<ModelAnswer> => {
    await scene().cues.taken(cue);
    return items;
  };
  return {
    launch: [
      [say("I look around."), exec("c_env", "echo $KIKI_INCARNATION; cat notes.txt")],
      [patch("c_patch", "made.txt")],
      after("deny", [exec("c_deny", "touch denied.txt # é 'q'")]),
      [patch("c_deny_patch", "denied-too.txt")],
      after("barrier", [exec("c_barrier", "touch unsafe.txt")]),
      after("broken", [exec("c_broken", "touch unsafe.txt")]),
      after("mended", [say("Done.")]),
    ],
    again: [[say("Here again.")]],
    typed: [[exec("c_sleep", "touch started.txt; sleep 60")]],
  };
}

export async function codexLaunch(
  report: Report,
  _proof: LoopbackProof,
  options: GateOptions,
): Promise<void> {
  report.heading("codex-launch: the adapter's launch on the real Codex");
  const dir = mkdtempSync(join(options.folder, "codex-launch-"));
  mkdirSync(join(dir, "tmp"));
  let scene: Scene | undefined;
  const model = startCodexModelServer({
    scripts: scripts(() => scene!),
    recordDir: join(dir, "model"),
  });
  const socket = join(dir, "tmux.sock");
  try {
    const project = await makeProject(dir);
    const recorder = makeHookRecorder(dir);
    scene = { dir, project, recorder, model, harness: new CodexHarness(), cues: makeCues() };
    const untouched = [join(project.home, ".codex"), join(project.workspace, ".codex")];
    const before = untouched.map(contentsOf);
    await firstLaunch(report, scene, socket);
    await resumed(report, scene, socket);
    await withoutPrompt(report, scene, socket);
    report.check(
      "not one hook of the person, the project or a plugin has run",
      project.markers().length === 0,
      project.markers().join("\n"),
    );
    report.check(
      "the person's ~/.codex and the workspace's .codex are as they were, to the byte and the second",
      untouched.map(contentsOf).join("\n\n") === before.join("\n\n"),
    );
    report.check(
      "not one request carries what stands in the person's home",
      model.requests.every(({ raw }) => !raw.includes(FORBIDDEN_SENTENCE)),
    );
    everyRequest(report, model.requests);
    await codexThreads(report, options);
    await codexSandbox(report, options);
  } catch (error) {
    for (const pane of tmuxOn(socket).run("list-panes", "-a", "-F", "#{pane_id}").out.split("\n")) {
      report.block(`pane ${pane}`, tmuxOn(socket).run("capture-pane", "-p", "-t", pane).out);
    }
    throw error;
  } finally {
    if (!options.keep) await tmuxOn(socket).kill();
    await model.close();
  }
}

function prepare(scene: Scene, over: Partial<LaunchRequest>): Promise<LaunchSpec> {
  const { dir, project, recorder, harness, model } = scene;
  const folder = join(dir, "harness");
  const extraArgs = providerSettings(model.url).flatMap((setting) => ["-c", setting]);
  harness.checkArguments(extraArgs);
  return harness.prepare({
    repoId: "repo",
    threadId: "thread",
    threadName: "launch",
    incarnation: "incarnation-1",
    incarnationSecret: SECRET,
    sessionId: null,
    resume: false,
    workspaceRoot: project.workspace,
    folder,
    executable: CODEX,
    prompt: null,
    extraArgs,
    env: { ...project.repo.env, HOME: project.home, TMPDIR: join(dir, "tmp") },
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
    ...over,
  });
}

function start(spec: LaunchSpec, socket: string, through: readonly string[] = []): PaneRun {
  return runInPane({
    socket,
    env: spec.env,
    cwd: spec.cwd,
    command: [...through, ...spec.argv],
    columns: 140,
    rows: 45,
  });
}

async function told(model: CodexModelServer, callId: string): Promise<string> {
  const request = await model.waitFor((r) => outputOf(r, callId) !== undefined, STEP_MS);
  return outputOf(request, callId) ?? "";
}

async function firstLaunch(report: Report, scene: Scene, socket: string): Promise<void> {
  const { dir, harness, recorder, model, cues, project } = scene;
  const spec = await prepare(scene, { prompt: PROMPT });
  report.check(
    "the login is a copy of the person's, for nobody else to read",
    readFileSync(join(dir, "harness/codex-home/auth.json"), "utf8") ===
      readFileSync(join(project.home, ".codex/auth.json"), "utf8"),
  );
  const proved = spec.files.map((file) => readFileSync(file, "utf8"));
  const trace = join(dir, "trace");
  const traced = Bun.which("strace") !== null;
  const pane = start(
    spec,
    socket,
    traced ? ["strace", "-f", "-qq", "-e", "trace=%file", "-o", trace] : [],
  );
  const submitted = await firstHook(recorder, "UserPromptSubmit");
  const started = recorder.hooks("SessionStart")[0]?.payload;
  report.check("no dialog: the session starts by itself", started?.["source"] === "startup");
  report.check(
    "up to its session Codex changes no file that was proved",
    spec.files.every((file, i) => readFileSync(file, "utf8") === proved[i]),
  );
  report.check(
    "the hook sees the incarnation's secret",
    recorder.environment().includes(`KIKI_INCARNATION_SECRET=${SECRET}`),
  );
  report.check(
    "a prompt that begins with a dash arrives byte for byte",
    submitted["prompt"] === PROMPT,
    JSON.stringify(submitted),
  );
  const first = await model.waitFor((r) => r.script === "launch" && r.step === 0, STEP_MS);
  const said = JSON.parse(first.raw) as unknown;
  const words = JSON.stringify(said);
  for (const [where, sentence] of Object.entries(SENTENCES)) {
    report.check(
      `the model is told what stands in ${where}`,
      words.includes(JSON.stringify(sentence).slice(1, -1)),
    );
  }
  report.check(
    "an argument of the person's reaches Codex",
    (first.body as { reasoning?: { effort?: string } }).reasoning?.effort === "high",
  );
  const env = await told(model, "c_env");
  report.check(
    "a tool runs, and its process can be told by its incarnation",
    env.includes("incarnation-1\none\n"),
    env,
  );
  await told(model, "c_patch");
  report.check("a patch is made", existsSync(join(project.workspace, "made.txt")));

  await denied(report, scene);
  const record = harness.record(String(started?.["transcript_path"]));
  const numbers = ["c_env", "c_patch", "c_deny", "c_deny_patch"].map((id) =>
    record?.responses.get(id),
  );
  report.check(
    "the session record tells which response each call belongs to",
    numbers.join() === "0,1,2,3",
    numbers.join(),
  );

  const kkHook = recorder.executable;
  writeFileSync(join(dir, "harness/barrier"), "");
  renameSync(kkHook, `${kkHook}.away`);
  cues.give("barrier");
  const generic = await told(model, "c_barrier");
  report.check(
    "a dead sidecar under a barrier: the launcher's generic refusal reaches the model byte for byte",
    generic ===
      harness.expectedResult(GENERIC_DENY_REASON, {
        toolName: "Bash",
        command: "touch unsafe.txt",
      }),
    generic,
  );
  renameSync(`${kkHook}.away`, kkHook);
  rmSync(join(dir, "harness/barrier"));

  const launcher = join(dir, "harness/hook");
  chmodSync(launcher, 0o600);
  // Root may run what nobody may: it has to be gone for that.
  renameSync(launcher, `${launcher}.away`);
  cues.give("broken");
  const broken = await told(model, "c_broken");
  report.check(
    "a launcher that cannot be started blocks the call",
    broken.startsWith(harness.refusalPrefixes()[0] ?? "?") &&
      broken.includes("the hook of this call cannot be run"),
    broken,
  );
  report.check("neither call has run", !existsSync(join(project.workspace, "unsafe.txt")));
  renameSync(`${launcher}.away`, launcher);
  chmodSync(launcher, 0o700);
  cues.give("mended");
  await firstHook(recorder, "Stop");
  // A traced hook may not be done in the 3 s that Codex gives it while it ends.
  await leave(report, scene, pane, !traced);
  if (traced) report.check(...unread(trace, project));
  else report.say("  strace is not here: which files Codex opens was not looked at");
}

async function denied(report: Report, { harness, recorder, cues, model, project }: Scene) {
  recorder.denyWith(harness.denyOutput(REASON));
  cues.give("deny");
  const [command, file] = ["touch denied.txt # é 'q'", "denied-too.txt"];
  const expected = [
    harness.expectedResult(REASON, { toolName: "Bash", command }),
    harness.expectedResult(REASON, { toolName: "apply_patch", command: patchText(file) }),
  ];
  const results = [await told(model, "c_deny"), await told(model, "c_deny_patch")];
  report.check(
    "denied calls: the model gets the reason byte for byte, in the wrapper of this version",
    results.join("\0") === expected.join("\0"),
    JSON.stringify(results),
  );
  const record = harness.record(
    String(recorder.hooks("SessionStart")[0]?.payload["transcript_path"]),
  );
  report.check(
    "the session record holds exactly that",
    record !== null &&
      record.outputs.get("c_deny") === expected[0] &&
      record.outputs.get("c_deny_patch") === expected[1] &&
      record.commands.get("c_deny") === command &&
      record.commands.get("c_deny_patch") === patchText(file),
  );
  report.check(
    "a denied call does not run, and no PostToolUse follows it",
    !["denied.txt", file].some((name) => existsSync(join(project.workspace, name))) &&
      recorder
        .hooks("PostToolUse")
        .every(({ payload }) => !String(payload["tool_use_id"]).startsWith("c_deny")),
  );
  recorder.denyWith(null);
}

/** What Codex opened of the person's own; `.codex` of the workspace it reads and does not write. */
function unread(trace: string, project: Project): [string, boolean, string] {
  const own = join(project.home, ".codex");
  const lines = readFileSync(trace, "utf8").split("\n");
  const opened = lines.filter((l) => l.includes(`"${own}`) && /\bopen(?:at2?)?\(/.test(l));
  const written = lines.filter(
    (l) =>
      l.includes(`"${join(project.workspace, ".codex")}`) &&
      /O_WRONLY|O_RDWR|O_CREAT|\b(?:mkdir|rename|unlink)/.test(l) &&
      !l.includes("ENOENT"),
  );
  return [
    "Codex opens nothing in the person's ~/.codex, and nothing in the workspace's .codex for writing",
    lines.length > 1_000 && opened.length === 0 && written.length === 0,
    [...opened, ...written].slice(0, 10).join("\n"),
  ];
}

async function resumed(report: Report, scene: Scene, socket: string): Promise<void> {
  const { recorder } = scene;
  const session = String(recorder.hooks("SessionStart")[0]?.payload["session_id"]);
  const spec = await prepare(scene, { prompt: SECOND_PROMPT, sessionId: session, resume: true });
  const pane = start(spec, socket);
  await waitFor(() => recorder.hooks("Stop").length > 1, STEP_MS, "second Stop");
  const again = recorder.hooks("SessionStart").at(-1)?.payload;
  report.check(
    "codex resume keeps session id and record",
    again?.["session_id"] === session &&
      again["source"] === "resume" &&
      again["transcript_path"] === recorder.hooks("SessionStart")[0]?.payload["transcript_path"],
    JSON.stringify(again),
  );
  report.check(
    "the resumed session gets its prompt, though it is the name of a command",
    recorder.hooks("UserPromptSubmit").at(-1)?.payload["prompt"] === SECOND_PROMPT,
  );
  await leave(report, scene, pane);
}

/** Ready before there is a session: composer, process and environment are what can be looked at. */
async function withoutPrompt(report: Report, scene: Scene, socket: string): Promise<void> {
  const { recorder, harness, project, model } = scene;
  const before = recorder.hooks().length;
  const spec = await prepare(scene, { incarnation: "incarnation-3" });
  const pane = start(spec, socket);
  await waitFor(() => harness.composer(pane.screen()), STEP_MS, "the composer");
  report.check(
    "a start without a prompt shows its composer, and no hook has run",
    recorder.hooks().length === before && harness.startupDialog(pane.screen()) === null,
  );
  const processes = processesFor();
  const found = spec.marks?.map((name) =>
    processes
      .sample([`${name}=${spec.env[name] ?? ""}`])
      .processes.filter((p) => p.marked === "yes")
      .map((p) => processes.argvOf(p))
      .some((argv) => argv?.slice(-spec.argv.length).join("\0") === spec.argv.join("\0")),
  );
  report.check(
    "its process shows the command line, the secret and the generated home",
    found?.join() === "true,true",
    found?.join(),
  );
  await submit(pane, "SCRIPT:typed please");
  await waitFor(() => existsSync(join(project.workspace, "started.txt")), STEP_MS, "a tool");
  const started = recorder.hooks("SessionStart").at(-1)?.payload;
  report.check("the session is reported with the first prompt", started?.["source"] === "startup");
  pane.send("Escape");
  const interrupted = await firstHook(recorder, "Interrupt");
  const event = harness.interpretEvent(interrupted);
  report.check(
    "Esc is reported as an interrupted turn",
    event.type === "TurnInterrupted" && event.sessionId === started?.["session_id"],
  );
  await waitFor(
    () => harness.record(String(started?.["transcript_path"]))?.outputs.has("c_sleep") === true,
    STEP_MS,
    "the interrupted call's output in the record",
  );
  report.check(
    "nothing more is asked of the model after it",
    model.requests.every((r) => r.script !== "typed" || r.step === 0),
  );
  await leave(report, scene, pane);
}

/** Side questions, for a title, quote the prompt; they have the patch tool alone, no hooks, and a sandbox that writes nothing. */
function everyRequest(report: Report, requests: readonly CodexRequest[]): void {
  report.check(
    "every request says parallel_tool_calls:false",
    requests.length > 0 && requests.every(({ body }) => body.parallel_tool_calls === false),
  );
  const sets = new Set(requests.map((request) => toolNames(request).sort().join()));
  sets.delete("apply_patch");
  report.check(
    `the model is offered exactly ${TOOLS.join(", ")}`,
    [...sets].join(" | ") === TOOLS.join(),
    [...sets].join("\n"),
  );
}

async function firstHook(recorder: HookRecorder, event: string): Promise<Record<string, unknown>> {
  await waitFor(() => recorder.hooks(event).length > 0, STEP_MS, event);
  return recorder.hooks(event)[0]!.payload;
}

async function leave(
  report: Report,
  { recorder }: Scene,
  pane: PaneRun,
  says = true,
): Promise<void> {
  const ends = recorder.hooks("SessionEnd").length;
  await submit(pane, "/quit");
  report.check("/quit ends it with code 0", (await pane.exitCode(STEP_MS)) === 0, pane.screen());
  if (says) await waitFor(() => recorder.hooks("SessionEnd").length > ends, STEP_MS, "SessionEnd");
}
