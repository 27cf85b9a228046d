/** GitHubBackend. gh needs a server nobody has here; publishing brings its own stand-in for it. */
import { expect } from "bun:test";
import type { Change, GitHubBackend, Read, Refusal, RemoteRepo } from "../../src/ports/github.ts";
import { FakeGitHub } from "../fakes/github.ts";
import type { Remote } from "../fakes/github-remote.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { failureOf } from "../support/failure.ts";

interface Subject {
  github: GitHubBackend;
  fake: FakeGitHub;
  /** People's side of the same server. */
  remote: Remote;
}

const repo: RemoteRepo = { host: "github.com", owner: "ana", name: "shop" };
const fork: RemoteRepo = { host: "github.com", owner: "bob", name: "shop" };

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const fake = new FakeGitHub();
      fake.remote.addRepo(repo, "main");
      return { github: fake, fake, remote: fake.remote };
    },
  },
];

function value<T>(read: Read<T>): T {
  if (!read.known) throw new Error(read.why.message);
  return read.value;
}
function did<T>(change: Change<T>): T {
  if (change.done !== "yes") throw new Error(JSON.stringify(change));
  return change.value;
}
const whyNot = (change: Change<unknown>): string =>
  change.done === "no" ? change.why.kind : change.done;
const mainOf = (s: Subject): string => s.remote.branch(repo, "main")!;

/** Publishes a new commit on top of `base` under a branch, with a pull request into `into`. */
async function propose(s: Subject, branch: string, base: string, into = "main") {
  const commit = s.remote.commit([base]);
  did(await s.github.push({ repo, branch, commit, lastPublished: null }));
  const pull = did(await s.github.createPullRequest(proposal(branch, into)));
  return { commit, pull };
}
function proposal(branch: string, base: string) {
  const head = { repo, branch };
  return { repo, head, base, title: `Add ${branch}`, body: "text", draft: true };
}

