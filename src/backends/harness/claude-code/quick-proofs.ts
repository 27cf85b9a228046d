/**
 * The quick proofs: the real program, headless, twice, with a launch as kiki prepares it, in folders of its own that
 * hold hooks of every settings scope, against a scripted model on loopback. What it did is then judged (judge.ts).
 */
import { join } from "node:path";
import { errorLine, KikiError } from "../../../core/errors.ts";
import type { Proof } from "../../../core/proofs.ts";
import type { LaunchRequest, ProofRequest } from "../../../ports/harness.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";
import { ensureDir, listDir, writeDurable } from "../../files.ts";
import { makeHookRecorder, type HookRecorder } from "../hook-recorder.ts";
import { shellQuote } from "../launcher.ts";
import { hardestReason, mcpServer, proofLaunch } from "../proof-kit.ts";
import { judge, type Seen, type SeenSession } from "./judge.ts";
import { prepareLaunch, type Isolation } from "./prepare.ts";
import { PROOF_NAMES, proof } from "./proven.ts";
import {
  saidByUser,
  scriptedModel,
  toolResults,
  type ModelBlock,
  type ModelRequest,
} from "./scripted-model.ts";

const DENIED = [
  { id: "toolu_kiki_proof_1", tool: "Bash" },
  { id: "toolu_kiki_proof_2", tool: "Write" },
] as const;
const UNGUARDED = { id: "toolu_kiki_proof_3", tool: "Bash" };
const FIRST_PROMPT = "kiki looks at what this program does. [[kiki:proof-1]]";
const SECOND_PROMPT = "kiki looks once more. [[kiki:proof-2]]";
/** How a program of this kind refuses an option it does not have. */
const NO_FLAGS = /unknown option '?--(?:settings|setting-sources)/;
const DECOYS = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolBatch", "Stop"];
/** Below it a second start is not tried: its end would say nothing about the program. */
const MIN_SECOND_MS = 2_000;
const NOTHING_IMPORTANT_BYTES = 512 * 1024;

const REASON = hardestReason();

interface Scene {
  request: ProofRequest;
  managed: string;
  isolation: Isolation;
  recorder: HookRecorder;
  home: string;
  configDir: string;
  project: string;
  traces: string;
  decoys: string;
  harness: string;
  mcpTrace: string;
  sessionId: string;
  modelUrl: string;
}

/** `deny`: the verdict that refuses a call for a reason. Never throws. */
export async function quickProofs(
  request: ProofRequest,
  managed: string,
  deny: (reason: string) => string,
): Promise<Proof[]> {
  const deadline = performance.now() + request.timeoutMs;
  try {
    const seen = await look(request, managed, deny, "flags", deadline);
    if (seen.first.whole || !NO_FLAGS.test(seen.first.why)) return judge(seen);
    const folder = join(request.folder, "without");
    ensureDir(folder);
    return judge(await look({ ...request, folder }, managed, deny, "local-file", deadline));
  } catch (error) {
    const exclusive = error instanceof KikiError && error.code === "hooks-not-exclusive";
    return PROOF_NAMES.map((name) =>
      exclusive && name === "exclusive-hooks"
        ? proof(name, "failed", errorLine(error))
        : proof(name, "not-tried", errorLine(error)),
    );
  }
}

async function look(
  request: ProofRequest,
  managed: string,
  deny: (reason: string) => string,
  isolation: Isolation,
  deadline: number,
): Promise<Seen> {
  const heard: { denied: ModelRequest | null; unguarded: ModelRequest | null; second: string } = {
    denied: null,
    unguarded: null,
    second: "",
  };
  const scene = makeScene(request, managed, isolation);
  scene.recorder.denyWith(deny(REASON));
  const model = scriptedModel((asked) => {
    const results = toolResults(asked.messages);
    if (saidByUser(asked.messages).includes(SECOND_PROMPT)) {
      heard.second = saidByUser(asked.messages);
      return [{ type: "text", text: "Seen." }];
    }
    if (results.has(UNGUARDED.id)) {
      heard.unguarded = asked;
      return [{ type: "text", text: "Done." }];
    }
    if (DENIED.some(({ id }) => results.has(id))) {
      heard.denied ??= asked;
      scene.recorder.denyWith(null);
      killItself(scene);
      return [touch(scene, UNGUARDED.id)];
    }
    return [touch(scene, DENIED[0].id), writeFile(scene, DENIED[1].id)];
  });
  scene.modelUrl = model.url;
  try {
    const first = await session(scene, false, deadline);
    const hooks = scene.recorder.hooks();
    const left = deadline - performance.now();
    const again = first.whole && left > MIN_SECOND_MS;
    const second = again ? await session(scene, true, deadline) : null;
    return {
      flags: isolation === "flags",
      sessionId: scene.sessionId,
      prompt: FIRST_PROMPT,
      reason: REASON,
      denied: DENIED,
      unguarded: UNGUARDED,
      deniedResults: heard.denied === null ? null : toolResults(heard.denied.messages),
      unguardedResults: heard.unguarded === null ? null : toolResults(heard.unguarded.messages),
      ran: new Set(listDir(scene.traces)),
      decoys: listDir(scene.decoys),
      mcpAsked: listDir(scene.mcpTrace).length > 0,
      first: { ...first, hooks },
      second:
        second === null
          ? null
          : {
              ...second,
              hooks: scene.recorder.hooks().slice(hooks.length),
              heard: heard.second.includes(FIRST_PROMPT),
            },
    };
  } finally {
    await model.close();
  }
}

