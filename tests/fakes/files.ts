/** A file system in memory: absolute paths, folders, files, symlinks. Stricter than a disk: nothing is implied. */
import { createHash } from "node:crypto";
import type { CreationFiles, PathKind } from "../../src/lifecycle/creation-deps.ts";

/** Type bits of a symlink, as stat tells them. */
const LINK_MODE = 0o120000;

interface Folder {
  inode: string;
}

export class FakeFiles implements CreationFiles {
  readonly #folders = new Map<string, Folder>([["/", { inode: "1:0" }]]);
  readonly #files = new Map<string, { text: string; mode: number }>();
  #nextInode = 1;

  // ---- what tests look at ------------------------------------------------------------------------------------

  /** Text of a file; symlinks are not followed. */
  get(path: string): string | null {
    const file = this.#files.get(path);
    return file === undefined || file.mode === LINK_MODE ? null : file.text;
  }

  /** What lies at a path that is no folder; of a symlink `text` is the target. */
  entryNow(path: string): { text: string; mode: number; isLink: boolean } | null {
    const file = this.#files.get(path);
    return file === undefined ? null : { ...file, isLink: file.mode === LINK_MODE };
  }

  isFolder(path: string): boolean {
    return this.#folders.has(path);
  }

  modeOf(path: string): number | null {
    return this.#files.get(path)?.mode ?? null;
  }

  /** Every file below a folder, absolute. */
  below(folder: string): string[] {
    return [...this.#files.keys()].filter((path) => path.startsWith(`${folder}/`)).sort();
  }

  /** Writes like another program would: folders are made as needed. */
  put(path: string, text: string, mode = 0o644): void {
    if (this.#folders.has(path)) throw new Error(`EISDIR ${path}`);
    this.makeFolders(path.slice(0, path.lastIndexOf("/")) || "/");
    this.#files.set(path, { text, mode });
  }

  symlink(target: string, path: string): void {
    this.put(path, target, LINK_MODE);
  }

  /** Empty folders only; anything else stays. */
  removeEmptyFolder(path: string): void {
    if (this.kindNow(path) === "empty-folder") this.#folders.delete(path);
  }

  remove(path: string): void {
    this.#files.delete(path);
  }

  makeFolders(path: string): void {
    const parts = path.split("/").filter((part) => part !== "");
    for (let i = 1; i <= parts.length; i += 1) {
      const folder = `/${parts.slice(0, i).join("/")}`;
      if (this.#files.has(folder)) throw new Error(`ENOTDIR ${folder}`);
      if (!this.#folders.has(folder)) {
        this.#folders.set(folder, { inode: `1:${this.#nextInode}` });
        this.#nextInode += 1;
      }
    }
  }

  // ---- the port ----------------------------------------------------------------------------------------------

  async ensureDir(path: string): Promise<void> {
    this.makeFolders(path);
  }

  async writeDurable(path: string, text: string, mode: number): Promise<void> {
    if (!this.#folders.has(path.slice(0, path.lastIndexOf("/")))) throw new Error(`ENOENT ${path}`);
    if (this.#folders.has(path)) throw new Error(`EISDIR ${path}`);
    this.#files.set(path, { text, mode });
  }

  async removeDurable(path: string): Promise<void> {
    this.#files.delete(path);
  }

  async readText(path: string): Promise<string | null> {
    return this.get(path);
  }

  async sha256(path: string): Promise<string | null> {
    const text = this.get(path);
    return text === null ? null : createHash("sha256").update(text).digest("hex");
  }

  async kind(path: string): Promise<PathKind> {
    return this.kindNow(path);
  }

  kindNow(path: string): PathKind {
    if (this.#files.has(path)) return "other";
    if (!this.#folders.has(path)) return "absent";
    const prefix = `${path}/`;
    for (const file of this.#files.keys()) if (file.startsWith(prefix)) return "folder";
    for (const folder of this.#folders.keys()) if (folder.startsWith(prefix)) return "folder";
    return "empty-folder";
  }

  async inode(path: string): Promise<string | null> {
    return this.#folders.get(path)?.inode ?? null;
  }

  async listFiles(folder: string, skip: readonly string[]): Promise<string[]> {
    return this.below(folder)
      .map((path) => path.slice(folder.length + 1))
      .filter((path) => !skip.includes(path.split("/")[0] ?? ""));
  }

  async removeListed(
    folder: string,
    files: readonly string[],
    trees: readonly string[],
  ): Promise<boolean> {
    for (const file of files) this.#files.delete(`${folder}/${file}`);
    if ((await this.listFiles(folder, trees)).length > 0) return false;
    await this.removeTree(folder);
    return true;
  }

  async removeTree(path: string): Promise<void> {
    for (const file of this.below(path)) this.#files.delete(file);
    for (const folder of this.#folders.keys()) {
      if (folder === path || folder.startsWith(`${path}/`)) this.#folders.delete(folder);
    }
  }
}