contract("github", implementations, [
  {
    name: "preflight → who is logged in and the default branch; unknown repository → not-found",
    async run({ github }) {
      expect(value(await github.preflight(repo))).toEqual({ login: "ana", defaultBranch: "main" });
      const other = await github.preflight({ ...repo, name: "none" });
      expect(other.known ? null : other.why.kind).toBe("not-found");
    },
  },
  {
    name: "push of a new branch, then a pull request → open draft with exact head, base, title and body",
    async run(s) {
      const { commit, pull } = await propose(s, "kk/a", mainOf(s));
      expect(pull).toMatchObject({
        state: "open",
        draft: true,
        headRepo: repo,
        headBranch: "kk/a",
        headCommit: commit,
        baseBranch: "main",
        title: "Add kk/a",
        body: "text",
        mergeCommit: null,
      });
      expect(value(await s.github.pullRequests(repo, ["kk/a"]))).toEqual([pull]);
      expect(value(await s.github.branches(repo, ["kk/a", "kk/b"]))).toEqual(
        new Map([
          ["kk/a", commit],
          ["kk/b", null],
        ]),
      );
    },
  },
  {
    name: "push again with the published commit as lease → the pull request shows the new commit",
    async run(s) {
      const { commit, pull } = await propose(s, "kk/a", mainOf(s));
      const next = s.remote.commit([mainOf(s)]); // a rewrite, no descendant
      did(await s.github.push({ repo, branch: "kk/a", commit: next, lastPublished: commit }));
      const [shown] = value(await s.github.pullRequests(repo, ["kk/a"]));
      expect([shown!.number, shown!.headCommit]).toEqual([pull.number, next]);
    },
  },
  {
    name: "somebody else pushed → lease refusal naming their commit, theirs is not overwritten; a look does not renew it",
    async run(s) {
      const { commit } = await propose(s, "kk/a", mainOf(s));
      const theirs = s.remote.commit([commit]);
      s.remote.setBranch(repo, "kk/a", theirs);
      await s.github.branches(repo, ["kk/a"]);
      const mine = s.remote.commit([commit]);
      const refused = await s.github.push({
        repo,
        branch: "kk/a",
        commit: mine,
        lastPublished: commit,
      });
      expect(refused).toMatchObject({ done: "no", why: { kind: "lease", actual: theirs } });
      const unpublished = await s.github.push({
        repo,
        branch: "kk/a",
        commit: mine,
        lastPublished: null,
      });
      expect(whyNot(unpublished)).toBe("lease");
      expect(s.remote.branch(repo, "kk/a")).toBe(theirs);
    },
  },
  {
    name: "branch name reused by a fork and by an old pull request → all are shown, told apart by repository and commit",
    async run(s) {
      const old = await propose(s, "kk/a", mainOf(s));
      s.remote.close(old.pull.number);
      s.remote.addRepo(fork, "main");
      const theirs = s.remote.commit([mainOf(s)]);
      s.remote.setBranch(fork, "kk/a", theirs);
      did(
        await s.github.createPullRequest({
          ...proposal("kk/a", "main"),
          head: { repo: fork, branch: "kk/a" },
        }),
      );
      const mine = did(await s.github.createPullRequest(proposal("kk/a", "main")));
      const seen = value(await s.github.pullRequests(repo, ["kk/a"]));
      expect(seen.map((p) => [p.headRepo!.owner, p.headCommit, p.state])).toEqual([
        ["ana", old.commit, "open"],
        ["bob", theirs, "open"],
        ["ana", old.commit, "closed"],
      ]);
      expect(seen[0]!.number).toBe(mine.number);
    },
  },
  {
    name: "pull request that is there already → exists with its number, no second one",
    async run(s) {
      const { pull } = await propose(s, "kk/a", mainOf(s));
      const again = await s.github.createPullRequest(proposal("kk/a", "main"));
      expect(again).toMatchObject({ done: "no", why: { kind: "exists", number: pull.number } });
      expect(value(await s.github.pullRequests(repo, ["kk/a"]))).toHaveLength(1);
    },
  },
  {
    name: "nothing to propose, no such base, no such head → invalid",
    async run(s) {
      await propose(s, "kk/a", mainOf(s));
      s.remote.setBranch(repo, "kk/same", mainOf(s));
      for (const [head, base] of [
        ["kk/same", "main"],
        ["kk/a", "none"],
        ["kk/none", "main"],
      ] as const) {
        expect(whyNot(await s.github.createPullRequest(proposal(head, base)))).toBe("invalid");
      }
    },
  },
  {
    name: "edit → only the given fields; what a person wrote elsewhere stays",
    async run(s) {
      const { pull } = await propose(s, "kk/a", mainOf(s));
      s.remote.edit(pull.number, { title: "A person's title" });
      did(await s.github.editPullRequest({ repo, number: pull.number, body: "new" }));
      const [shown] = value(await s.github.pullRequests(repo, ["kk/a"]));
      expect([shown!.title, shown!.body]).toEqual(["A person's title", "new"]);
    },
  },
  {
    name: "bottom of a stack merged with its branch deleted → the child's pull request is closed and cannot be edited",
    async run(s) {
      const a = await propose(s, "kk/a", mainOf(s));
      const b = await propose(s, "kk/b", a.commit, "kk/a");
      s.remote.merge(a.pull.number, "squash", { deleteBranch: true });
      const [child] = value(await s.github.pullRequests(repo, ["kk/b"]));
      expect(child!.state).toBe("closed");
      const edit = await s.github.editPullRequest({ repo, number: b.pull.number, base: "main" });
      expect(whyNot(edit)).toBe("invalid");
    },
  },
  {
    name: "children retargeted first, branch deleted last → the child stays open on the new base",
    async run(s) {
      const a = await propose(s, "kk/a", mainOf(s));
      const b = await propose(s, "kk/b", a.commit, "kk/a");
      const merge = s.remote.merge(a.pull.number, "squash");
      did(await s.github.editPullRequest({ repo, number: b.pull.number, base: "main" }));
      const stale = await s.github.deleteBranch({ repo, branch: "kk/a", commit: b.commit });
      expect(whyNot(stale)).toBe("lease");
      did(await s.github.deleteBranch({ repo, branch: "kk/a", commit: a.commit }));
      const shown = value(await s.github.pullRequests(repo, ["kk/a", "kk/b"]));
      expect(shown.map((p) => [p.headBranch, p.state, p.baseBranch, p.mergeCommit])).toEqual([
        ["kk/b", "open", "main", null],
        ["kk/a", "merged", "main", merge],
      ]);
    },
  },
  {
    name: "merged, squashed, rebased → the exact commit on the base branch; a closed one has none",
    async run(s) {
      for (const how of ["merge", "squash", "rebase"] as const) {
        const { pull } = await propose(s, `kk/${how}`, mainOf(s));
        const made = s.remote.merge(pull.number, how);
        const [shown] = value(await s.github.pullRequests(repo, [`kk/${how}`]));
        expect([shown!.state, shown!.mergeCommit, mainOf(s)]).toEqual(["merged", made, made]);
      }
      const { pull } = await propose(s, "kk/no", mainOf(s));
      s.remote.close(pull.number);
      expect(value(await s.github.pullRequests(repo, ["kk/no"]))[0]!.mergeCommit).toBeNull();
    },
  },
  {
    name: "fork deleted → its pull request is closed and comes from nowhere",
    async run(s) {
      s.remote.addRepo(fork, "main");
      s.remote.setBranch(fork, "kk/a", s.remote.commit([mainOf(s)]));
      const head = { repo: fork, branch: "kk/a" };
      did(await s.github.createPullRequest({ ...proposal("kk/a", "main"), head }));
      s.remote.removeRepo(fork);
      expect(value(await s.github.pullRequests(repo, ["kk/a"]))).toMatchObject([
        { state: "closed", headRepo: null },
      ]);
    },
  },
  {
    name: "checks and comments → as they are; a commit without checks is known to have none",
    async run(s) {
      const { commit, pull } = await propose(s, "kk/a", mainOf(s));
      expect(value(await s.github.checks(repo, commit)).state).toBe("none");
      s.remote.checks.set(commit, { state: "failing", failing: ["build"] });
      expect(value(await s.github.checks(repo, commit)).failing).toEqual(["build"]);
      const comment = { author: "bob", path: "a.ts", line: 3, body: "why?", at: 2 };
      s.remote.comments.set(pull.number, [comment, { ...comment, body: "first", at: 1 }]);
      expect(value(await s.github.comments(repo, pull.number)).map((c) => c.body)).toEqual([
        "first",
        "why?",
      ]);
      const none = await s.github.comments(repo, 99);
      expect(none.known ? null : none.why.kind).toBe("not-found");
    },
  },
  {
    name: "rate limit, bad login, no network → told apart; reads are unknown and changes not done",
    async run(s) {
      const { commit } = await propose(s, "kk/a", mainOf(s));
      const refusals: Refusal[] = [
        { kind: "login", message: "bad credentials" },
        { kind: "unreachable", message: "no route to host" },
        { kind: "tool", message: "gh is not on PATH" },
      ];
      for (const why of refusals) {
        s.fake.refuses = why;
        expect(await s.github.pullRequests(repo, ["kk/a"])).toEqual({ known: false, why });
        const push = { repo, branch: "kk/a", commit: mainOf(s), lastPublished: commit };
        expect(await s.github.push(push)).toEqual({ done: "no", why });
      }
      s.fake.refuses = null;
      Object.assign(s.fake, { budget: 1, retryAt: 1_700_000_060_000 });
      value(await s.github.preflight(repo));
      expect(await s.github.preflight(repo)).toMatchObject({
        known: false,
        why: { kind: "rate-limit", retryAt: 1_700_000_060_000 },
      });
      expect(s.remote.branch(repo, "kk/a")).toBe(commit);
    },
  },
  {
    name: "answer lost → unknown whether done or not; looking tells, and doing it again is safe",
    async run(s) {
      const commit = s.remote.commit([mainOf(s)]);
      for (const how of ["not-done", "done"] as const) {
        s.fake.lost.set("push", how).set("createPullRequest", how);
        const push = { repo, branch: `kk/${how}`, commit, lastPublished: null };
        expect((await s.github.push(push)).done).toBe("unknown");
        const at = value(await s.github.branches(repo, [push.branch])).get(push.branch);
        expect(at).toBe(how === "done" ? commit : null);
        if (at === null) did(await s.github.push(push));
        const create = proposal(push.branch, "main");
        expect((await s.github.createPullRequest(create)).done).toBe("unknown");
        const seen = value(await s.github.pullRequests(repo, [push.branch]));
        expect(seen).toHaveLength(how === "done" ? 1 : 0);
        const again = await s.github.createPullRequest(create);
        expect(whyNot(again)).toBe(how === "done" ? "exists" : "yes");
      }
      expect(s.remote.pulls).toHaveLength(2);
    },
  },
  {
    name: "pull request that lags behind its branch → shows the old commit until the server has caught up",
    async run(s) {
      const { commit } = await propose(s, "kk/a", mainOf(s));
      s.fake.lagging = true;
      const next = s.remote.commit([commit]);
      did(await s.github.push({ repo, branch: "kk/a", commit: next, lastPublished: commit }));
      const shown = async () => value(await s.github.pullRequests(repo, ["kk/a"]))[0]!.headCommit;
      expect([await shown(), s.remote.branch(repo, "kk/a")]).toEqual([commit, next]);
      s.fake.catchUp();
      expect(await shown()).toBe(next);
    },
  },
  {
    name: "short commit ids, names git refuses, an edit of nothing → a mistake of the caller",
    async run(s) {
      const push = { repo, branch: "kk/a", commit: mainOf(s), lastPublished: null };
      for (const bad of [
        { commit: "abc" },
        { branch: "a//b" },
        { branch: "x.lock" },
        { branch: "-x" },
      ]) {
        expect(await failureOf(s.github.push({ ...push, ...bad }))).toBeInstanceOf(Error);
      }
      expect(String(await failureOf(s.github.editPullRequest({ repo, number: 1 })))).toContain(
        "changes something",
      );
    },
  },
]);
