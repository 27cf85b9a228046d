/** git HEAD of colocated workspaces, as files: `.git/HEAD` of the main one, `.git/worktrees/<name>/HEAD` of others. */
import { basename } from "node:path";
import type { CommitId } from "../../../src/core/ids.ts";
import { ROOT_COMMIT } from "../../../src/core/revset.ts";
import type { RepoLocation } from "../../../src/ports/jj.ts";
import type { FakeFiles } from "../files.ts";
import type { View } from "./store.ts";

export class GitHeads {
  readonly #files: FakeFiles;
  readonly #location: RepoLocation;

  constructor(files: FakeFiles, location: RepoLocation) {
    this.#files = files;
    this.#location = location;
  }

  /** Makes a workspace colocated. */
  add(root: string): void {
    if (root !== this.#location.repoRoot)
      this.#files.put(`${root}/.git`, `gitdir: ${this.#folder(root)}`);
    this.#files.put(`${this.#folder(root)}/HEAD`, "ref: refs/heads/unborn");
  }

  /** undefined: not colocated; null: unborn. */
  head(root: string): CommitId | null | undefined {
    const dotGit = `${root}/.git`;
    if (!this.#files.isFolder(dotGit) && this.#files.entryNow(dotGit) === null) return undefined;
    const text = this.#files.get(`${this.#folder(root)}/HEAD`);
    if (text === null) return undefined;
    return text.startsWith("ref: ") ? null : text;
  }

  /** What git does when somebody commits or checks out. */
  set(root: string, commit: CommitId): void {
    this.#files.put(`${this.#folder(root)}/HEAD`, commit);
  }

  /** jj's export: HEAD is the first parent of `@`, and the view says so. */
  reset(root: string, workspace: string, view: View, parents: readonly CommitId[]): boolean {
    const before = this.head(root);
    const [parent] = parents;
    if (before === undefined || parent === undefined) return false;
    if (parent === ROOT_COMMIT) {
      view.gitHeads.delete(workspace);
      if (before !== null) this.#files.put(`${this.#folder(root)}/HEAD`, "ref: refs/heads/unborn");
      return before !== null;
    }
    view.gitHeads.set(workspace, parent);
    if (before !== parent) this.set(root, parent);
    return before !== parent;
  }

  remove(root: string): void {
    this.#files.remove(`${this.#folder(root)}/HEAD`);
  }

  #folder(root: string): string {
    const main = `${this.#location.repoRoot}/.git`;
    return root === this.#location.repoRoot ? main : `${main}/worktrees/${basename(root)}`;
  }
}
