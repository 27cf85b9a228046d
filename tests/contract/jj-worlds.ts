/** The two worlds jj scenarios run in. */
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createJj } from "../../src/backends/jj/backend.ts";
import type { CommitId, OpId } from "../../src/core/ids.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeJj } from "../fakes/jj.ts";
import { FakeJjBackend } from "../fakes/jj/backend.ts";
import type { FakePerson } from "../fakes/jj/person.ts";
import { holdLock } from "../support/hold-lock.ts";
import { makeRepo, personIn, type TestRepo } from "../support/jj-repo.ts";
import { tempDir } from "../support/temp.ts";
import { copyTree } from "../support/tree.ts";
import {
  COLOCATED,
  Observer,
  PLAIN,
  showOperation,
  type Hands,
  type Shown,
  type Start,
  type World,
} from "./jj-driver.ts";

const BASE = "line 1\nline 2\nline 3\n";
const IGNORE = "*.log\nbuild/\n";
const MAIN = "repo";

/** Where a workspace lies, beside the main one. */
function folderName(workspace: string): string {
  return workspace === "default" ? MAIN : workspace;
}

// ---- the fake ---------------------------------------------------------------------------------------------------

export async function fakeWorld(start: Start): Promise<World> {
  const { colocated } = start;
  const files = new FakeFiles();
  const jj = new FakeJj(files, `/world/${MAIN}`, { colocated });
  jj.personWorkspace("default", `/world/${MAIN}`);
  const main = jj.in("default");
  main.write("base.txt", BASE).write(".gitignore", IGNORE);
  main.commit("base");
  main.write("p.txt", "parent\n");
  main.describe("parent");
  const backend = new FakeJjBackend(files, [jj]);
  const repo = backend.open(jj.location, "/world/state/jj");
  await repo.ensureNeutral("token-neutral");
  const world = fakeWorldOf(backend, jj, files);
  await start.prepare?.(world, new Observer(world));
  return world;
}

function fakeWorldOf(backend: FakeJjBackend, jj: FakeJj, files: FakeFiles): World {
  const folder = (workspace: string): string => `/world/${folderName(workspace)}`;
  return {
    backend,
    repo: jj,
    fresh: () => jj,
    show: (op) => showOperation(jj, op),
    folder,
    in: (workspace) => fakeHands(jj.in(workspace)),
    at: (op, workspace) => fakeHands(jj.personAt(op, workspace)),
    makeImmutable: async (commits) => commits.forEach((id) => jj.engine.immutableHeads.add(id)),
    loseOperation: (op) => jj.loseOperation(op),
    exclude: (patterns) => (jj.engine.disk.exclude = patterns),
    holdWorkspace: async (workspace) => {
      const release = jj.faults.lock(folder(workspace), "wait");
      return async () => release();
    },
    files(workspace) {
      const root = folder(workspace);
      const paths = files.below(root).map((path) => path.slice(root.length + 1));
      const own = paths.filter((path) => !/^\.(jj|git)(\/|$)/.test(path));
      return Object.fromEntries(own.map((path) => [path, jj.engine.disk.entryAt(root, path)!]));
    },
    gitHead: async (workspace) => jj.engine.git.head(folder(workspace)) ?? null,
  };
}

function fakeHands(person: FakePerson): Hands {
  const async =
    <A extends unknown[]>(action: (...args: A) => unknown) =>
    async (...args: A): Promise<void> =>
      void action(...args);
  return {
    write: (path, text, mode) => void person.write(path, text, mode),
    symlink: (target, path) => void person.symlink(target, path),
    remove: (path) => void person.remove(path),
    status: async(() => person.status()),
    describe: async((text: string, commit?: CommitId) => person.describe(text, commit)),
    newChange: async((options?: Parameters<Hands["newChange"]>[0]) => person.new(options)),
    edit: async((commit: CommitId) => person.edit(commit)),
    commit: async((text: string) => person.commit(text)),
    squash: async(() => person.squash()),
    abandon: async((commit: CommitId) => person.abandon(commit)),
    rebase: async((which: "-s" | "-r", commit: CommitId, onto: CommitId) =>
      person.rebase(which, commit, onto),
    ),
    bookmark: async((name: string, commit: CommitId) => person.bookmark(name, commit)),
    deleteBookmark: async((name: string) => person.deleteBookmark(name)),
    renameBookmark: async((from: string, to: string) => person.renameBookmark(from, to)),
    undo: async(() => person.undo()),
    restoreOperation: async((op: OpId) => person.restoreOperation(op)),
    updateStale: async(() => person.updateStale()),
    gitCommit: async((text: string) => person.gitCommit(text)),
  };
}

// ---- the real jj ------------------------------------------------------------------------------------------------

const templates = new Map<string, Promise<string>>();
/** Copies of a repository share their first operations. */
const shown = new Map<OpId, Promise<Shown>>();

/** A copy of a repository that is prepared once. */
export async function realWorld(start: Start): Promise<World> {
  const known = templates.get(start.name);
  // A test file that ran before in this process took its folders with it.
  if (known !== undefined && existsSync(await known)) return worldIn(await copyOf(await known));
  const template = templates.get(start.name);
  const fresh = template === undefined || template === known ? prepare(start) : template;
  templates.set(start.name, fresh);
  return worldIn(await copyOf(await fresh));
}

