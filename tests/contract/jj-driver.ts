/**
 * What a jj scenario may do and see, on the fake and on the real jj alike. Scenarios see through an `Observer`, which
 * writes a transcript in which ids are numbered by first appearance: two worlds that behave alike write the same one.
 */
import { KikiError } from "../../src/core/errors.ts";
import type { CommitId, OpId } from "../../src/core/ids.ts";
import type {
  BookmarkView,
  CommitView,
  JjBackend,
  JjOperation,
  JjRepo,
  WorkspaceProbe,
  WorkspaceView,
} from "../../src/ports/jj.ts";

/** Somebody who types in a workspace and knows nothing of kiki. */
export interface Hands {
  write(path: string, text: string, mode?: number): void;
  symlink(target: string, path: string): void;
  /** A file or a whole folder. */
  remove(path: string): void;
  /** Any command that records the files (`jj st`). */
  status(): Promise<void>;
  describe(text: string, commit?: CommitId): Promise<void>;
  newChange(options?: { on?: readonly CommitId[]; message?: string }): Promise<void>;
  edit(commit: CommitId): Promise<void>;
  commit(text: string): Promise<void>;
  /** `@` into its parent, whose description stays. */
  squash(): Promise<void>;
  abandon(commit: CommitId): Promise<void>;
  rebase(which: "-s" | "-r", commit: CommitId, onto: CommitId): Promise<void>;
  bookmark(name: string, commit: CommitId): Promise<void>;
  deleteBookmark(name: string): Promise<void>;
  renameBookmark(from: string, to: string): Promise<void>;
  undo(): Promise<void>;
  restoreOperation(op: OpId): Promise<void>;
  updateStale(): Promise<void>;
  /** `git add -A && git commit`. */
  gitCommit(text: string): Promise<void>;
}

/** What one operation shows. */
export interface Shown {
  operations: JjOperation[];
  commits: CommitView[];
  workspaces: WorkspaceView[];
  bookmarks: BookmarkView[];
}

/** How many operations `Shown` goes back. */
const SHOWN_OPS = 60;

export async function showOperation(repo: JjRepo, op: OpId): Promise<Shown> {
  const [operations, commits, workspaces, bookmarks] = await Promise.all([
    repo.operations(op, SHOWN_OPS),
    repo.commits(op, "all()"),
    repo.workspaces(op),
    repo.bookmarks(op),
  ]);
  return { operations, commits, workspaces, bookmarks };
}

/** One repository: main workspace `default` with a described `@` "parent" (`p.txt`) on "base" (`base.txt`). */
export interface World {
  backend: JjBackend;
  repo: JjRepo;
  /** The same repository to somebody who has read nothing of it yet. */
  fresh(): JjRepo;
  /** `showOperation`, which may be remembered: what an operation shows never changes. */
  show(op: OpId): Promise<Shown>;
  /** Folder of a workspace that exists or will. */
  folder(workspace: string): string;
  in(workspace: string): Hands;
  /** Commands that see only `op` (`--at-op`). */
  at(op: OpId, workspace: string): Hands;
  /** From now on these and everything below them are immutable. */
  makeImmutable(commits: readonly CommitId[]): Promise<void>;
  /** The operation can no longer be read (`op abandon`, garbage collection). */
  loseOperation(op: OpId): void;
  /** Paths git (and so jj) ignores in the whole repository. */
  exclude(patterns: string): void;
  /** Somebody holds the lock on a workspace's files until the returned function is called. */
  holdWorkspace(workspace: string): Promise<() => Promise<void>>;
  /** Path → content of everything in a workspace but jj's and git's own. */
  files(workspace: string): Record<string, string>;
  /** git HEAD of a colocated workspace. */
  gitHead(workspace: string): Promise<CommitId | null>;
}

/** What a scenario begins with; on the real jj it is prepared once and copied. */
export interface Start {
  name: string;
  colocated: boolean;
  prepare?(world: World, see: Observer): Promise<void>;
}

export const PLAIN: Start = { name: "plain", colocated: false };
export const COLOCATED: Start = { name: "colocated", colocated: true };

export interface Scenario {
  name: string;
  /** Default `PLAIN`. */
  start?: Start;
  /** What the fake refuses although jj allows it; such a scenario runs on the fake alone. */
  stricter?: true;
  run(world: World, see: Observer): Promise<void>;
}

