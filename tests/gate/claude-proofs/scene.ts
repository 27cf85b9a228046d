/**
 * One run of the real Claude Code for one proof: a folder of its own with home, project, model and a recorder where
 * kk-hook would be; started exactly as kiki's adapter prepares it, or, to turn a proof round, without its isolation.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { ClaudeCodeHarness } from "../../../src/backends/harness/claude-code/adapter.ts";
import {
  startModelServer,
  type ModelMessage,
  type ModelScripts,
  type ModelServer,
} from "../../../fixtures/model-servers/claude.ts";
import { runInPane, tmuxOn, type PaneRun } from "../../support/tmux.ts";
import { makeClaudeHome, type ClaudeHome } from "../claude-home.ts";
import {
  makeHookRecorder,
  type HookRecorder,
} from "../../../src/backends/harness/hook-recorder.ts";
import { CLAUDE } from "../install.ts";
import type { Wrap } from "../mounts.ts";
import type { ProofRun } from "../proof.ts";

/** A whole headless run: start, a few answers of the model, end. One that takes longer has gone wrong. */
const PRINT_MS = 180_000;
export const SESSION = "0c5d2f6e-8a1b-4c3d-9e7f-1a2b3c4d5e6f";

export interface SceneOptions {
  scripts: (scene: ClaudeScene) => ModelScripts;
  /** Files of the project and of the person's configuration folder, by relative path. */
  files?: Record<string, string>;
  home?: (scene: ClaudeScene) => Record<string, string>;
  /** Folder managed policy is read from by the adapter; the program itself reads /etc/claude-code. */
  managedFolder?: string;
}

export interface StartOptions {
  prompt: string;
  /** `print` runs it to its end without a terminal; `pane` as a thread runs it. */
  resume?: boolean;
  sessionId?: string;
  /** Without kiki's isolation: the same settings file beside everything else that is there. */
  plain?: boolean;
  /** Last change of the generated settings, for what kiki itself never writes. */
  settings?: (settings: Record<string, unknown>) => Record<string, unknown>;
  /** More words for the command line, after kiki's. */
  more?: readonly string[];
  /** Called when everything is prepared, right before the start. */
  ready?: () => void;
}

export interface PrintResult {
  code: number;
  out: string;
  err: string;
}

export class ClaudeScene {
  readonly folder: string;
  readonly project: string;
  readonly home: ClaudeHome;
  readonly model: ModelServer;
  readonly recorder: HookRecorder;
  readonly harness: ClaudeCodeHarness;
  readonly #socket: string;
  #panes = 0;

  private constructor(run: ProofRun, options: SceneOptions) {
    this.folder = run.folder;
    this.project = join(run.folder, "project");
    mkdirSync(this.project, { recursive: true });
    this.#socket = join(run.folder, "tmux.sock");
    this.model = startModelServer({
      scripts: options.scripts(this),
      recordDir: join(run.folder, "model"),
    });
    this.home = makeClaudeHome(run.folder, this.project, this.model.url);
    this.recorder = makeHookRecorder(run.folder);
    this.harness = new ClaudeCodeHarness({
      managedFolder: options.managedFolder ?? join(run.folder, "no-policy"),
    });
    const write = (root: string, files: Record<string, string>): void => {
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(dirname(join(root, name)), { recursive: true });
        writeFileSync(join(root, name), text);
      }
    };
    write(this.project, options.files ?? {});
    write(this.home.configDir, {
      "settings.json": JSON.stringify({ skipDangerousModePermissionPrompt: true }),
      ...options.home?.(this),
    });
  }

  static async use<T>(
    run: ProofRun,
    options: SceneOptions,
    body: (scene: ClaudeScene) => Promise<T>,
  ): Promise<T> {
    const scene = new ClaudeScene(run, options);
    try {
      return await body(scene);
    } finally {
      if (scene.#panes > 0 && !run.options.keep) await tmuxOn(scene.#socket).kill();
      await scene.model.close();
    }
  }

  get env(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "/usr/bin:/bin",
      HOME: this.folder,
      LANG: "C.UTF-8",
      ...this.home.env,
    };
  }

  file(name: string): string {
    return join(this.project, name);
  }

  has(name: string): boolean {
    return existsSync(this.file(name));
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

  async #argv(start: StartOptions): Promise<{ argv: string[]; env: Record<string, string> }> {
    const folder = join(this.folder, "harness");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const spec = await this.harness.prepare({
      repoId: "repo",
      threadId: "thread",
      threadName: "proof",
      incarnation: "incarnation-1",
      incarnationSecret: "secret",
      sessionId: start.sessionId ?? SESSION,
      resume: start.resume ?? false,
      workspaceRoot: this.project,
      folder,
      executable: CLAUDE,
      prompt: start.prompt,
      extraArgs: ["--permission-mode", "bypassPermissions"],
      env: this.env,
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
    const file = join(folder, "settings.json");
    if (start.settings !== undefined) {
      const settings = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
      writeFileSync(file, JSON.stringify(start.settings(settings)));
    }
    const argv =
      start.plain === true
        ? [CLAUDE, "--settings", file, "--permission-mode", "bypassPermissions"]
        : spec.argv.slice(0, spec.argv.indexOf("--"));
    start.ready?.();
    return { argv: [...argv, ...(start.more ?? []), "--", start.prompt], env: spec.env };
  }

  /** Headless, to its end. */
  async print(start: StartOptions & { wrap?: Wrap }): Promise<PrintResult> {
    const { argv, env } = await this.#argv(start);
    const [program = CLAUDE, ...rest] = argv;
    const words = [program, "-p", ...rest];
    const child = Bun.spawn(start.wrap?.(words) ?? words, {
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
    return { code, out, err };
  }

  /** Interactive, in a pane, as a thread starts it. */
  async pane(start: StartOptions): Promise<PaneRun> {
    const { argv, env } = await this.#argv(start);
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
  told(toolUseId: string): string | null {
    let found: string | null = null;
    for (const request of this.model.requests)
      for (const message of request.body.messages) found = resultOf(message, toolUseId) ?? found;
    return found;
  }
}

function resultOf(message: ModelMessage, toolUseId: string): string | null {
  if (typeof message.content === "string") return null;
  for (const part of message.content) {
    if (part["type"] !== "tool_result" || part["tool_use_id"] !== toolUseId) continue;
    const { content } = part;
    return typeof content === "string" ? content : JSON.stringify(content);
  }
  return null;
}
