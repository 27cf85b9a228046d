/** The server's side of a fake GitHub: repositories with branches and commits, and what people do to them. */
import type { PullRequest, RemoteRepo, ReviewComment, Checks } from "../../src/ports/github.ts";

export interface StoredPull extends Omit<PullRequest, "headRepo"> {
  headRepo: RemoteRepo | null;
  baseRepo: RemoteRepo;
}

interface StoredRepo {
  repo: RemoteRepo;
  defaultBranch: string;
  branches: Map<string, string>;
}

export function repoKey(repo: RemoteRepo): string {
  return `${repo.host}/${repo.owner}/${repo.name}`.toLowerCase();
}

export class Remote {
  readonly pulls: StoredPull[] = [];
  readonly checks = new Map<string, Checks>();
  readonly comments = new Map<number, ReviewComment[]>();
  readonly #repos = new Map<string, StoredRepo>();
  /** Every commit anybody has, with its parents. */
  readonly #commits = new Map<string, readonly string[]>();
  #nextCommit = 1;

  // ---- repositories and commits ------------------------------------------------------------------------------

  addRepo(repo: RemoteRepo, defaultBranch: string): void {
    const root = this.commit([]);
    const branches = new Map([[defaultBranch, root]]);
    this.#repos.set(repoKey(repo), { repo, defaultBranch, branches });
  }

  /** A fork goes away: what was proposed from it stays, from nowhere. */
  removeRepo(repo: RemoteRepo): void {
    this.#repos.delete(repoKey(repo));
    for (const pull of this.pulls) {
      if (pull.headRepo !== null && repoKey(pull.headRepo) === repoKey(repo)) {
        pull.headRepo = null;
        if (pull.state === "open") pull.state = "closed";
      }
    }
  }

  find(repo: RemoteRepo): StoredRepo | null {
    return this.#repos.get(repoKey(repo)) ?? null;
  }

  /** Makes a commit, here or on somebody's machine: a name for it is all that travels. */
  commit(parents: readonly string[]): string {
    const unknown = parents.find((p) => !this.#commits.has(p));
    if (unknown !== undefined) throw new Error(`no commit ${unknown}`);
    const id = this.#nextCommit.toString(16).padStart(40, "c");
    this.#nextCommit += 1;
    this.#commits.set(id, [...parents]);
    return id;
  }

  exists(commit: string): boolean {
    return this.#commits.has(commit);
  }

  reaches(from: string, to: string): boolean {
    const seen = new Set<string>();
    for (let next = [from]; next.length > 0;) {
      if (next.includes(to)) return true;
      next = next.flatMap((c) => [...(this.#commits.get(c) ?? [])]).filter((c) => !seen.has(c));
      for (const commit of next) seen.add(commit);
    }
    return false;
  }

  branch(repo: RemoteRepo, name: string): string | null {
    return this.find(repo)?.branches.get(name) ?? null;
  }

  // ---- what moves --------------------------------------------------------------------------------------------

  /** A branch is put somewhere, by whomever; open pull requests from it show the new commit. */
  setBranch(repo: RemoteRepo, name: string, commit: string): void {
    if (!this.exists(commit)) throw new Error(`no commit ${commit}`);
    this.find(repo)!.branches.set(name, commit);
    for (const pull of this.#openFrom(repo, name)) pull.headCommit = commit;
  }

  /** Open pull requests from the branch and into it are closed with it. */
  removeBranch(repo: RemoteRepo, name: string): void {
    this.find(repo)!.branches.delete(name);
    const into = this.pulls.filter(
      (p) => p.state === "open" && sameRepo(p.baseRepo, repo) && p.baseBranch === name,
    );
    for (const pull of [...this.#openFrom(repo, name), ...into]) pull.state = "closed";
  }

  /** A person merges in the browser, perhaps with the branch deleted in the same go. */
  merge(
    number: number,
    how: "merge" | "squash" | "rebase",
    options: { deleteBranch?: boolean } = {},
  ): string {
    const pull = this.pull(number)!;
    if (pull.state !== "open") throw new Error(`#${number} is ${pull.state}`);
    const base = this.branch(pull.baseRepo, pull.baseBranch)!;
    const made = this.commit(how === "merge" ? [base, pull.headCommit] : [base]);
    this.setBranch(pull.baseRepo, pull.baseBranch, made);
    pull.state = "merged";
    pull.mergeCommit = made;
    if (options.deleteBranch === true && pull.headRepo !== null) {
      this.removeBranch(pull.headRepo, pull.headBranch);
    }
    return made;
  }

  close(number: number): void {
    this.pull(number)!.state = "closed";
  }

  /** A person edits in the browser. */
  edit(number: number, change: Partial<Pick<PullRequest, "title" | "body" | "baseBranch">>): void {
    Object.assign(this.pull(number)!, change);
  }

  pull(number: number): StoredPull | null {
    return this.pulls.find((p) => p.number === number) ?? null;
  }

  #openFrom(repo: RemoteRepo, branch: string): StoredPull[] {
    return this.pulls.filter(
      (p) =>
        p.state === "open" &&
        p.headRepo !== null &&
        sameRepo(p.headRepo, repo) &&
        p.headBranch === branch,
    );
  }
}

export function sameRepo(a: RemoteRepo, b: RemoteRepo): boolean {
  return repoKey(a) === repoKey(b);
}
