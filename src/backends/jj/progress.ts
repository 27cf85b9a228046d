/**
 * How far a jj command got that was ended while it wrote files. jj (0.46, traced) goes through the paths that differ in
 * the order of their components, a file that takes a folder's place after what was in it. Of each it removes the old
 * file, makes a new one under the same name, writes into that, and sets its mode; its own record comes at the end. So a
 * file is the old one, gone, a beginning of the new one, or the new one.
 */
import { closeSync, lstatSync, openSync, readSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import type { CommitId, OpId } from "../../core/ids.ts";
import type { PathProgress } from "../../ports/jj.ts";
import { git, readBytes } from "./cli.ts";
import { gitStoreOf } from "./recovery.ts";
import { contentHash, type ContentHash } from "./content.ts";
import type { JjContext } from "./context.ts";
import { resolveEntry, type GitTrees, type TreeEntry, type TreeListing } from "./trees.ts";
import { realFolders, slices } from "./working-copy.ts";

/** A beginning of something larger is compared with nothing; it counts as neither. */
const MAX_COMPARED_BYTES = 512 * 1024 * 1024;
const PIECE_BYTES = 1024 * 1024;

interface Sides {
  commit: CommitId;
  terms: readonly TreeListing[];
}

export async function updateProgress(
  ctx: JjContext,
  treesOf: (gitDir: string) => GitTrees,
  input: { op: OpId; from: CommitId; to: CommitId; folder: string },
): Promise<PathProgress[]> {
  const gitDir = gitStoreOf(ctx);
  const trees = treesOf(gitDir);
  const [before, after] = await trees.commits([input.from, input.to]);
  const sides = async (commit: CommitId, ids: readonly string[]): Promise<Sides> => ({
    commit,
    terms: await Promise.all(ids.map((id) => trees.listing(id))),
  });
  const from = await sides(input.from, before!.trees);
  const to = await sides(input.to, after!.trees);
  const touched = await trees.touched([...before!.trees, ...after!.trees]);
  const isRealFolder = realFolders(input.folder);
  const breathe = slices(ctx);
  const found: PathProgress[] = [];
  for (const path of inJjsOrder(touched, from, to)) {
    const at = join(input.folder, path);
    const stat = isRealFolder(dirname(path)) ? lstat(at) : undefined;
    const look = new Look(ctx, gitDir, input.op, { path, at, stat });
    const progress = await look.compare(from, to);
    if (progress !== null) found.push(progress);
    await breathe();
  }
  return found;
}

/** By components; a file that takes the place of a folder comes after what was in that. */
function inJjsOrder(touched: ReadonlySet<string>, from: Sides, to: Sides): string[] {
  const isThere = (sides: Sides, path: string): boolean =>
    resolveEntry(sides.terms, path) !== undefined;
  const keys = [...touched].map((path) => {
    const takesFolder = !isThere(from, path) && isThere(to, path);
    const parts = path.split("/").map((part) => Buffer.from(part));
    return { path, parts, takesFolder };
  });
  keys.sort((a, b) => {
    const shared = Math.min(a.parts.length, b.parts.length);
    for (let at = 0; at < shared; at += 1) {
      const order = Buffer.compare(a.parts[at]!, b.parts[at]!);
      if (order !== 0) return order;
    }
    // One is in the other's place.
    const [shorter, sign] = a.parts.length < b.parts.length ? [a, -1] : [b, 1];
    return shorter.takesFolder ? -sign : sign;
  });
  return keys.map(({ path }) => path);
}

class Look {
  readonly #ctx: JjContext;
  readonly #gitDir: string;
  readonly #op: OpId;
  readonly #on: { path: string; at: string; stat: Stats | undefined };
  #hash: ContentHash | null = null;

  constructor(
    ctx: JjContext,
    gitDir: string,
    op: OpId,
    on: { path: string; at: string; stat: Stats | undefined },
  ) {
    this.#ctx = ctx;
    this.#gitDir = gitDir;
    this.#op = op;
    this.#on = on;
  }

  /** null: as it is, it is as in both. */
  async compare(from: Sides, to: Sides): Promise<PathProgress | null> {
    const { path, stat } = this.#on;
    const old = resolveEntry(from.terms, path);
    const now = resolveEntry(to.terms, path);
    const is = (state: PathProgress["state"], sha256: string | null = null): PathProgress => ({
      path,
      state,
      had: old !== undefined,
      sha256,
    });
    if (stat === undefined || stat.isDirectory()) {
      if (old === undefined) return now === undefined ? null : is("from");
      if (now === undefined) return is("to");
      return is(stat === undefined ? "begun" : "other");
    }
    if (!stat.isFile() && !stat.isSymbolicLink()) return is("other");
    const { sha256 } = (this.#hash ??= contentHash(this.#on.at, stat));
    const isOld = await this.#isWhole(old, from);
    const isNew = await this.#isWhole(now, to);
    if (isOld || isNew) return isOld && isNew ? null : is(isOld ? "from" : "to", sha256);
    return is((await this.#isBeginning(now, to)) ? "begun" : "other", sha256);
  }

  async #isWhole(entry: Entry, sides: Sides): Promise<boolean> {
    if (entry === undefined) return false;
    const mode = modeOf(this.#on.stat!);
    if (entry !== "conflict") return entry.mode === mode && entry.id === this.#hash!.blob;
    if (mode === SYMLINK) return false;
    const wanted = await this.#rendering(sides);
    return new Bun.CryptoHasher("sha256").update(wanted).digest("hex") === this.#hash!.sha256;
  }

  /** All but the last step, too: the mode is set when everything is written. */
  async #isBeginning(entry: Entry, sides: Sides): Promise<boolean> {
    const stat = this.#on.stat!;
    if (entry === undefined || !stat.isFile() || stat.size > MAX_COMPARED_BYTES) return false;
    if (modeOf(stat) === EXECUTABLE) return false;
    // Where nothing was jj tries with an empty file whether there may be one, also for a symlink.
    if (stat.size === 0) return true;
    if (entry !== "conflict" && entry.mode === SYMLINK) return false;
    const wanted =
      entry === "conflict" ? await this.#rendering(sides) : await this.#blob(entry, stat.size);
    return wanted !== null && isBeginning(this.#on.at, wanted);
  }

  /** As it was, or would be, checked out: the same that `jj file show` prints. */
  #rendering(sides: Sides): Promise<Buffer> {
    const file = `root-file:${JSON.stringify(this.#on.path)}`;
    const args = ["file", "show", "-r", sides.commit, file];
    return readBytes(this.#ctx, this.#op, "show a conflict", args);
  }

  /** Its first bytes, at least as many as asked for where it has so many. */
  async #blob(entry: TreeEntry, bytes: number): Promise<Buffer | null> {
    const args = ["cat-file", "blob", entry.id];
    const result = await git(this.#ctx, this.#gitDir, args, { cutAtBytes: bytes });
    if (result.code !== 0 && !result.cut) return null;
    return result.stdout;
  }
}

type Entry = ReturnType<typeof resolveEntry>;

const SYMLINK = "120000";
const EXECUTABLE = "100755";

function modeOf(stat: Stats): string {
  if (stat.isSymbolicLink()) return SYMLINK;
  return (stat.mode & 0o111) === 0 ? "100644" : EXECUTABLE;
}

/**
 * Whether a file holds nothing but the first bytes of `whole`; after a loss of power zeros may stand where bytes were not
 * on the disk yet.
 */
function isBeginning(path: string, whole: Buffer): boolean {
  const fd = openSync(path, "r");
  try {
    const piece = Buffer.alloc(PIECE_BYTES);
    let zeros = false;
    for (let at = 0; ;) {
      const length = readSync(fd, piece, 0, PIECE_BYTES, null);
      if (length === 0) return true;
      if (at + length > whole.length) return false;
      const own = piece.subarray(0, length);
      if (zeros || !own.equals(whole.subarray(at, at + length))) {
        const same = zeros ? 0 : firstDifference(own, whole.subarray(at, at + length));
        if (own.subarray(same).some((byte) => byte !== 0)) return false;
        zeros = true;
      }
      at += length;
    }
  } finally {
    closeSync(fd);
  }
}

function firstDifference(a: Buffer, b: Buffer): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}

function lstat(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as { code?: string }).code === "ENOTDIR") return undefined;
    throw error;
  }
}