async function copyOf(template: string): Promise<string> {
  const dir = join(tempDir("jj-contract"), "w");
  await copyTree(template, dir);
  return dir;
}

async function prepare(start: Start): Promise<string> {
  if (start.prepare === undefined) return firstRepository(start.colocated);
  const below = start.colocated ? COLOCATED : PLAIN;
  const world = await realWorld(below);
  await start.prepare(world, new Observer(world));
  return dirname(world.folder("default"));
}

async function worldIn(dir: string): Promise<World> {
  const person = personIn(dir, join(dir, MAIN));
  const backend = createJj({ env: person.env });
  const location = (await backend.locate(person.root))!;
  const { colocated } = location;
  const folder = (workspace: string): string => join(dir, folderName(workspace));
  const fresh = (): JjRepo => backend.open(location, join(dir, "state/jj"));
  const repo = fresh();
  let configured = false;
  return {
    backend,
    repo,
    fresh,
    show(op) {
      if (configured) return showOperation(repo, op);
      const known = shown.get(op) ?? showOperation(repo, op);
      shown.set(op, known);
      return known;
    },
    folder,
    in: (workspace) => realHands(person, folder(workspace), []),
    at: (op, workspace) => realHands(person, folder(workspace), ["--at-op", op]),
    async makeImmutable(commits) {
      configured = true;
      const heads = commits.join("|");
      await person.jj(["config", "set", "--repo", 'revset-aliases."immutable_heads()"', heads]);
    },
    loseOperation: (op) => rmSync(join(location.repoDir, "op_store/operations", op)),
    exclude(patterns) {
      const git = colocated ? join(person.root, ".git") : join(location.repoDir, "store/git");
      mkdirSync(join(git, "info"), { recursive: true });
      appendFileSync(join(git, "info/exclude"), patterns);
    },
    async holdWorkspace(workspace) {
      const lock = await holdLock(join(folder(workspace), ".jj/working_copy/working_copy.lock"));
      return () => lock.release();
    },
    files: (workspace) => listing(folder(workspace)),
    async gitHead(workspace) {
      const cwd = folder(workspace);
      const head = await person.git(["rev-parse", "--verify", "-q", "HEAD"], cwd).catch(() => "");
      return head.trim() === "" ? null : head.trim();
    },
  };
}

async function firstRepository(colocated: boolean): Promise<string> {
  const dir = tempDir("jj-contract");
  const person = await makeRepo({
    dir,
    name: MAIN,
    colocated,
    files: { "base.txt": BASE, ".gitignore": IGNORE },
  });
  person.write("p.txt", "parent\n");
  await person.jj(["describe", "--quiet", "-m", "parent"]);
  const backend = createJj({ env: person.env });
  const location = (await backend.locate(person.root))!;
  await backend.open(location, join(dir, "state/jj")).ensureNeutral("token-neutral");
  return dir;
}

function realHands(person: TestRepo, root: string, global: readonly string[]): Hands {
  const jj = async (...args: string[]): Promise<void> =>
    void (await person.jj([...global, ...args, "--quiet"], root));
  const target = (commit?: CommitId): string[] => (commit === undefined ? [] : [commit]);
  return {
    write(path, text, mode) {
      person.write(path, text, root);
      if (mode !== undefined) person.chmod(path, mode, root);
    },
    symlink: (to, path) => person.symlink(to, path, root),
    remove: (path) => person.remove(path, root),
    status: () => jj("util", "snapshot"),
    describe: (text, commit) => jj("describe", "-m", text, ...target(commit)),
    newChange: ({ on = [], message = "" } = {}) => jj("new", "-m", message, ...on),
    edit: (commit) => jj("edit", commit),
    commit: (text) => jj("commit", "-m", text),
    squash: () => jj("squash", "-u"),
    abandon: (commit) => jj("abandon", commit),
    rebase: (which, commit, onto) => jj("rebase", which, commit, "-o", onto),
    bookmark: (name, commit) => jj("bookmark", "set", "-B", name, "-r", commit),
    deleteBookmark: (name) => jj("bookmark", "delete", name),
    renameBookmark: (from, to) => jj("bookmark", "rename", from, to),
    undo: () => jj("undo"),
    restoreOperation: (op) => jj("op", "restore", op),
    updateStale: () => jj("workspace", "update-stale"),
    async gitCommit(text) {
      await person.git(["add", "-A"], root);
      await person.git(["commit", "-q", "-m", text], root);
    },
  };
}

/** Relative path → `f:`, `x:` or `l:` and the content, as the fake writes entries. */
function listing(root: string): Record<string, string> {
  const found: [string, string][] = [];
  const visit = (folder: string, prefix: string): void => {
    if (!existsSync(folder)) return;
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = `${prefix}${entry.name}`;
      const full = join(folder, entry.name);
      if (path === ".jj" || path === ".git") continue;
      if (entry.isDirectory()) visit(full, `${path}/`);
      else if (entry.isSymbolicLink()) found.push([path, `l:${readlinkSync(full)}`]);
      else {
        const kind = (lstatSync(full).mode & 0o111) === 0 ? "f" : "x";
        found.push([path, `${kind}:${readFileSync(full, "utf8")}`]);
      }
    }
  };
  visit(root, "");
  return Object.fromEntries(found.sort(([a], [b]) => (a < b ? -1 : 1)));
}
