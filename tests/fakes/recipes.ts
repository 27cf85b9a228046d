/** Set-up recipes on the fakes of files and processes. A command does what the test says, when it says so. */
import type { ProcessIdentity } from "../../src/ports/processes.ts";
import type { CopiedFile, Recipes, StartedRecipe } from "../../src/ports/recipes.ts";
import type { FakeFiles } from "./files.ts";
import type { FakeProcesses } from "./processes.ts";

/** One start of the wrapper shell. Stricter than the real one: whoever starts it twice is told by `commands`. */
export interface RunningRecipe {
  readonly command: string;
  readonly env: Record<string, string>;
  readonly cwd: string;
  readonly process: ProcessIdentity;
  /** The command ends with this status, and the shell after it. */
  end(code: number): void;
  /** The shell is killed together with the command: no status. */
  kill(): void;
  /** Another process of the recipe; `escaped`: in a session of its own. */
  spawn(escaped: boolean): ProcessIdentity;
}

interface Member {
  identity: ProcessIdentity;
  session: number;
  token: string;
}

export class FakeRecipes implements Recipes {
  /** Commands that were really begun, in order. */
  readonly commands: RunningRecipe[] = [];
  /** Called when a command begins; the default succeeds at once. */
  onCommand: (recipe: RunningRecipe) => void = (recipe) => recipe.end(0);
  /** What the daemon's death between two moments of `start` looks like. */
  onStart: () => void = () => undefined;
  readonly #files: FakeFiles;
  readonly #processes: FakeProcesses;
  #members: Member[] = [];

  constructor(files: FakeFiles, processes: FakeProcesses) {
    this.#files = files;
    this.#processes = processes;
  }

  get alive(): ProcessIdentity[] {
    return this.#members
      .filter((m) => this.#processes.identify(m.identity.pid) !== null)
      .map((m) => m.identity);
  }

  async match(
    root: string,
    patterns: readonly string[],
  ): Promise<{ files: string[]; missing: string[]; problems: string[] }> {
    const found = patterns.filter((pattern) => this.#files.get(`${root}/${pattern}`) !== null);
    return {
      files: found.toSorted(),
      missing: patterns.filter((pattern) => !found.includes(pattern)),
      problems: [],
    };
  }

  async copy(
    root: string,
    workspace: string,
    files: readonly string[],
  ): Promise<{ copied: CopiedFile[]; notes: string[]; problems: string[] }> {
    const copied: CopiedFile[] = [];
    const notes: string[] = [];
    for (const path of files) {
      const bytes = this.#files.get(`${root}/${path}`);
      const there = this.#files.get(`${workspace}/${path}`);
      if (bytes === null || (there !== null && there !== bytes)) {
        notes.push(`${path}: not copied`);
        continue;
      }
      this.#files.put(`${workspace}/${path}`, bytes);
      copied.push({ path, sha256: (await this.#files.sha256(`${root}/${path}`))! });
    }
    return { copied, notes, problems: [] };
  }

  async uncopy(workspace: string, copied: readonly CopiedFile[]): Promise<void> {
    for (const { path, sha256 } of copied) {
      const at = `${workspace}/${path}`;
      if ((await this.#files.sha256(at)) === sha256) this.#files.remove(at);
    }
  }

  note(log: string, lines: readonly string[]): void {
    this.#files.put(log, [this.#files.get(log) ?? "", ...lines].join("\n"));
  }

  lastLine(log: string): string {
    const lines = (this.#files.get(log) ?? "").split("\n");
    return lines.findLast((line) => line !== "" && !line.startsWith("kiki: ")) ?? "";
  }

  trim(): void {}

  start(request: {
    argv: readonly string[];
    cwd: string;
    env: Record<string, string>;
    log: string;
  }): StartedRecipe {
    const [command = "", claim = "", status = ""] = request.argv.slice(-3);
    const token = request.env["KIKI_SETUP"] ?? "";
    const process = this.#processes.start(request.argv.join(" "));
    const ended = Promise.withResolvers<void>();
    const gone = (): void => {
      this.#processes.end(process.pid);
      ended.resolve();
    };
    this.#members.push({ identity: process, session: process.pid, token });
    if (this.#files.get(claim) !== null) {
      gone();
      return { process, exited: ended.promise };
    }
    this.#files.put(claim, `${process.pid}\n`);
    const recipe: RunningRecipe = {
      command,
      env: request.env,
      cwd: request.cwd,
      process,
      end: (code) => {
        this.#files.put(status, `${code}\n`);
        gone();
      },
      kill: gone,
      spawn: (escaped) => {
        const identity = this.#processes.start(`child of ${token}`);
        this.#members.push({
          identity,
          session: escaped ? identity.pid : process.pid,
          token,
        });
        return identity;
      },
    };
    this.commands.push(recipe);
    this.onCommand(recipe);
    this.onStart();
    return { process, exited: ended.promise };
  }

  carrying(token: string): ProcessIdentity[] {
    return this.#living((m) => m.token === token);
  }

  ofSession(leader: number): ProcessIdentity[] {
    return this.#living((m) => m.session === leader);
  }

  async end(find: () => ProcessIdentity[]): Promise<ProcessIdentity[]> {
    const found = find();
    for (const { pid } of found) this.#processes.end(pid);
    return found;
  }

  #living(wanted: (member: Member) => boolean): ProcessIdentity[] {
    const alive = new Set(this.alive.map((p) => p.pid));
    return this.#members
      .filter((m) => alive.has(m.identity.pid) && wanted(m))
      .map((m) => m.identity);
  }
}