export class Observer {
  readonly transcript: string[] = [];
  readonly #world: World;
  readonly #names = new Map<string, string>();
  readonly #seen = new Set<OpId>();
  #last: { op: OpId; shown: Shown } | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  /** Adds a value with every id in it replaced; returns the value itself. */
  note<T>(what: string, value: T): T {
    const text = JSON.stringify(value, null, 1) ?? "undefined";
    this.transcript.push(this.#normalised(`${what}: ${text}`));
    return value;
  }

  /** The one operation head. */
  async head(): Promise<OpId> {
    const heads = await this.#world.repo.heads();
    if (heads.length !== 1) throw new Error(`${heads.length} heads`);
    return heads[0]!;
  }

  /** `@` of a workspace at the one head. */
  async at(workspace: string): Promise<CommitId> {
    const head = await this.head();
    const all =
      this.#last?.op === head
        ? this.#last.shown.workspaces
        : await this.#world.repo.workspaces(head);
    const found = all.find((w) => w.workspace === workspace);
    if (found === undefined) throw new Error(`no workspace ${workspace}`);
    return found.commitId;
  }

  async commit(id: CommitId): Promise<CommitView> {
    const head = await this.head();
    const known = this.#last?.op === head ? this.#last.shown.commits : [];
    const view =
      known.find((commit) => commit.commitId === id) ??
      (await this.#world.repo.existing(head, [id]))[0];
    if (view === undefined) throw new Error(`no commit ${id}`);
    return view;
  }

  /** Operations since the last look, every visible commit, workspaces and bookmarks at `op` (default: the head). */
  async view(what: string, op?: OpId): Promise<CommitView[]> {
    const at = op ?? (await this.head());
    const shown = await this.#world.show(at);
    const { operations, workspaces, bookmarks } = shown;
    this.#last = { op: at, shown };
    const first = this.#seen.size === 0;
    const fresh = operations.filter(({ id }) => !this.#seen.has(id) && !first);
    for (const { id } of operations) this.#seen.add(id);
    // Oldest first: what they stand on has its name already.
    fresh.reverse();
    this.note(
      `${what}: operations`,
      fresh.map(({ args, workspaceName, ...rest }) => ({
        ...rest,
        by: workspaceName === null ? null : workspaceName.replace(/^kiki-neutral.*/, "kiki"),
        token: /kiki\.token=([\w-]+)/.exec(args)?.[1] ?? (args === "" ? "" : "person"),
      })),
    );
    const commits = canonical(shown.commits);
    this.note(`${what}: commits`, commits);
    this.note(
      `${what}: workspaces`,
      workspaces.map(({ workspace, commitId }) => [workspace, commitId]),
    );
    this.note(
      `${what}: bookmarks`,
      bookmarks.map(({ name, targets }) => [name, targets]),
    );
    return commits;
  }

  /** State of a workspace's files, and the files. */
  async workspace(what: string, workspace: string): Promise<WorkspaceProbe> {
    const probe = await this.probe(what, workspace);
    const files = Object.entries(this.#world.files(workspace)).map(([path, text]) => [
      path,
      // jj and the fake write conflicts in different words.
      text.includes("<<<<<<<") ? "a conflict" : text.length > 200 ? `${text.length} bytes` : text,
    ]);
    this.note(`${what}: files of ${workspace}`, Object.fromEntries(files));
    return probe;
  }

  async probe(what: string, workspace: string, op?: OpId): Promise<WorkspaceProbe> {
    const { repo } = this.#world;
    const at = op ?? (await repo.heads())[0]!;
    const probe = await repo.probe(this.#world.folder(workspace), workspace, at);
    // Its bytes are each world's own; that it moves when it must is a scenario of its own.
    const { reason, fingerprint: _fingerprint, ...rest } = probe;
    this.note(`${what}: probe of ${workspace}`, { ...rest, reason: reason?.split(":")[0] ?? null });
    return probe;
  }

  /** The code of a refusal of kiki's port, or "done". */
  async outcome(what: string, action: () => Promise<unknown>): Promise<string> {
    const code = await Promise.resolve()
      .then(action)
      .then(
        () => "done",
        (error: unknown) => (error instanceof KikiError ? error.code : Promise.reject(error)),
      );
    return this.note(what, code);
  }

  /** Whether a command of a person was refused. */
  async refused(what: string, action: () => Promise<unknown>): Promise<boolean> {
    const refused = await Promise.resolve()
      .then(action)
      .then(
        () => false,
        () => true,
      );
    return this.note(what, refused);
  }

  /** The number an id has in the transcript. */
  nameOf(id: string): string {
    return this.#normalised(`"${id}"`).slice(1, -1);
  }

  #normalised(text: string): string {
    return text
      .replaceAll(this.#world.folder("default").replace(/\/[^/]*$/, ""), "<dir>")
      .replace(/\b(?:[0-9a-f]{128}|[0-9a-f]{64}|[0-9a-f]{40}|[k-z]{32})\b/g, (id) => {
        if (/^0+$/.test(id) || /^z+$/.test(id)) return "root";
        const kind = { 128: "op", 64: "print", 40: "commit", 32: "change" }[id.length]!;
        const known = this.#names.get(id);
        if (known !== undefined) return known;
        const number = [...this.#names.values()].filter((name) => name.startsWith(kind)).length + 1;
        const name = `${kind}-${number}`;
        this.#names.set(id, name);
        return name;
      });
  }
}

/** An order that does not depend on ids: parents first, then by what a commit shows. */
function canonical(commits: readonly CommitView[]): CommitView[] {
  const byId = new Map(commits.map((commit) => [commit.commitId, commit]));
  const keys = new Map<CommitId, string>();
  const keyOf = (id: CommitId): string => {
    const known = keys.get(id);
    const commit = byId.get(id);
    if (known !== undefined || commit === undefined) return known ?? id;
    const below = commit.parents.map(keyOf).join("+");
    const { description, empty, conflict, divergent } = commit;
    const key = `${below} > ${JSON.stringify([description, empty, conflict, divergent])}`;
    keys.set(id, key);
    return key;
  };
  const order = commits.map((commit, at) => ({ commit, at, key: keyOf(commit.commitId) }));
  order.sort((a, b) => (a.key === b.key ? a.at - b.at : a.key < b.key ? -1 : 1));
  return order.map(({ commit }) => commit);
}
