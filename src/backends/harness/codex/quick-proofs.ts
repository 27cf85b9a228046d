/**
 * The quick proofs of Codex: the real program plays two sessions, a whole one without a terminal and then the same one
 * resumed on a terminal, exactly as a thread is started again, with a launch as kiki prepares it, in folders of its own
 * that hold hooks of the person and the project, against a scripted model on loopback. What it did is then judged
 * (quick-judge.ts).
 */
import { realpathSync } from "node:fs";
import { join, relative } from "node:path";
import { stringify } from "smol-toml";
import { errorLine, KikiError } from "../../../core/errors.ts";
import type { Proof } from "../../../core/proofs.ts";
import type { LaunchSpec, ProofRequest } from "../../../ports/harness.ts";
import { baseEnv, firstLine, run, runOnTerminal, type RunResult } from "../../exec.ts";
import { ensureDir, listDir, writeDurable } from "../../files.ts";
import { makeHookRecorder, type HookRecorder } from "../hook-recorder.ts";
import { shellQuote } from "../launcher.ts";
import { mcpServer, proofLaunch } from "../proof-kit.ts";
import { HOOK_EVENTS } from "./hook-trust.ts";
import { prepareLaunch, type Machine } from "./launch.ts";
import { PROOF_NAMES, proof } from "./proven.ts";
import { judgeSeen, type Seen, type SeenSession } from "./quick-judge.ts";
import {
  CALL,
  eventOf,
  MCP_SERVER,
  patchText,
  REASON,
  Script,
  touchCommand,
  type ScriptPlaces,
} from "./quick-script.ts";
import { findRecord, RolloutReader } from "./record.ts";
import { scriptedModel, type ScriptedModel } from "./scripted-model.ts";

const FIRST_PROMPT = "kiki looks at what this program does. [[kiki:proof-1]]";
const SECOND_PROMPT = "-x\nkiki looks once more. [[kiki:proof-2]]";
/** What was seen and must not be; with anything else nothing was seen. */
const REFUTED = new Set(["hooks-not-exclusive", "codex-settings", "codex-home"]);
/** Below it a second start is not tried: its end would say nothing about the program. */
const MIN_SECOND_MS = 2_000;
const NOTHING_IMPORTANT_BYTES = 512 * 1024;
const TRACES = "traces";

interface Scene {
  request: ProofRequest;
  machine: Machine;
  deadline: number;
  /** The proof's own folder, a real path. */
  root: string;
  project: string;
  recorder: HookRecorder;
  places: ScriptPlaces;
  model: Pick<ScriptedModel, "origin" | "url">;
}

type Expected = Seen["expected"] extends (call: infer Call) => string
  ? (reason: string, call: Call) => string
  : never;

/** `expected`: what the model should get for a call refused for a reason. Never throws. */
export async function quickProofs(
  request: ProofRequest,
  machine: Machine,
  expected: Expected,
): Promise<Proof[]> {
  try {
    return judgeSeen(await look(request, machine, expected));
  } catch (error) {
    const refuted = isRefuted(error);
    return PROOF_NAMES.map((name) =>
      proof(name, refuted && name === "exclusive-hooks" ? "failed" : "not-tried", errorLine(error)),
    );
  }
}

function isRefuted(error: unknown): boolean {
  return error instanceof KikiError && REFUTED.has(error.code);
}

async function look(request: ProofRequest, machine: Machine, expected: Expected): Promise<Seen> {
  const scene = makeScene(request, machine);
  const { places, recorder, root } = scene;
  let script = Script.whole(places);
  const model = scriptedModel((asked) => script.answer(asked));
  scene.model = model;
  try {
    const spec = await prepare(scene, null);
    const refusedArguments = await refusal(scene, spec);
    const ended = await session(scene, spec, script);
    const first = { ...ended, hooks: recorder.hooks(), prompt: FIRST_PROMPT };
    const id = sessionOf(first);
    const evidence = { ...hookEvidence(scene), recordPath: recordPath(scene, id) };
    const again = id !== null && first.whole && left(scene) > MIN_SECOND_MS;
    let second: Seen["second"] = null;
    if (again) {
      script = Script.again(places);
      const more = await resumed(scene, id, script);
      const hooks = recorder.hooks().slice(first.hooks.length);
      const heard = more.asked.some(
        ({ said: all }) => all.includes(FIRST_PROMPT) && all.includes(SECOND_PROMPT),
      );
      second = { ...more, hooks, prompt: SECOND_PROMPT, heard };
    }
    return {
      refusedArguments,
      commands: new Map([
        [CALL.command, touchCommand(places.traces.path, CALL.command)],
        [CALL.patch, patchText(TRACES)],
      ]),
      expected: (call) => expected(REASON, call),
      ...evidence,
      ran: new Set(listDir(places.traces.path)),
      decoys: listDir(join(root, "decoys")),
      mcpAsked: listDir(join(root, "mcp")).includes("asked"),
      first,
      second,
    };
  } finally {
    await model.close();
  }
}

