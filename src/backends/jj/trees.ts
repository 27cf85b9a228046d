/**
 * Commits and trees from the git store. They are named by their content and never change, so they are kept. What jj has
 * just written lies there as loose files, which are read here; for everything else git is asked.
 */
import type { CommitId } from "../../core/ids.ts";
import { ROOT_COMMIT } from "../../core/revset.ts";
import { gitOutput } from "./cli.ts";
import type { JjContext } from "./context.ts";
import { looseObject, parseTree, type TreeRow } from "./loose-objects.ts";

/** What the probe needs of a commit. */
export interface StoredCommit {
  /** One tree, or `add, remove, add, …` for a conflicted commit (header `jj:trees`). */
  trees: string[];
  /** Header `jj:conflict-labels`; jj compares them as well when it decides whether files are stale. */
  labels: string[];
  parents: CommitId[];
}

export interface TreeEntry {
  /** `100644`, `100755`, `120000`, `160000`. */
  mode: string;
  id: string;
}

/** Path → entry of one tree, recursively. */
export type TreeListing = Map<string, TreeEntry>;

const MAX_KEPT = 2_000;
/** Rows of trees that are kept, over all of them; some 5 MB. A larger tree is kept alone. */
const MAX_KEPT_ROWS = 30_000;
/** More loose trees than this are faster read by one git process. */
const MAX_LOOSE_TREES = 100;
const FOLDER = "040000";
const EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

export class GitTrees {
  readonly #ctx: JjContext;
  readonly #gitDir: string;
  readonly #commits = new Map<CommitId, StoredCommit>();
  /** Tree id → its own rows, subtrees as rows. */
  readonly #trees = new Map<string, readonly TreeRow[]>();
  #rows = 0;

  constructor(ctx: JjContext, gitDir: string) {
    this.#ctx = ctx;
    this.#gitDir = gitDir;
  }

