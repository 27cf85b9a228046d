/**
 * GitHub behind the port, as gh shows it: a refusal has its kind, a lost answer is `unknown` whether the change took
 * place or not. The server itself is `remote`, and people use it directly.
 */
import type {
  Change,
  Checks,
  GitHubBackend,
  PullRequest,
  Read,
  Refusal,
  RemoteRepo,
  ReviewComment,
} from "../../src/ports/github.ts";
import { Remote, repoKey, sameRepo, type StoredPull } from "./github-remote.ts";

type Action = "push" | "createPullRequest" | "editPullRequest" | "deleteBranch";

export class FakeGitHub implements GitHubBackend {
  readonly remote = new Remote();
  /** Every request that reached the server, in order. */
  readonly requests: string[] = [];
  login = "ana";
  /** What every request is answered with, before anything else. */
  refuses: Refusal | null = null;
  /** Requests left before the rate limit; null for no limit. */
  budget: number | null = null;
  /** When the limit is over, in milliseconds. */
  retryAt: number | null = null;
  /** Answers that get lost, once each: with the change done, or not. */
  readonly lost = new Map<Action, "done" | "not-done">();
  /** Pull requests show a pushed commit only after `catchUp`. */
  lagging = false;
  readonly #shownHeads = new Map<number, string>();

  catchUp(): void {
    this.#shownHeads.clear();
  }

  // ---- reads -------------------------------------------------------------------------------------------------

