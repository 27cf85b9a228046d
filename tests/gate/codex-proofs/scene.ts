/**
 * One run of the real Codex for one proof: a folder of its own with home, project, model and a recorder where kk-hook
 * would be; prepared exactly as kiki's adapter prepares it and, to turn a proof round, changed after that.
 */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { parse, stringify } from "smol-toml";
import { hookHash, hookKey, type HookEvent } from "../../../fixtures/agents/codex-cli/hook-hash.ts";
import {
  outputOf,
  startCodexModelServer,
  type CodexModelServer,
  type CodexModelServerOptions,
  type CodexRequest,
  type CodexScripts,
} from "../../../fixtures/model-servers/codex.ts";
import { CodexHarness } from "../../../src/backends/harness/codex/adapter.ts";
import type { LaunchSpec } from "../../../src/ports/harness.ts";
import { runInPane, tmuxOn, type PaneRun } from "../../support/tmux.ts";
import { providerSettings } from "../codex-provider.ts";
import {
  makeHookRecorder,
  type HookRecorder,
} from "../../../src/backends/harness/hook-recorder.ts";
import { CODEX } from "../install.ts";
import type { Wrap } from "../mounts.ts";
import type { ProofRun } from "../proof.ts";

/** A whole headless run: start, a few answers of the model, end. One that takes longer has gone wrong. */
const PRINT_MS = 180_000;

export type Table = Record<string, unknown>;

export interface SceneOptions {
  scripts?: (scene: CodexScene) => CodexScripts;
  first?: CodexModelServerOptions["first"];
  /** Folder managed policy is read from by the adapter; the program itself reads /etc/codex. */
  managedFolder?: string;
  /** `-c` settings of the person's, besides those for the scripted model. */
  settings?: readonly string[];
}

export interface StartOptions {
  prompt: string | null;
  /** Id of the session to take up again. */
  resume?: string;
  /** Last change of the generated `config.toml`, for what kiki itself never writes. */
  config?: (config: Table) => Table;
  /** The same for the generated catalog. */
  catalog?: (model: Table) => Table;
  /** `-c` settings after kiki's, which therefore count. */
  settings?: readonly string[];
  /** Last change of the command line. */
  argv?: (argv: readonly string[]) => string[];
  env?: Record<string, string>;
  /** Called when everything is prepared, right before the start. */
  ready?: () => void;
}

export type PrintOptions = StartOptions & { prompt: string; wrap?: Wrap };
/** What one run has besides its prompt. */
export type StartChanges = Omit<StartOptions, "prompt">;

export interface PrintResult {
  code: number;
  out: string;
  err: string;
}

export class CodexScene {
  readonly folder: string;
  /** The workspace, a real path. */
  readonly project: string;
  /** The person's HOME; `.codex` in it is theirs. */
  readonly home: string;
  readonly model: CodexModelServer;
  readonly recorder: HookRecorder;
  readonly harness: CodexHarness;
  readonly #options: SceneOptions;
  readonly #socket: string;
  #panes = 0;

  private constructor(run: ProofRun, options: SceneOptions) {
    this.#options = options;
    this.folder = realpathSync(run.folder);
    this.project = join(this.folder, "project");
    this.home = join(this.folder, "home");
    for (const name of ["project", "home", "tmp", "markers"]) mkdirSync(join(this.folder, name));
    mkdirSync(join(this.folder, "harness"), { mode: 0o700 });
    this.#socket = join(this.folder, "tmux.sock");
    this.model = startCodexModelServer({
      scripts: options.scripts?.(this) ?? {},
      recordDir: join(this.folder, "model"),
      ...(options.first === undefined ? {} : { first: options.first }),
    });
    this.recorder = makeHookRecorder(this.folder);
    this.harness = new CodexHarness({
      managedFolder: options.managedFolder ?? join(this.folder, "no-policy"),
    });
  }

