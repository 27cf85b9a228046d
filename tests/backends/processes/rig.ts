/** A real tmux pane with kiki's wrapper at its root and a script below it, and what a freeze of it needs. */
import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { linuxProcesses } from "../../../src/backends/processes/linux.ts";
import { realClock } from "../../../src/backends/clock.ts";
import { keyOf, type ProcessIdentity } from "../../../src/core/process-tree.ts";
import type { FreezeDeps, FreezeRequest } from "../../../src/lifecycle/freeze.ts";
import { resume } from "../../../src/lifecycle/freeze-resume.ts";
import { NO_CRASH } from "../../../src/ports/crash.ts";
import { addThread, repoDb } from "../../store/fixture.ts";
import { tempDir } from "../../support/temp.ts";
import { runInPane, tmuxOn, type PaneRun } from "../../support/tmux.ts";
import { waitFor } from "../../support/wait.ts";

const ROOT = join(import.meta.dir, "../../..");
const THREAD = "t-1";
const DEADLINE_MS = 10_000;

export class Box {
  readonly dir = tempDir("processes");
  readonly workspace = join(this.dir, "workspace");
  readonly incarnation = crypto.randomUUID();
  readonly db = repoDb();
  readonly request: FreezeRequest;
  readonly deps: FreezeDeps;
  readonly #strays: number[] = [];
  #pane: PaneRun | null = null;

  constructor() {
    mkdirSync(this.workspace);
    addThread(this.db, THREAD);
    // The test itself cannot be the daemon: what a test starts would be the daemon's children, and never be stopped.
    const self = this.stranger(["sleep", "600"]).pid;
    this.deps = { db: this.db, processes: linuxProcesses, clock: realClock, crash: NO_CRASH, self };
    this.request = {
      owner: { kind: "lifecycle", id: "op-1" },
      threadId: THREAD,
      roots: [],
      since: null,
      marks: [`KIKI_INCARNATION=${this.incarnation}`],
      keep: [],
      launchers: [],
      drainMs: 5_000,
      settleMs: 5_000,
      unproved: "resume",
    };
  }

  /** A pane whose wrapper runs `script` (of sh, in the workspace) as its shell; resolves when the script has begun. */
  async pane(script: string, interpreter = "/bin/sh"): Promise<PaneRun> {
    const shell = this.file("script", `#!${interpreter}\n: >'${this.dir}/began'\n${script}`, 0o755);
    const env = {
      PATH: process.env["PATH"] ?? "",
      KIKI_INCARNATION: this.incarnation,
      D: this.dir,
    };
    const envFile = this.file("env.json", JSON.stringify({ ...env, HOME: this.dir }));
    const entry = this.file(
      "entry.ts",
      `import { runPane } from ${JSON.stringify(join(ROOT, "src/cmd/pane.ts"))};\n` +
        "process.exit(await runPane(process.argv.slice(2)));\n",
    );
    const args = ["shell", "--cwd", this.workspace, "--shell", shell, "--env-file", envFile];
    this.#pane = runInPane({
      socket: join(this.dir, "tmux.sock"),
      asRoot: true,
      env: { PATH: process.env["PATH"] ?? "", HOME: this.dir, TMPDIR: this.dir },
      cwd: this.workspace,
      command: [process.execPath, entry, ...args],
    });
    const pid = this.#pane.tmux.ok("display-message", "-p", "-t", this.#pane.paneId, "#{pane_pid}");
    const root = linuxProcesses.identify(Number(pid))!;
    this.request.roots = [root];
    this.request.since = root.startTime;
    await this.until("began");
    return this.#pane;
  }

  file(name: string, text: string, mode = 0o644): string {
    const path = join(this.dir, name);
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  }

  size(name: string): number {
    const path = join(this.dir, name);
    return existsSync(path) ? statSync(path).size : 0;
  }

  async until(name: string): Promise<void> {
    await waitFor(() => existsSync(join(this.dir, name)), DEADLINE_MS, `${name} to appear`);
  }

  /** The process whose pid the script has written to `name`. */
  async written(name: string): Promise<ProcessIdentity> {
    return waitFor(
      async () => {
        const pid = Number((await Bun.file(join(this.dir, name)).text()).trim());
        return pid > 0 ? linuxProcesses.identify(pid) : null;
      },
      DEADLINE_MS,
      `a pid in ${name}`,
    );
  }

  /** A process that is not the thread's: a child of the test. Ended with the box. */
  stranger(
    argv: string[],
    options: { cwd?: string; env?: Record<string, string> } = {},
  ): Bun.Subprocess {
    const child = Bun.spawn(argv, {
      cwd: options.cwd ?? "/",
      env: options.env ?? { PATH: process.env["PATH"] ?? "" },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "inherit",
      detached: true,
    });
    this.#strays.push(child.pid);
    return child;
  }

  /** Has tmux look at the pane. */
  screen(): string {
    return this.#pane?.screen() ?? "";
  }

  state(process: ProcessIdentity): string {
    return linuxProcesses.observe(process).state;
  }

  async end(): Promise<void> {
    // Stopped ones would not notice the end of their terminal.
    await resume(this.deps, this.request.owner);
    const { processes } = linuxProcesses.sample(this.request.marks);
    const marked = processes.filter((process) => process.marked === "yes");
    if (this.#pane !== null) await tmuxOn(join(this.dir, "tmux.sock")).kill();
    for (const pid of this.#strays) kill(-pid);
    for (const process of marked) killExactly(process);
    await waitFor(
      () => {
        const left = linuxProcesses.sample(this.request.marks).processes;
        for (const process of left.filter((p) => p.marked === "yes")) killExactly(process);
        return left.every((process) => process.marked !== "yes");
      },
      DEADLINE_MS,
      "the box's processes gone",
    );
    this.db.close();
  }
}

function killExactly(target: ProcessIdentity): void {
  if (linuxProcesses.identify(target.pid)?.startTime === target.startTime) kill(target.pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}

export function keys(processes: readonly ProcessIdentity[]): string[] {
  return processes.map(keyOf);
}
