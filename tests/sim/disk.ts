/**
 * The disk of a simulated world. Every change of a workspace's files is shown to the oracle before it happens, together
 * with who makes it: bytes that somebody wrote may only go once something else has them.
 */
import { createHash } from "node:crypto";
import type { CascadeFiles } from "../../src/cascade/deps.ts";
import { FakeFiles } from "../fakes/files.ts";

/** The main workspace. */
export const REPO_ROOT = "/src/calc";

/**
 * Who acts. `edit`: an agent or a person writes the file itself, and may overwrite it; `jj`: a person or an agent runs
 * jj, which keeps what it replaces.
 */
export type Actor = "kiki" | "edit" | "jj";

/** One file as it is and as it will be; null is absent. */
export interface DiskChange {
  path: string;
  before: string | null;
  after: string | null;
}

export class SimFiles extends FakeFiles {
  actor: Actor = "kiki";
  /** The wall clock of the files' times; null: they have none. */
  now: () => number | null = () => null;
  readonly #changed = new Map<string, number | null>();
  onChange: (change: DiskChange) => void = () => undefined;

  /** Runs `body` as somebody else than kiki. */
  as<T>(actor: Actor, body: () => T): T {
    const before = this.actor;
    this.actor = actor;
    try {
      return body();
    } finally {
      this.actor = before;
    }
  }

  override put(path: string, text: string, mode = 0o644): void {
    this.#tell(path, text);
    super.put(path, text, mode);
    this.#changed.set(path, this.now());
  }

  changedAt(path: string): number | null {
    return this.entryNow(path) === null ? null : (this.#changed.get(path) ?? null);
  }

  override remove(path: string): void {
    this.#tell(path, null);
    super.remove(path);
  }

  override async removeListed(
    folder: string,
    files: readonly string[],
    trees: readonly string[],
  ): Promise<boolean> {
    for (const file of files) this.#tell(`${folder}/${file}`, null);
    return super.removeListed(folder, files, trees);
  }

  override async removeTree(path: string): Promise<void> {
    for (const file of this.below(path)) this.#tell(file, null);
    return super.removeTree(path);
  }

  #tell(path: string, after: string | null): void {
    const before = this.entryNow(path)?.text ?? null;
    if (before !== after) this.onChange({ path, before, after });
  }
}

/** The cascade's own file work on the same disk. */
export function cascadeFilesOn(files: SimFiles): CascadeFiles {
  const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/")) || "/";
  return {
    writeDurable(path, bytes, mode) {
      if (!files.isFolder(folderOf(path))) throw new Error(`ENOENT ${path}`);
      files.put(path, typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes), mode);
    },
    removeDurable: (path) => files.remove(path),
    ensureDir: (path) => files.makeFolders(path),
    listDir: (path) =>
      files
        .below(path)
        .map((file) => file.slice(path.length + 1))
        .filter((name) => !name.includes("/")),
    readText: (path) => files.get(path),
    copyInto(source, to) {
      const from = typeof source === "string" ? source : new TextDecoder().decode(source);
      const entry = files.entryNow(from);
      if (entry === null) return null;
      if (entry.isLink) files.symlink(entry.text, to);
      else files.put(to, entry.text, entry.mode);
      return createHash("sha256").update(entry.text).digest("hex");
    },
    changedAt: (path) => files.changedAt(path),
    stamp(path) {
      const entry = files.entryNow(path);
      const text = entry === null ? null : `${entry.mode} ${entry.isLink} ${entry.text}`;
      return text === null ? null : { text, recent: false };
    },
    sha256(path) {
      const entry = files.entryNow(path);
      return entry === null ? null : createHash("sha256").update(entry.text).digest("hex");
    },
    // Nothing here writes into a file that is open: a second name is as good as a copy.
    hardLink(from, to) {
      const entry = files.entryNow(from);
      if (entry === null) return "absent";
      if (entry.isLink) files.symlink(entry.text, to);
      else files.put(to, entry.text, entry.mode);
      return "linked";
    },
    removeTree(path) {
      for (const file of files.below(path)) files.remove(file);
    },
    isBehindLink: (root, path) =>
      path
        .split("/")
        .slice(0, -1)
        .some(
          (_, at, parts) =>
            files.entryNow([root, ...parts.slice(0, at + 1)].join("/"))?.isLink === true,
        ),
    moveFile(from, to) {
      const entry = files.entryNow(from);
      if (entry === null) return false;
      // Its bytes have another name before they lose this one.
      if (entry.isLink) files.symlink(entry.text, to);
      else files.put(to, entry.text, entry.mode);
      files.remove(from);
      return true;
    },
    putBack(kept, root, path) {
      const entry = files.entryNow(kept);
      const to = `${root}/${path}`;
      if (entry === null || files.kindNow(to) !== "absent") return false;
      const parts = path.split("/");
      if (parts.some((_, at) => files.entryNow([root, ...parts.slice(0, at)].join("/")) !== null))
        return false;
      if (entry.isLink) files.symlink(entry.text, to);
      else files.put(to, entry.text, entry.mode);
      return true;
    },
    removeEmptyFolders(folder, root) {
      for (let at = folder; at.startsWith(`${root}/`); at = folderOf(at))
        files.removeEmptyFolder(at);
    },
  };
}