  async preflight(repo: RemoteRepo): Promise<Read<{ login: string; defaultBranch: string }>> {
    return this.#read(`preflight ${repoKey(repo)}`, repo, (found) => ({
      login: this.login,
      defaultBranch: found.defaultBranch,
    }));
  }

  async branches(
    repo: RemoteRepo,
    names: readonly string[],
  ): Promise<Read<Map<string, string | null>>> {
    return this.#read(`branches ${names.join(" ")}`, repo, (found) => {
      return new Map(names.map((name) => [name, found.branches.get(name) ?? null]));
    });
  }

  async pullRequests(repo: RemoteRepo, heads: readonly string[]): Promise<Read<PullRequest[]>> {
    return this.#read(`pullRequests ${heads.join(" ")}`, repo, () =>
      this.remote.pulls
        .filter((p) => sameRepo(p.baseRepo, repo) && heads.includes(p.headBranch))
        .toSorted((a, b) => b.number - a.number)
        .map((p) => this.#shown(p)),
    );
  }

  async checks(repo: RemoteRepo, commit: string): Promise<Read<Checks>> {
    checkCommit(commit);
    const none: Checks = { state: "none", failing: [] };
    return this.#read(`checks ${commit}`, repo, () => this.remote.checks.get(commit) ?? none);
  }

  async comments(repo: RemoteRepo, number: number): Promise<Read<ReviewComment[]>> {
    const read = this.#read(`comments ${number}`, repo, () =>
      (this.remote.comments.get(number) ?? []).toSorted((a, b) => a.at - b.at),
    );
    return read.known && this.#pull(repo, number) === null ? notFound(number) : read;
  }

  // ---- changes -----------------------------------------------------------------------------------------------

  async push(input: Parameters<GitHubBackend["push"]>[0]): Promise<Change<void>> {
    checkCommit(input.commit);
    checkBranch(input.branch);
    const { repo, branch, commit, lastPublished } = input;
    return this.#change("push", `push ${branch}`, repo, () => {
      const actual = this.remote.branch(repo, branch);
      if (actual !== lastPublished) return refused(lease(branch, actual));
      if (!this.remote.exists(commit)) throw new Error(`nobody has commit ${commit}`);
      const before = this.#heads();
      this.remote.setBranch(repo, branch, commit);
      if (this.lagging) this.#freeze(before);
      return { done: "yes", value: undefined };
    });
  }

  async createPullRequest(
    input: Parameters<GitHubBackend["createPullRequest"]>[0],
  ): Promise<Change<PullRequest>> {
    const { repo, head, base, title, body, draft } = input;
    if (title.trim() === "") throw new Error("a pull request has a title");
    return this.#change("createPullRequest", `create ${head.branch} → ${base}`, repo, () => {
      const problem = this.#cannotPropose(repo, head, base, null);
      if (problem !== null) return refused(problem);
      const number = this.remote.pulls.length + 1;
      const pull: StoredPull = {
        number,
        url: `https://${repo.host}/${repo.owner}/${repo.name}/pull/${number}`,
        state: "open",
        draft,
        headRepo: head.repo,
        baseRepo: repo,
        headBranch: head.branch,
        headCommit: this.remote.branch(head.repo, head.branch)!,
        baseBranch: base,
        title,
        body,
        mergeCommit: null,
      };
      this.remote.pulls.push(pull);
      return { done: "yes", value: this.#shown(pull) };
    });
  }

  async editPullRequest(
    input: Parameters<GitHubBackend["editPullRequest"]>[0],
  ): Promise<Change<PullRequest>> {
    const { repo, number, base, title, body } = input;
    if (base === undefined && title === undefined && body === undefined) {
      throw new Error("an edit changes something");
    }
    return this.#change("editPullRequest", `edit ${number}`, repo, () => {
      const pull = this.#pull(repo, number);
      if (pull === null)
        return refused({ kind: "not-found", message: `no pull request ${number}` });
      if (pull.state !== "open" || pull.headRepo === null) {
        return refused({ kind: "invalid", message: `#${number} is ${pull.state}` });
      }
      if (base !== undefined && base !== pull.baseBranch) {
        const head = { repo: pull.headRepo, branch: pull.headBranch };
        const problem = this.#cannotPropose(repo, head, base, number);
        if (problem !== null) return refused(problem);
        pull.baseBranch = base;
      }
      if (title !== undefined) pull.title = title;
      if (body !== undefined) pull.body = body;
      return { done: "yes", value: this.#shown(pull) };
    });
  }

  async deleteBranch(input: Parameters<GitHubBackend["deleteBranch"]>[0]): Promise<Change<void>> {
    const { repo, branch, commit } = input;
    checkCommit(commit);
    return this.#change("deleteBranch", `delete ${branch}`, repo, () => {
      const actual = this.remote.branch(repo, branch);
      if (actual !== commit) return refused(lease(branch, actual));
      this.remote.removeBranch(repo, branch);
      return { done: "yes", value: undefined };
    });
  }

  // ---- within ------------------------------------------------------------------------------------------------

  /** Counts one request; its refusal, if the server says no before looking. */
  #request(name: string): Refusal | null {
    if (this.refuses !== null) return this.refuses;
    if (this.budget !== null) {
      if (this.budget <= 0) {
        const message = "API rate limit exceeded";
        return { kind: "rate-limit", message, retryAt: this.retryAt };
      }
      this.budget -= 1;
    }
    this.requests.push(name);
    return null;
  }

  #read<T>(
    name: string,
    repo: RemoteRepo,
    look: (found: NonNullable<ReturnType<Remote["find"]>>) => T,
  ): Read<T> {
    const why = this.#request(name);
    if (why !== null) return { known: false, why };
    const found = this.remote.find(repo);
    if (found === null) {
      return { known: false, why: { kind: "not-found", message: `no ${repoKey(repo)}` } };
    }
    return { known: true, value: structuredClone(look(found)) };
  }

  #change<T>(action: Action, name: string, repo: RemoteRepo, effect: () => Change<T>): Change<T> {
    const why = this.#request(name);
    if (why !== null) return refused(why);
    if (this.remote.find(repo) === null) {
      return refused({ kind: "not-found", message: `no ${repoKey(repo)}` });
    }
    const lost = this.lost.get(action);
    this.lost.delete(action);
    if (lost === "not-done") return { done: "unknown", message: "no answer" };
    const outcome = effect();
    return lost === "done" ? { done: "unknown", message: "no answer" } : outcome;
  }

  #cannotPropose(
    repo: RemoteRepo,
    head: { repo: RemoteRepo; branch: string },
    base: string,
    self: number | null,
  ): Refusal | null {
    const from = this.remote.branch(head.repo, head.branch);
    const into = this.remote.branch(repo, base);
    if (from === null) return { kind: "invalid", message: `no branch ${head.branch}` };
    if (into === null) return { kind: "invalid", message: `no branch ${base}` };
    if (this.remote.reaches(into, from)) {
      return { kind: "invalid", message: `no commits between ${base} and ${head.branch}` };
    }
    const other = this.remote.pulls.find(
      (p) =>
        p.number !== self &&
        p.state === "open" &&
        sameRepo(p.baseRepo, repo) &&
        p.baseBranch === base &&
        p.headRepo !== null &&
        sameRepo(p.headRepo, head.repo) &&
        p.headBranch === head.branch,
    );
    if (other === undefined) return null;
    return { kind: "exists", message: `#${other.number} is there`, number: other.number };
  }

  #pull(repo: RemoteRepo, number: number): StoredPull | null {
    const pull = this.remote.pull(number);
    return pull !== null && sameRepo(pull.baseRepo, repo) ? pull : null;
  }

  #shown(pull: StoredPull): PullRequest {
    const { baseRepo: _, ...shown } = pull;
    const headCommit = this.#shownHeads.get(pull.number) ?? shown.headCommit;
    return structuredClone({ ...shown, headCommit });
  }

  #heads(): Map<number, string> {
    return new Map(this.remote.pulls.map((p) => [p.number, p.headCommit]));
  }

  #freeze(before: ReadonlyMap<number, string>): void {
    for (const pull of this.remote.pulls) {
      const old = before.get(pull.number);
      if (old !== undefined && old !== pull.headCommit && !this.#shownHeads.has(pull.number)) {
        this.#shownHeads.set(pull.number, old);
      }
    }
  }
}

function refused(why: Refusal): { done: "no"; why: Refusal } {
  return { done: "no", why };
}

function lease(branch: string, actual: string | null): Refusal {
  return { kind: "lease", message: `${branch} is at ${actual ?? "nothing"}`, actual };
}

function notFound(number: number): { known: false; why: Refusal } {
  return { known: false, why: { kind: "not-found", message: `no pull request ${number}` } };
}

function checkCommit(commit: string): void {
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new Error(`not a full commit id: ${commit}`);
}

function checkBranch(name: string): void {
  if (!/^[A-Za-z0-9][A-Za-z0-9._/-]*$/.test(name) || /\/\/|\.lock$|\.\.|\/$/.test(name)) {
    throw new Error(`not a branch name git takes: ${JSON.stringify(name)}`);
  }
}
