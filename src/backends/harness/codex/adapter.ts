/** Codex behind the harness port (observed on 0.171.0; facts are named where they are relied on). */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { errorLine, fail } from "../../../core/errors.ts";
import { denyVerdict } from "../../../core/generic-deny.ts";
import type {
  Capabilities,
  CodexSettings,
  Harness,
  HarnessEvent,
  LaunchRequest,
  LaunchSpec,
  SessionRecord,
} from "../../../ports/harness.ts";
import { baseEnv, firstLine, run } from "../../exec.ts";
import { ensureDir, readBytes, writeDurable } from "../../files.ts";
import { launcherText } from "../launcher.ts";
import { checkCodexArguments, modelOf } from "./arguments.ts";
import { provideAuth } from "./auth.ts";
import { bundledModels, catalogText, seenUpgrades, type Model } from "./catalog.ts";
import { codexComposer, codexStartupDialog } from "./dialogs.ts";
import { interpretCodexEvent } from "./events.ts";
import { checkLoginShell, PASSWD_FILE } from "./login-shell.ts";
import { checkManaged, MANAGED_FOLDER, readManaged, type ManagedFile } from "./managed.ts";
import { askCodex, foreignFeatures, foreignHooks, judge, type Preflight } from "./preflight.ts";
import { nativeProgram } from "./program.ts";
import { provenCapabilities } from "./proven.ts";
import { RolloutReader } from "./record.ts";
import { configText, overrides, pinned, type ThreadSettings } from "./settings.ts";

/** `codex --version` of a cold 300 MB executable on a busy machine. */
const VERSION_TIMEOUT_MS = 20_000;
const DEFAULTS: CodexSettings = { boundary: "soft", auth: "copy" };
/** Variables that are kiki's own to set, or change where Codex finds its settings. */
const FORBIDDEN = /^(?:BUN_.*|KIKI_.*|NODE_OPTIONS|NODE_CHANNEL_FD|CODEX_.*)$/;
/** `CODEX_HOME` says where the person's login is and is replaced; the others are a key and a certificate. */
const ALLOWED = new Set(["CODEX_HOME", "CODEX_API_KEY", "CODEX_CA_CERTIFICATE"]);
/** What Codex wraps the reason of a refusal in: for a command line or a patch, and for any other tool. */
const COMMAND_TOOLS = new Set(["Bash", "apply_patch"]);
const COMMAND_REFUSED = "Command blocked by PreToolUse hook: ";
const TOOL_REFUSED = "Tool call blocked by PreToolUse hook: ";

export class CodexHarness implements Harness {
  readonly name = "codex";
  readonly batching = "serial";
  readonly naming = "harness";
  readonly #managedFolder: string;
  readonly #passwdFile: string;
  readonly #records = new RolloutReader();

  /** `managedFolder`, `passwdFile`: looked into instead of the machine's own. */
  constructor(options: { managedFolder?: string; passwdFile?: string } = {}) {
    this.#managedFolder = options.managedFolder ?? MANAGED_FOLDER;
    this.#passwdFile = options.passwdFile ?? PASSWD_FILE;
  }

  async version(executable: string, env: Record<string, string>): Promise<string> {
    const result = await run({
      argv: [nativeProgram(executable), "--version"],
      cwd: "/",
      env: baseEnv(env),
      timeoutMs: VERSION_TIMEOUT_MS,
    }).catch((error: unknown) => {
      throw badVersion(executable, errorLine(error));
    });
    if (result.timedOut) throw badVersion(executable, "it does not answer");
    const found = /^codex-cli (\d+\.\d+\.\d+\S*)/.exec(firstLine(result.stdout.toString("utf8")));
    if (result.code !== 0 || found?.[1] === undefined) {
      throw badVersion(executable, firstLine(result.stderr) || "it prints no version");
    }
    return found[1];
  }

  capabilities(version: string): Capabilities {
    return provenCapabilities(version);
  }

  checkArguments(extraArgs: readonly string[]): void {
    checkCodexArguments(extraArgs);
  }