async function session(
  scene: Scene,
  resume: boolean,
  deadline: number,
): Promise<Omit<SeenSession, "hooks">> {
  const spec = prepareLaunch(launchRequest(scene, resume), scene.managed, scene.isolation);
  const [executable = "", ...rest] = spec.argv;
  const result = await run({
    // The list of tools ends with the next option.
    argv: [executable, "--print", "--allowedTools", "Bash", "Write", ...rest],
    cwd: spec.cwd,
    env: spec.env,
    timeoutMs: Math.max(1, deadline - performance.now()),
    maxOutputBytes: NOTHING_IMPORTANT_BYTES,
    cutOutput: true,
  });
  const seconds = Math.round(scene.request.timeoutMs / 1000);
  if (result.timedOut)
    return { whole: false, why: `it did not come to an end within ${seconds} s` };
  if (result.code === 0) return { whole: true, why: "it ended without asking its model" };
  const said = firstLine(result.stderr) || firstLine(result.stdout.toString("utf8"));
  const how = result.code === null ? `signal ${result.signal}` : `exit code ${result.code}`;
  return {
    whole: false,
    why: `it ended with ${how}${said === "" ? "" : `: ${said.slice(0, 200)}`}`,
  };
}

function launchRequest(scene: Scene, resume: boolean): LaunchRequest {
  const { request, recorder } = scene;
  return proofLaunch(request.folder, recorder.executable, {
    sessionId: scene.sessionId,
    resume,
    workspaceRoot: scene.project,
    folder: scene.harness,
    executable: request.executable,
    prompt: resume ? SECOND_PROMPT : FIRST_PROMPT,
    env: environment(scene),
  });
}

/** No key, login, proxy or folder of the person's; nothing is asked of anybody but the scripted model. */
function environment({ request, home, configDir, modelUrl }: Scene): Record<string, string> {
  const path = request.env["PATH"] ?? baseEnv()["PATH"] ?? "/usr/bin:/bin";
  return {
    PATH: path,
    HOME: home,
    USER: "kiki",
    SHELL: "/bin/sh",
    LANG: "C.UTF-8",
    TMPDIR: join(request.folder, "t"),
    CLAUDE_CONFIG_DIR: configDir,
    CLAUDE_CODE_TMPDIR: join(request.folder, "t"),
    ANTHROPIC_BASE_URL: modelUrl,
    ANTHROPIC_API_KEY: "kiki-proof-no-real-key",
    CLAUDE_CODE_MAX_RETRIES: "0",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
    NO_PROXY: "127.0.0.1,localhost",
  };
}

function makeScene(request: ProofRequest, managed: string, isolation: Isolation): Scene {
  const at = (name: string): string => join(request.folder, name);
  const scene: Scene = {
    request,
    managed,
    isolation,
    recorder: makeHookRecorder(request.folder),
    home: at("home"),
    configDir: at("config"),
    project: at("project"),
    traces: at("project/traces"),
    decoys: at("decoys"),
    harness: at("harness"),
    mcpTrace: at("mcp"),
    sessionId: crypto.randomUUID(),
    modelUrl: "",
  };
  const { home, configDir, project, traces, decoys, harness, mcpTrace } = scene;
  for (const folder of [home, configDir, traces, decoys, harness, mcpTrace, at("t")])
    ensureDir(folder);
  ensureDir(join(project, ".claude"));
  const state = {
    hasCompletedOnboarding: true,
    projects: { [project]: { hasTrustDialogAccepted: true } },
  };
  writeDurable(join(configDir, ".claude.json"), JSON.stringify(state), 0o600);
  const scopes = {
    user: join(configDir, "settings.json"),
    project: join(project, ".claude/settings.json"),
    local: join(project, ".claude/settings.local.json"),
  };
  for (const [scope, path] of Object.entries(scopes))
    writeDurable(path, decoySettings(decoys, scope), 0o600);
  const server = at("mcp.sh");
  writeDurable(server, mcpServer(mcpTrace, []), 0o700);
  const servers = { mcpServers: { kiki_proof: { command: "/bin/sh", args: [server] } } };
  writeDurable(join(project, ".mcp.json"), JSON.stringify(servers), 0o600);
  return scene;
}

function decoySettings(folder: string, scope: string): string {
  const hook = (event: string) => ({
    hooks: [{ type: "command", command: `: >${shellQuote(join(folder, `${scope}-${event}`))}` }],
  });
  return JSON.stringify({ hooks: Object.fromEntries(DECOYS.map((e) => [e, [hook(e)]])) });
}

/** From here on the hook of a call dies before it says anything; every other event is still recorded. */
function killItself({ harness, recorder }: Scene): void {
  const script = `#!/bin/sh
[ "$1" != PreToolUse ] || kill -KILL $$
${shellQuote(recorder.executable)} "$1" >/dev/null
exit 0
`;
  writeDurable(join(harness, "hook"), script, 0o700);
}

function touch(scene: Scene, id: string): ModelBlock {
  const command = `: >${shellQuote(join(scene.traces, id))}`;
  return { type: "tool_use", id, name: "Bash", input: { command, description: "leaves a trace" } };
}

function writeFile(scene: Scene, id: string): ModelBlock {
  const input = { file_path: join(scene.traces, id), content: "" };
  return { type: "tool_use", id, name: "Write", input };
}