/** `resume`: id of the session to take up again. */
function prepare(scene: Scene, resume: string | null): Promise<LaunchSpec> {
  const { request, root, project, recorder, model, machine, deadline } = scene;
  const launch = proofLaunch(root, recorder.executable, {
    sessionId: resume,
    resume: resume !== null,
    workspaceRoot: project,
    folder: join(root, "harness"),
    executable: request.executable,
    prompt: resume === null ? FIRST_PROMPT : SECOND_PROMPT,
    extraArgs: settings(model.url).flatMap((setting) => ["-c", setting]),
    env: environment(scene),
  });
  return prepareLaunch(launch, machine, deadline);
}

/** The scripted model as a provider that asks for no login, and nothing that a person would have to allow. */
function settings(url: string): string[] {
  const provider = "model_providers.kiki";
  return [
    "model_provider=kiki",
    `${provider}.name="kiki"`,
    `${provider}.base_url=${JSON.stringify(url)}`,
    `${provider}.wire_api="responses"`,
    `${provider}.requires_openai_auth=false`,
    `${provider}.supports_websockets=false`,
    `${provider}.request_max_retries=0`,
    `${provider}.stream_max_retries=0`,
    'sandbox_mode="danger-full-access"',
    'approval_policy="never"',
  ];
}

/** No key, login or folder of the person's; whatever it would ask of anybody else ends at the scripted model. */
function environment({ request, root, model }: Scene): Record<string, string> {
  const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [
    [name, model.origin] as const,
    [name.toLowerCase(), model.origin] as const,
  ]);
  return {
    PATH: request.env["PATH"] ?? baseEnv()["PATH"] ?? "/usr/bin:/bin",
    HOME: join(root, "home"),
    USER: "kiki",
    SHELL: "/bin/sh",
    LANG: "C.UTF-8",
    TMPDIR: join(root, "t"),
    ...Object.fromEntries(proxies),
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
  };
}

const left = ({ deadline }: Scene): number => Math.max(1, deadline - performance.now());

/** What it says against the command line of a first start, whose help it shows otherwise; null: nothing. */
async function refusal(scene: Scene, spec: LaunchSpec): Promise<string | null> {
  const result = await runIt(scene, spec, [...beforeWords(spec.argv), "--help"]);
  if (result.timedOut) return "";
  return result.code === 0 ? null : said(result) || `exit code ${result.code}`;
}

async function session(
  scene: Scene,
  spec: LaunchSpec,
  script: Script,
): Promise<Pick<SeenSession, "asked" | "whole" | "why">> {
  const { argv } = spec;
  const before = beforeWords(argv);
  // The same line without what only the interactive program knows.
  const own = before.slice(1).filter((word) => word !== "resume" && word !== "--no-daemon");
  const resume = before.includes("resume") ? ["resume"] : [];
  const result = await runIt(scene, spec, [
    before[0] ?? "",
    "exec",
    ...resume,
    "--skip-git-repo-check",
    ...own,
    ...argv.slice(before.length),
  ]);
  const { asked } = script;
  if (result.timedOut) return { asked, whole: false, why: tooLong(scene) };
  if (result.code === 0) {
    const nothing = "it ended without asking its model";
    const why = asked.length === 0 ? nothing : "it ended before its model had asked for everything";
    return { asked, whole: true, why };
  }
  const words = said(result);
  const how = result.code === null ? `signal ${result.signal}` : `exit code ${result.code}`;
  return { asked, whole: false, why: `it ended with ${how}${words === "" ? "" : `: ${words}`}` };
}

/** As a thread is started again, on a terminal of its own, until its model has been told of its one call. */
async function resumed(
  scene: Scene,
  id: string,
  script: Script,
): Promise<Pick<SeenSession, "asked" | "whole" | "why">> {
  let spec: LaunchSpec;
  try {
    spec = await prepare(scene, id);
  } catch (error) {
    if (isRefuted(error)) throw error;
    // Its time was over, for example: what the first session has shown stays.
    return { asked: [], whole: false, why: errorLine(error) };
  }
  const { argv, cwd, env } = spec;
  const request = { argv, cwd, env, timeoutMs: left(scene) };
  const { ended, code, shown } = await runOnTerminal(request, () => script.told(CALL.again));
  const { asked } = script;
  if (ended === "over") return { asked, whole: true, why: "" };
  if (ended === "timed-out") return { asked, whole: false, why: `on a terminal ${tooLong(scene)}` };
  const error = lineOfError(shown);
  const how = code === null ? "a signal" : `exit code ${code}`;
  const why = `on a terminal it ended with ${how}${error === "" ? "" : `: ${error}`}`;
  return { asked, whole: false, why };
}