  static async use<T>(
    run: ProofRun,
    options: SceneOptions,
    body: (scene: CodexScene) => Promise<T>,
  ): Promise<T> {
    const scene = new CodexScene(run, options);
    try {
      return await body(scene);
    } finally {
      if (scene.#panes > 0 && !run.options.keep) await tmuxOn(scene.#socket).kill();
      await scene.model.close();
    }
  }

  file(name: string): string {
    return join(this.project, name);
  }

  has(name: string): boolean {
    return existsSync(this.file(name));
  }

  /** Writes a file below the scene's folder. */
  put(name: string, text: string): string {
    const path = join(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** The generated CODEX_HOME. */
  get codexHome(): string {
    return join(this.folder, "harness/codex-home");
  }

  get barrier(): string {
    return join(this.folder, "harness/barrier");
  }

  get launcher(): string {
    return join(this.folder, "harness/hook");
  }

  get passed(): string {
    return join(this.folder, "harness/passed");
  }

  /** A hook command that leaves a file of that name. */
  mark(name: string): string {
    return `: >'${join(this.folder, "markers", name)}'`;
  }

  markers(scope: string): string[] {
    return readdirSync(join(this.folder, "markers"))
      .filter((name) => name.startsWith(`${scope}-`))
      .sort();
  }

  async prepare(start: StartOptions): Promise<LaunchSpec> {
    const folder = join(this.folder, "harness");
    const settings = [...providerSettings(this.model.url), ...(this.#options.settings ?? [])];
    const spec = await this.harness.prepare({
      repoId: "repo",
      threadId: "thread",
      threadName: "proof",
      incarnation: "incarnation-1",
      incarnationSecret: "secret",
      sessionId: start.resume ?? null,
      resume: start.resume !== undefined,
      workspaceRoot: this.project,
      folder,
      executable: CODEX,
      prompt: start.prompt,
      extraArgs: settings.flatMap((setting) => ["-c", setting]),
      env: {
        PATH: process.env["PATH"] ?? "/usr/bin:/bin",
        HOME: this.home,
        TMPDIR: join(this.folder, "tmp"),
        LANG: "C.UTF-8",
      },
      briefing: null,
      hook: {
        executable: this.recorder.executable,
        socket: join(this.folder, "kkd.sock"),
        credentialFile: join(folder, "credential"),
        errorLog: join(this.folder, "errors.log"),
        passedFolder: this.passed,
        spoolFolder: join(folder, "spool"),
        barrierFile: this.barrier,
        kk: "/nonexistent/kk",
        stateDir: join(this.folder, "state"),
      },
    });
    this.#change(start);
    const end = spec.argv.indexOf("--");
    const at = end < 0 ? spec.argv.length : end;
    const more = (start.settings ?? []).flatMap((setting) => ["-c", setting]);
    const argv = [...spec.argv.slice(0, at), ...more, ...spec.argv.slice(at)];
    start.ready?.();
    return { ...spec, argv: start.argv?.(argv) ?? argv, env: { ...spec.env, ...start.env } };
  }

  #change({ config, catalog }: StartOptions): void {
    const configFile = join(this.codexHome, "config.toml");
    const catalogFile = join(this.codexHome, "models.json");
    if (config !== undefined)
      writeFileSync(
        configFile,
        stringify(config(parse(readFileSync(configFile, "utf8")) as Table)),
      );
    if (catalog !== undefined) {
      const { models } = JSON.parse(readFileSync(catalogFile, "utf8")) as { models: Table[] };
      writeFileSync(catalogFile, JSON.stringify({ models: models.map(catalog) }));
    }
  }

  /** Headless, to its end. */
  async print(start: PrintOptions): Promise<PrintResult> {
    const { argv, env } = await this.prepare(start);
    const end = argv.indexOf("--");
    const [program = CODEX, ...words] = argv.slice(0, end);
    const own = words.filter((word) => word !== "resume" && word !== "--no-daemon");
    const line = [
      program,
      "exec",
      ...(start.resume === undefined ? [] : ["resume"]),
      "--skip-git-repo-check",
      ...own,
      ...argv.slice(end),
    ];
    const child = Bun.spawn(start.wrap?.(line) ?? line, {
      cwd: this.project,
      env,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: PRINT_MS,
    });
    const [code, out, err] = await Promise.all([
      child.exited,
      child.stdout.text(),
      child.stderr.text(),
    ]);
    if (child.signalCode !== null)
      throw new Error(`the headless run was ended by ${child.signalCode}: ${err.slice(-500)}`);
    this.put("exec-out.txt", `${code}\n${out}\n${err}`);
    return { code, out, err };
  }

  /** Interactive, in a pane, as a thread starts it. */
  async pane(start: StartOptions): Promise<PaneRun> {
    const { argv, env } = await this.prepare(start);
    this.#panes += 1;
    return runInPane({
      socket: this.#socket,
      env,
      cwd: this.project,
      command: argv,
      columns: 140,
      rows: 45,
    });
  }

  /** What the model was told last about that call, over all its requests; null: nothing. */
  told(callId: string): string | null {
    const all = this.model.requests.map((request) => outputOf(request, callId));
    return all.findLast((text) => text !== undefined) ?? null;
  }

  request(script: string, step: number): CodexRequest | undefined {
    return this.model.requests.find((r) => r.script === script && r.step === step);
  }

  /** The session's record, as a hook names it. */
  get recordPath(): string {
    const path = this.recorder.hooks("SessionStart")[0]?.payload["transcript_path"];
    if (typeof path !== "string") throw new Error("no SessionStart names a record");
    return path;
  }

  /** Whether a hook of that event was asked about that call. */
  hooked(event: HookEvent, callId: string): boolean {
    return this.recorder.hooks(event).some(({ payload }) => payload["tool_use_id"] === callId);
  }
}

/** `hooks.json` with one hook for each of those events. */
export function hooksJson(
  command: (event: HookEvent) => string,
  events: readonly HookEvent[],
): string {
  const entries = events.map((event) => [
    event,
    [{ hooks: [{ type: "command", command: command(event) }] }],
  ]);
  return JSON.stringify({ hooks: Object.fromEntries(entries) });
}

/** `[hooks.state]` entries that trust every hook of such a file, which lies at this real path. */
export function trustOf(
  file: string,
  command: (event: HookEvent) => string,
  events: readonly HookEvent[],
): Record<string, { trusted_hash: string }> {
  const entries = events.map((event) => [
    hookKey(file, event, 0, 0),
    { trusted_hash: hookHash(event, { command: command(event) }) },
  ]);
  return Object.fromEntries(entries) as Record<string, { trusted_hash: string }>;
}

/** The same configuration with more entries in `[hooks.state]`; an entry replaces what was there. */
export function withTrust(config: Table, trust: Table): Table {
  const hooks = config["hooks"] as { state: Table };
  return { ...config, hooks: { ...hooks, state: { ...hooks.state, ...trust } } };
}