  /** Throws when the store does not have one of them. */
  async commits(ids: readonly CommitId[]): Promise<StoredCommit[]> {
    if (this.#commits.size > MAX_KEPT) this.#commits.clear();
    const missing = [...new Set(ids)].filter((id) => id !== ROOT_COMMIT && !this.#isAtHand(id));
    if (missing.length > 0) {
      const input = missing.map((id) => `${id}\n`).join("");
      const output = await gitOutput(this.#ctx, this.#gitDir, ["cat-file", "--batch"], { input });
      for (const [id, body] of batchObjects(output)) this.#commits.set(id, parseCommit(body));
    }
    return ids.map((id) => {
      // jj's root commit is virtual: git has no such object.
      if (id === ROOT_COMMIT) return { trees: [EMPTY_TREE], labels: [], parents: [] };
      const commit = this.#commits.get(id);
      if (commit === undefined) throw new Error(`commit ${id} is not in the git store`);
      return commit;
    });
  }

  #isAtHand(id: CommitId): boolean {
    if (this.#commits.has(id)) return true;
    const body = looseObject(this.#gitDir, id, "commit");
    if (body !== null) this.#commits.set(id, parseCommit(body.toString("utf8")));
    return body !== null;
  }

  async listing(tree: string): Promise<TreeListing> {
    const listing: TreeListing = new Map();
    if (this.#collect(tree, "", listing, { left: MAX_LOOSE_TREES })) return listing;
    listing.clear();
    await this.#readTree(tree);
    if (!this.#collect(tree, "", listing, { left: 0 }))
      throw new Error(`tree ${tree} is not in the git store`);
    return listing;
  }

  /** Adds what is below a tree; false when a part of it is not at hand. */
  #collect(tree: string, prefix: string, into: TreeListing, loose: { left: number }): boolean {
    const rows = this.#trees.get(tree) ?? this.#readLoose(tree, loose);
    return (
      rows !== null &&
      rows.every(({ name, mode, id }) => {
        if (mode === FOLDER) return this.#collect(id, `${prefix}${name}/`, into, loose);
        into.set(prefix + name, { mode, id });
        return true;
      })
    );
  }

  /**
   * Paths at which not all of these trees have the same entry. A folder that is the same everywhere is not read; a file
   * in one that is a folder in another stands for itself and for what is in the folder.
   */
  async touched(trees: readonly string[]): Promise<Set<string>> {
    const found = new Set<string>();
    const [first = EMPTY_TREE, ...others] = trees;
    for (const other of others) {
      if (this.#compare(first, other, "", found, { left: MAX_LOOSE_TREES })) continue;
      const [a, b] = [await this.listing(first), await this.listing(other)];
      for (const path of new Set([...a.keys(), ...b.keys()]))
        if (!sameEntry(a.get(path), b.get(path))) found.add(path);
    }
    return found;
  }

  /** False when a part of either is not at hand. */
  #compare(
    a: string,
    b: string,
    prefix: string,
    into: Set<string>,
    loose: { left: number },
  ): boolean {
    if (a === b) return true;
    const [own, theirs] = [a, b].map((id) => {
      const rows = this.#trees.get(id) ?? this.#readLoose(id, loose);
      return rows === null ? null : new Map(rows.map((row) => [row.name, row]));
    });
    if (own == null || theirs == null) return false;
    return [...new Set([...own.keys(), ...theirs.keys()])].every((name) => {
      const rows = [own.get(name), theirs.get(name)];
      if (sameEntry(rows[0], rows[1])) return true;
      if (rows.some((row) => row !== undefined && row.mode !== FOLDER)) into.add(prefix + name);
      const [one, other] = rows.map((row) => (row?.mode === FOLDER ? row.id : EMPTY_TREE));
      return this.#compare(one!, other!, `${prefix}${name}/`, into, loose);
    });
  }

  #readLoose(tree: string, loose: { left: number }): readonly TreeRow[] | null {
    if (tree === EMPTY_TREE) return [];
    if (loose.left === 0) return null;
    loose.left -= 1;
    const body = looseObject(this.#gitDir, tree, "tree");
    if (body === null) return null;
    const rows = parseTree(body);
    this.#makeRoom(rows.length);
    this.#keep(tree, rows);
    return rows;
  }

  /** By git, with all its subtrees. */
  async #readTree(tree: string): Promise<void> {
    const args = ["ls-tree", "-r", "-t", "-z", "--full-tree", tree];
    const output = await gitOutput(this.#ctx, this.#gitDir, args);
    const found = new Map<string, { id: string; rows: TreeRow[] }>([["", { id: tree, rows: [] }]]);
    for (const line of output.toString("utf8").split("\0")) {
      if (line === "") continue;
      const tab = line.indexOf("\t");
      const [mode = "", , id = ""] = line.slice(0, tab).split(" ");
      const path = line.slice(tab + 1);
      const slash = path.lastIndexOf("/");
      found.get(path.slice(0, Math.max(slash, 0)))!.rows.push({
        name: path.slice(slash + 1),
        mode,
        id,
      });
      // A tree's line comes before those of what is in it.
      if (mode === FOLDER) found.set(path, { id, rows: [] });
    }
    // Making room first: none of this one may be missing when it is put together.
    this.#makeRoom([...found.values()].reduce((sum, { rows }) => sum + rows.length, 0));
    for (const { id, rows } of found.values()) this.#keep(id, rows);
  }

  #makeRoom(rows: number): void {
    if (this.#rows + rows <= MAX_KEPT_ROWS) return;
    this.#trees.clear();
    this.#rows = 0;
  }

  #keep(tree: string, rows: readonly TreeRow[]): void {
    if (this.#trees.has(tree)) return;
    this.#trees.set(tree, rows);
    this.#rows += rows.length;
  }
}

/** One for as long as the repository is open, so that what one reader has read is there for the next. */
export function keptTrees(ctx: JjContext): (gitDir: string) => GitTrees {
  let trees: GitTrees | null = null;
  return (gitDir) => (trees ??= new GitTrees(ctx, gitDir));
}

function sameEntry(a: TreeEntry | undefined, b: TreeEntry | undefined): boolean {
  return a?.id === b?.id && a?.mode === b?.mode;
}

/**
 * The entry `path` has in a possibly conflicted tree given as its terms: undefined for absent, "conflict" when
 * adds and removes do not cancel out.
 */
export function resolveEntry(
  terms: readonly TreeListing[],
  path: string,
): TreeEntry | undefined | "conflict" {
  const adds: string[] = [];
  const removes: string[] = [];
  terms.forEach((term, at) => {
    const entry = term.get(path);
    (at % 2 === 0 ? adds : removes).push(entry === undefined ? "" : `${entry.mode} ${entry.id}`);
  });
  for (const removed of removes.slice()) {
    const at = adds.indexOf(removed);
    if (at < 0) continue;
    adds.splice(at, 1);
    removes.splice(removes.indexOf(removed), 1);
  }
  const [first] = adds;
  if (first === undefined || !adds.every((add) => add === first)) return "conflict";
  if (first === "") return undefined;
  const [mode = "", id = ""] = first.split(" ");
  return { mode, id };
}

/** `<id> <type> <size>\n<bytes>\n` for each object, or `<id> missing\n`. */
function* batchObjects(output: Buffer): Generator<[id: string, body: string]> {
  for (let at = 0; at < output.length;) {
    const end = output.indexOf(0x0a, at);
    const [id = "", type, size] = output.subarray(at, end).toString("latin1").split(" ");
    if (type !== "commit" || size === undefined)
      throw new Error(`${id} is no commit in the git store`);
    const from = end + 1;
    yield [id, output.subarray(from, from + Number(size)).toString("utf8")];
    at = from + Number(size) + 1;
  }
}

function parseCommit(body: string): StoredCommit {
  const blank = body.indexOf("\n\n");
  // A header's further lines begin with one space.
  const headers = (blank < 0 ? body : body.slice(0, blank)).split(/\n(?! )/);
  const values = (name: string): string[] =>
    headers
      .filter((line) => line.startsWith(`${name} `))
      .map((line) => line.slice(name.length + 1));
  const [conflict] = values("jj:trees");
  const [labels] = values("jj:conflict-labels");
  return {
    trees: conflict === undefined ? values("tree") : conflict.split(" "),
    labels: labels === undefined ? [] : labels.split("\n "),
    parents: values("parent"),
  };
}
