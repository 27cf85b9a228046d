/** The fake jj's front door: which repository a folder lies in, and whether the tools are good enough. */
import type { JjBackend, JjRepo, RepoLocation } from "../../../src/ports/jj.ts";
import type { FakeFiles } from "../files.ts";
import type { FakeJj } from "../jj.ts";

export class FakeJjBackend implements JjBackend {
  /** What is wrong with the installed jj or git; null: nothing. */
  unfit: Error | null = null;
  readonly #files: FakeFiles;
  readonly #repos: readonly FakeJj[];

  constructor(files: FakeFiles, repos: readonly FakeJj[]) {
    this.#files = files;
    this.#repos = repos;
  }

  async checkVersions(): Promise<{ jj: string; git: string }> {
    if (this.unfit !== null) throw this.unfit;
    return { jj: "0.46.0", git: "2.53.0" };
  }

  autoUpdateStale(): Promise<string | null> {
    return Promise.resolve(null);
  }

  async locate(folder: string): Promise<RepoLocation | null> {
    if (!this.#files.isFolder(folder)) return null;
    for (let at = folder; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
      const link = `${at}/.jj/repo`;
      const repoDir = this.#files.isFolder(link) ? link : this.#files.get(link);
      const repo = this.#repos.find(({ location }) => location.repoDir === repoDir);
      if (repo !== undefined) return { ...repo.location, workspaceRoot: at };
    }
    return null;
  }

  open(location: RepoLocation, neutral: string): JjRepo {
    const repo = this.#repos.find((each) => each.location.repoDir === location.repoDir);
    if (repo === undefined) throw new Error(`no repository at ${location.repoDir}`);
    repo.neutral = neutral;
    return repo;
  }
}
