/** What is written and proved for one launch of Codex, and its command line (facts of 0.171.0). */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import { fail } from "../../../core/errors.ts";
import type { Proof } from "../../../core/proofs.ts";
import type { CodexSettings, LaunchRequest, LaunchSpec } from "../../../ports/harness.ts";
import { ensureDir, readBytes, writeDurable } from "../../files.ts";
import { launcherText } from "../launcher.ts";
import { checkCodexArguments, modelOf, writableRootsOf } from "./arguments.ts";
import { provideAuth } from "./auth.ts";
import { bundledModels, catalogText, seenUpgrades, type Model } from "./catalog.ts";
import { checkLoginShell } from "./login-shell.ts";
import { checkManaged, readManaged, type ManagedFile } from "./managed.ts";
import {
  askCodex,
  foreignFeatures,
  foreignHooks,
  judge,
  keepMark,
  type Preflight,
} from "./preflight.ts";
import { nativeProgram } from "./program.ts";
import { configText, overrides, pinned, type ThreadSettings } from "./settings.ts";
import { jjStores } from "./stores.ts";

const DEFAULTS: CodexSettings = { boundary: "soft", auth: "copy" };
/** Variables that are kiki's own to set, or change where Codex finds its settings. */
const FORBIDDEN = /^(?:BUN_.*|KIKI_.*|NODE_OPTIONS|NODE_CHANNEL_FD|CODEX_.*)$/;
/** `CODEX_HOME` says where the person's login is and is replaced; the others are a key and a certificate. */
const ALLOWED = new Set(["CODEX_HOME", "CODEX_API_KEY", "CODEX_CA_CERTIFICATE"]);
/** Places of the machine that are looked into. */
export interface Machine {
  /** Where managed policy is. */
  managedFolder: string;
  passwdFile: string;
}

/**
 * `deadline`: of everything that is asked of Codex, on the clock of `performance`. Throws KikiError `harness-arg`,
 * `harness-env`, `hooks-not-exclusive`, `codex-settings`, `codex-home`, `codex-preflight`, `codex-auth`, `codex-catalog`.
 */
export async function prepareLaunch(
  request: LaunchRequest,
  { managedFolder, passwdFile }: Machine,
  deadline = Infinity,
): Promise<LaunchSpec> {
  checkCodexArguments(request.extraArgs);
  checkEnvironment(request.env);
  checkLoginShell(passwdFile);
  const managed = readManaged(managedFolder);
  checkManaged(managed);
  const launch = new Launch(request, deadline);
  const preflight = await launch.generate();
  return launch.spec(preflight, managed);
}

/** The preflight throws where it finds anything else: what is launched has been proved. */
function launchProofs({ boundary }: CodexSettings): Proof[] {
  const proofs: Proof[] = [
    {
      name: "hooks-list",
      takes: ["exclusive_pre_tool_use"],
      outcome: "proved",
      reason: "Codex lists kiki's hooks, trusted, and nothing else that would run",
    },
  ];
  if (boundary === "restart")
    proofs.push({
      name: "boundary-setting",
      takes: ["parallel_batch_boundary"],
      outcome: "not-tried",
      reason: '[agent.codex] boundary = "restart" leaves its models as they are',
    });
  return proofs;
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
  readonly #deadline: number;
  #settings: ThreadSettings;

  constructor(request: LaunchRequest, deadline: number) {
    this.#request = request;
    this.#deadline = deadline;
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
      variables: null,
      writableRoots: [...writableRootsOf(request.extraArgs), ...jjStores(this.#workspace)],
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
    const variables = keepMark(preflight);
    const effective = preflight.config["model"];
    const unknownModel = model === null && typeof effective === "string" && effective !== model;
    if (unknownModel) model = effective;
    const news = Object.keys(foreign).length + projectFeatures.length > 0 || variables !== null;
    if (news || (unknownModel && !models.some(({ slug }) => slug === model))) {
      this.#settings = { ...this.#settings, foreign, projectFeatures, variables };
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
      proofs: launchProofs(this.#codex),
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
      timeoutMs: this.#left(),
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
      timeoutMs: this.#left(),
    });
  }

  #left(): number {
    return Math.max(1, this.#deadline - performance.now());
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