  async prepare(request: LaunchRequest): Promise<LaunchSpec> {
    checkCodexArguments(request.extraArgs);
    checkEnvironment(request.env);
    checkLoginShell(this.#passwdFile);
    const managed = readManaged(this.#managedFolder);
    checkManaged(managed);
    const launch = new Launch(request);
    const preflight = await launch.generate();
    return launch.spec(preflight, managed);
  }

  interpretEvent(raw: unknown): HarnessEvent {
    return interpretCodexEvent(raw);
  }

  record(path: string): SessionRecord | null {
    return this.#records.read(path);
  }

  /** Fields beyond these would make the verdict invalid, and the tool run. */
  denyOutput(reason: string): string {
    return denyVerdict(reason.trim());
  }

  /** Byte-exact for whole results below 480,000 bytes, with the limit kiki generates (0.171.0). */
  expectedResult(reason: string, call: { toolName: string; command?: string | undefined }): string {
    const { toolName, command } = call;
    return COMMAND_TOOLS.has(toolName)
      ? `${COMMAND_REFUSED}${reason.trim()}. Command: ${command ?? ""}`
      : `${TOOL_REFUSED}${reason.trim()}. Tool: ${toolName}`;
  }

  refusalPrefixes(): readonly string[] {
    return [COMMAND_REFUSED, TOOL_REFUSED];
  }

  startupDialog(paneText: string): string | null {
    return codexStartupDialog(paneText);
  }

  composer(paneText: string): boolean {
    return codexComposer(paneText);
  }
}

/** Everything generated for one start. */
class Launch {
  readonly #request: LaunchRequest;
  readonly #codex: CodexSettings;
  readonly #program: string;
  readonly #home: string;
  readonly #hook: string;
  readonly #workspace: string;
  readonly #files: string[] = [];
  #settings: ThreadSettings;

  constructor(request: LaunchRequest) {
    this.#request = request;
    this.#codex = request.codex ?? DEFAULTS;
    this.#program = nativeProgram(request.executable);
    ensureDir(join(request.folder, "codex-home"));
    // Trust is by real path: through a link its keys would not be found.
    this.#home = realpathSync(join(request.folder, "codex-home"));
    this.#workspace = realpathSync(request.workspaceRoot);
    this.#hook = join(request.folder, "hook");
    this.#settings = {
      configFile: join(this.#home, "config.toml"),
      workspace: this.#workspace,
      hook: this.#hook,
      catalogFile: this.#codex.boundary === "soft" ? join(this.#home, "models.json") : null,
      briefing: request.briefing,
      incarnation: request.incarnation,
      seenUpgrades: {},
      foreign: {},
      projectFeatures: [],
    };
  }

  /** Writes the files, asks Codex what it makes of them, and answers what a project says against them. */
  async generate(): Promise<Preflight> {
    const { env, extraArgs } = this.#request;
    provideAuth(this.#codex.auth, { home: this.#home, personal: personalHome(this.#request), env });
    this.#write(this.#hook, launcherText(this.#request), 0o700);
    const models = await this.#models();
    let model = modelOf(extraArgs);
    this.#writeSettings(models, model);
    let preflight = await this.#ask();
    const foreign = foreignHooks(preflight, this.#settings.configFile);
    const projectFeatures = foreignFeatures(preflight);
    const effective = preflight.config["model"];
    const unknownModel = model === null && typeof effective === "string" && effective !== model;
    if (unknownModel) model = effective;
    const news = Object.keys(foreign).length + projectFeatures.length > 0;
    if (news || (unknownModel && !models.some(({ slug }) => slug === model))) {
      this.#settings = { ...this.#settings, foreign, projectFeatures };
      this.#writeSettings(models, model);
      preflight = await this.#ask();
    }
    judge(preflight, { ...this.#settings, pinned: pinned(this.#settings) });
    return preflight;
  }

  spec(preflight: Preflight, managed: readonly ManagedFile[]): LaunchSpec {
    const { resume, sessionId, prompt } = this.#request;
    const resumed = resume ? sessionId : null;
    const argv = [
      this.#program,
      ...(resumed === null ? [] : ["resume"]),
      "--no-daemon",
      ...this.#arguments(),
      // Lets a prompt begin with a dash, and be the name of a command.
      ...(resumed === null && prompt === null ? [] : ["--"]),
      ...(resumed === null ? [] : [resumed]),
      ...(prompt === null ? [] : [prompt]),
    ];
    return {
      argv,
      env: this.#environment(),
      cwd: this.#workspace,
      settingsFingerprint: this.#fingerprint(argv, preflight, managed),
      files: [...this.#files],
      marks: ["KIKI_INCARNATION_SECRET", "CODEX_HOME"],
      ...(this.#codex.boundary === "soft" ? {} : { withholds: ["parallel_batch_boundary"] }),
    };
  }

  /** The person's, then kiki's: the last one counts. */
  #arguments(): string[] {
    return [...this.#request.extraArgs, "--enable", "hooks", ...overrides(pinned(this.#settings))];
  }

  async #models(): Promise<readonly Model[]> {
    const { env } = this.#request;
    const bytes = realpathSync(this.#program);
    const identity = `${bytes} ${Bun.file(bytes).lastModified}`;
    return bundledModels({
      program: this.#program,
      identity,
      env: { ...env, CODEX_HOME: this.#home },
    });
  }

  #writeSettings(models: readonly Model[], model: string | null): void {
    const { catalogFile, configFile } = this.#settings;
    this.#settings = { ...this.#settings, seenUpgrades: seenUpgrades(models) };
    if (catalogFile !== null) this.#write(catalogFile, catalogText(models, model), 0o600);
    this.#write(configFile, configText(this.#settings), 0o600);
  }

  #ask(): Promise<Preflight> {
    const server = ["--enable", "hooks", ...overrides(pinned(this.#settings))];
    return askCodex({
      program: this.#program,
      args: [...settingsIn(this.#request.extraArgs), ...server],
      home: this.#home,
      workspace: this.#workspace,
      // Without kiki's own: no process but the agent's may be taken for the agent's.
      env: { ...this.#request.env, CODEX_HOME: this.#home },
    });
  }

  #write(path: string, text: string, mode: number): void {
    writeDurable(path, text, mode);
    if (!this.#files.includes(path)) this.#files.push(path);
  }

  #environment(): Record<string, string> {
    const request = this.#request;
    return {
      ...request.env,
      CODEX_HOME: this.#home,
      KIKI_THREAD_ID: request.threadId,
      KIKI_REPO_ID: request.repoId,
      KIKI_STATE_DIR: request.hook.stateDir,
      KIKI_INCARNATION: request.incarnation,
      KIKI_INCARNATION_SECRET: request.incarnationSecret,
    };
  }

  /** Covers every generated file, the command line and the evidence that nobody else can hook. */
  #fingerprint(
    argv: readonly string[],
    preflight: Preflight,
    managed: readonly ManagedFile[],
  ): string {
    const hash = new Bun.CryptoHasher("sha256");
    const add = (label: string, bytes: Uint8Array | string | null): void => {
      // The length keeps two different splits of the same bytes apart.
      const length = bytes === null ? -1 : Buffer.byteLength(bytes);
      hash.update(`${label}\0${length}\0`).update(bytes ?? "");
    };
    for (const path of this.#files) add(path, readBytes(path));
    for (const { path, text } of managed) add(path, text);
    add("hooks/list", JSON.stringify(preflight.hooks));
    add("argv", JSON.stringify(argv));
    return hash.digest("hex");
  }
}

/** Only what the app server takes as well: `-c`, and the model as one of them. */
function settingsIn(extraArgs: readonly string[]): string[] {
  const model = modelOf(extraArgs);
  const settings: string[] = [];
  extraArgs.forEach((argument, i) => {
    if (argument === "-c" || argument === "--config") settings.push("-c", extraArgs[i + 1] ?? "");
    else if (argument.startsWith("--config=")) settings.push("-c", argument.slice(9));
    else if (/^-c./.test(argument)) settings.push("-c", argument.slice(2).replace(/^=/, ""));
  });
  return model === null ? settings : [...settings, "-c", `model=${JSON.stringify(model)}`];
}

/** Where the person's own Codex keeps its login; never a home that kiki has generated for another thread. */
function personalHome({ env, hook }: LaunchRequest): string {
  const named = env["CODEX_HOME"] ?? "";
  const usable = named !== "" && !`${named}/`.startsWith(`${hook.stateDir}/`);
  return usable ? named : join(env["HOME"] ?? "/", ".codex");
}

function checkEnvironment(env: Record<string, string>): void {
  const bad = Object.keys(env).find((name) => FORBIDDEN.test(name) && !ALLOWED.has(name));
  if (bad === undefined) return;
  throw fail(
    "usage",
    "harness-env",
    `the variable ${bad} cannot be passed to Codex in a thread: it changes settings or hooks`,
    `unset ${bad}`,
  );
}

function badVersion(executable: string, what: string): Error {
  return fail(
    "failed",
    "harness-version",
    `${executable} does not say its version: ${what}`,
    "install Codex, or name its executable in the configuration",
  );
}