function tooLong({ request }: Scene): string {
  return `it did not come to an end within ${Math.round(request.timeoutMs / 1000)} s`;
}

/** Up to the `--` before session and prompt. */
function beforeWords(argv: readonly string[]): string[] {
  return argv.slice(0, argv.indexOf("--"));
}

function runIt(scene: Scene, { cwd, env }: LaunchSpec, argv: string[]): Promise<RunResult> {
  return run({
    argv,
    cwd,
    env,
    timeoutMs: left(scene),
    maxOutputBytes: NOTHING_IMPORTANT_BYTES,
    cutOutput: true,
  });
}

/** The line of an error, where there is one: progress goes to the same stream. */
function said({ stderr, stdout }: RunResult): string {
  const line = lineOfError(stderr) || firstLine(stderr) || firstLine(stdout.toString("utf8"));
  return line.slice(0, 200);
}

function lineOfError(text: string): string {
  const line = text.split("\n").find((one) => /^\s*error/i.test(one));
  return line?.trim().slice(0, 200) ?? "";
}

function sessionOf({ hooks }: Pick<SeenSession, "hooks">): string | null {
  const started = hooks.map((hook) => eventOf(hook)).find((e) => e?.type === "SessionStarted");
  return started?.type === "SessionStarted" ? started.sessionId : null;
}

function recordPath({ root }: Scene, session: string | null): string | null {
  return session === null ? null : findRecord(join(root, "harness/codex-home"), session);
}

/** What was kept while hooks ran. */
function hookEvidence({ recorder, places }: Scene): Pick<Seen, "atHook" | "early"> {
  const atHook = new Map<string, number | undefined>();
  let early = false;
  for (const hook of recorder.hooks("PreToolUse")) {
    const event = eventOf(hook);
    if (event?.type !== "PreTool" || event.recordPath === null) continue;
    const copy = join(hook.at, "sessions", relative(places.sessions, event.recordPath));
    const record = new RolloutReader().read(copy);
    atHook.set(event.toolUseId, record?.responses.get(event.toolUseId));
    early ||= listDir(hook.at).includes("early");
  }
  return { atHook, early };
}

function makeScene(request: ProofRequest, machine: Machine): Scene {
  const root = realpathSync(request.folder);
  const at = (name: string): string => join(root, name);
  const project = at("project");
  const folders = [
    "home/.codex",
    "project/.codex",
    "project/traces",
    "decoys",
    "mcp",
    "harness",
    "t",
  ];
  for (const name of folders) ensureDir(at(name));
  for (const [scope, path] of [
    ["user", "home/.codex"],
    ["project", "project/.codex"],
  ] as const)
    writeDurable(at(`${path}/hooks.json`), decoyHooks(at("decoys"), `${scope}-json`), 0o600);
  const server = at("mcp.sh");
  writeDurable(server, mcpServer(at("mcp"), ["look"]), 0o700);
  const servers = { [MCP_SERVER]: { command: "/bin/sh", args: [server] } };
  const config = (scope: string): string =>
    stringify({ hooks: decoys(at("decoys"), `${scope}-toml`), mcp_servers: servers });
  writeDurable(at("project/.codex/config.toml"), config("project"), 0o600);
  writeDurable(at("home/.codex/config.toml"), config("user"), 0o600);
  const recorder = makeHookRecorder(root);
  return {
    request,
    machine,
    deadline: performance.now() + request.timeoutMs,
    root,
    project,
    recorder,
    places: {
      recorder,
      traces: { name: TRACES, path: join(project, TRACES) },
      sessions: at("harness/codex-home/sessions"),
      launcher: at("harness/hook"),
      stop: at("stop"),
    },
    model: { origin: "", url: "" },
  };
}

function decoys(folder: string, scope: string): Record<string, object[]> {
  const hook = (event: string) => ({
    hooks: [{ type: "command", command: `: >${shellQuote(join(folder, `${scope}-${event}`))}` }],
  });
  return Object.fromEntries(Object.keys(HOOK_EVENTS).map((event) => [event, [hook(event)]]));
}

function decoyHooks(folder: string, scope: string): string {
  return JSON.stringify({ hooks: decoys(folder, scope) });
}
