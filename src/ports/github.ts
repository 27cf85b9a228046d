/**
 * What kiki needs from GitHub, through `gh` (publishing chapter). Nothing here decides: identity of a pull request is
 * judged by the caller from head repository, branch and commit; texts a person edited are the caller's to leave alone.
 * Two things hold for every implementation:
 * - a read that fails is `unknown`, never "none";
 * - a change says whether it happened, did not, or may have: a lost answer is looked at again, never repeated blindly.
 */

/** A repository's identity. `name` alone says nothing: forks share it. */
export interface RemoteRepo {
  host: string;
  owner: string;
  name: string;
}

export interface PullRequest {
  number: number;
  url: string;
  state: "open" | "merged" | "closed";
  draft: boolean;
  /** null when the fork it came from is gone. */
  headRepo: RemoteRepo | null;
  headBranch: string;
  /** Commit the pull request shows now; after a merge, the last one it showed. */
  headCommit: string;
  baseBranch: string;
  title: string;
  body: string;
  /** The commit on the base branch that the merge made. */
  mergeCommit: string | null;
}

export interface ReviewComment {
  author: string;
  /** null for a comment on the pull request as a whole. */
  path: string | null;
  line: number | null;
  body: string;
  /** Milliseconds since the epoch, by the server's clock. */
  at: number;
}

export interface Checks {
  /** `none`: known to have no checks. */
  state: "passing" | "failing" | "pending" | "none";
  /** Names, sorted. */
  failing: string[];
}

/** Why something was not done or cannot be told. */
export type Refusal =
  /** `gh` is not on PATH, or too old. */
  | { kind: "tool"; message: string }
  /** No login, or the server does not accept it: logging in helps. */
  | { kind: "login"; message: string }
  /** The login is fine and has been used too much; `retryAt` in milliseconds, null when not said. Logging in does not help. */
  | { kind: "rate-limit"; message: string; retryAt: number | null }
  /** The login may not do this. */
  | { kind: "forbidden"; message: string }
  /** The repository, pull request or branch is not there, or not visible. */
  | { kind: "not-found"; message: string }
  /** The branch is not at the commit it was expected at; `actual` is where it is, null for nowhere. */
  | { kind: "lease"; message: string; actual: string | null }
  /** An open pull request for the branch is there already. */
  | { kind: "exists"; message: string; number: number }
  /** The server understands the request and will not have it (no commits between, base is no branch, …). */
  | { kind: "invalid"; message: string }
  /** Nothing came of it before it was sent, or a read got no answer. */
  | { kind: "unreachable"; message: string };

export type Read<T> = { known: true; value: T } | { known: false; why: Refusal };

export type Change<T> =
  | { done: "yes"; value: T }
  | { done: "no"; why: Refusal }
  /** The request was sent and no answer came. */
  | { done: "unknown"; message: string };

export interface GitHubBackend {
  /** gh is there, logged in, and the repository resolves. Changes nothing. */
  preflight(repo: RemoteRepo): Promise<Read<{ login: string; defaultBranch: string }>>;
  /** Commits of branches; null for a branch that is known to be absent. */
  branches(repo: RemoteRepo, names: readonly string[]): Promise<Read<Map<string, string | null>>>;
  /**
   * Pull requests into `repo` from branches of these names, in one query: every state, every head repository, newest
   * first. A name is reused by forks and by old pull requests; the caller compares commits and repositories.
   */
  pullRequests(repo: RemoteRepo, heads: readonly string[]): Promise<Read<PullRequest[]>>;
  /**
   * Puts a branch on exactly `commit`, if it is still at `lastPublished` (null: does not exist). The lease is on what
   * kiki published last, never on a fresh fetch: a commit somebody else pushed is a `lease` refusal.
   */
  push(input: {
    repo: RemoteRepo;
    branch: string;
    commit: string;
    lastPublished: string | null;
  }): Promise<Change<void>>;
  createPullRequest(input: {
    repo: RemoteRepo;
    head: { repo: RemoteRepo; branch: string };
    base: string;
    title: string;
    body: string;
    draft: boolean;
  }): Promise<Change<PullRequest>>;
  /** Changes only the fields that are given. Retargeting is an edit of `base`; a closed or merged one is `invalid`. */
  editPullRequest(input: {
    repo: RemoteRepo;
    number: number;
    base?: string;
    title?: string;
    body?: string;
  }): Promise<Change<PullRequest>>;
  /** Deletes a branch that is still at `commit`. The server closes open pull requests from it and into it. */
  deleteBranch(input: { repo: RemoteRepo; branch: string; commit: string }): Promise<Change<void>>;
  /** The roll-up of a commit's checks. */
  checks(repo: RemoteRepo, commit: string): Promise<Read<Checks>>;
  /** Review comments, oldest first. */
  comments(repo: RemoteRepo, number: number): Promise<Read<ReviewComment[]>>;
}
