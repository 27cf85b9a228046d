/** Registering and unregistering with a person's yes, over the wire, and under deaths of the daemon at every point. */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { existsSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { APPROVED_MOMENTS } from "../../src/authority/approved-run.ts";
import { insertThread } from "../../src/store/threads.ts";
import { makeRepo, type TestRepo } from "../support/jj-repo.ts";
import { removeTempDirs } from "../support/temp.ts";
import { AGENT, answerTo, codeOf, OTHER_TERMINAL, PERSON, RegistryRig } from "./registry-rig.ts";

setDefaultTimeout(60_000);
let repo: TestRepo;
let rig: RegistryRig;
beforeAll(async () => {
  repo = await makeRepo();
});
beforeEach(async () => {
  rig = await RegistryRig.make(repo);
});
afterEach(() => rig.stop());
afterAll(removeTempDirs);

const args = () => ({ folder: rig.repo.root });
function addThread(repoId: string): void {
  insertThread(rig.daemon.repos.get(repoId)!.db, {
    threadId: "00000000-0000-4000-8000-000000000001",
    name: "parser",
    slug: "parser",
    harness: "claude-code",
    harnessExecutable: "/bin/claude",
    harnessArgs: [],
    firstPrompt: null,
    workspaceName: "kk-parser",
    workspacePath: "/nowhere",
    bookmark: "kk/parser",
    tmuxSocket: null,
    tmuxSession: "kk-parser",
    createdAt: 1,
  });
}

const registerRepo = () => ({ method: "RegisterRepo" as const, args: args() });

describe("register", () => {
  test("without an approval → approval-needed, nothing recorded, one row", async () => {
    expect(await codeOf(rig.call("RegisterRepo", args()))).toBe("approval-needed");
    expect(rig.recorded()).toEqual([]);
    expect(
      rig.rows("SELECT outcome, error_code FROM user_audit_log WHERE method = 'RegisterRepo'"),
    ).toEqual([{ outcome: "rejected", error_code: "approval-needed" }]);
  });

  test("plan → what, where, what changes, what is kept; making it changes nothing", async () => {
    const { text, refusal, challenge } = await rig.begin(registerRepo());
    expect(refusal).toBeNull();
    expect(challenge).toMatchObject({ repoId: null, expiresInMs: 120_000 });
    for (const part of ["Register repository", rig.repo.root, "What changes", "What is kept"]) {
      expect(text).toContain(part);
    }
    expect(rig.recorded()).toEqual([]);
  });

  test("with an approval → registered once under its operation's id, approval consumed; again → no approval needed", async () => {
    const { repo, created } = await rig.register();
    expect(created).toBe(true);
    expect(rig.rows("SELECT operation_id, state FROM user_approved_operations")).toEqual([
      { operation_id: repo.repoId, state: "Completed" },
    ]);
    expect(rig.rows("SELECT consumed_at IS NOT NULL AS used FROM user_human_approvals")).toEqual([
      { used: 1 },
    ]);
    const again = await rig.call("RegisterRepo", args());
    expect([again.created, again.repo.repoId]).toEqual([false, repo.repoId]);
  });

  test("approval for one folder, used for another; replayed → refused", async () => {
    const approval = await rig.agreed(registerRepo());
    expect(await codeOf(rig.call("RegisterRepo", { folder: "/", approval }))).toBe("not-a-jj-repo");
    const sub = join(rig.repo.root, ".");
    expect(await codeOf(rig.call("RegisterRepo", { folder: `${sub}/`, approval }))).toBe(
      "plan-changed",
    );
    await rig.call("RegisterRepo", { ...args(), approval });
    rig.daemon.userDb.run("DELETE FROM repos");
    expect(await codeOf(rig.call("RegisterRepo", { ...args(), approval }))).toBe("approval-used");
  });

  test("repository that cannot be opened → that error, operation Failed, nothing left of it", async () => {
    const approval = await rig.agreed(registerRepo());
    // Where the record's database would be there is a folder already.
    const real = { ...rig.daemon.world };
    Object.assign(rig.daemon.world, { openRepo: () => Promise.reject(new Error("no such disk")) });
    expect(await codeOf(rig.call("RegisterRepo", { ...args(), approval }))).toBe(
      "repo-unavailable",
    );
    Object.assign(rig.daemon.world, real);
    expect(rig.rows("SELECT state, error FROM user_approved_operations")).toMatchObject([
      { state: "Failed", error: expect.stringContaining("no such disk") as string },
    ]);
    expect(rig.recorded()).toEqual([]);
    expect((await rig.register()).created).toBe(true);
  });

  test("asked for by an agent, on no terminal → plan, no challenge, the attempt rejected", async () => {
    for (const [pid, code] of [
      [AGENT, "presenter-is-an-agent"],
      [999, "approval-no-terminal"],
    ] as const) {
      const plan = await rig.begin(registerRepo(), pid);
      expect([plan.challenge, plan.refusal?.code]).toEqual([null, code]);
      expect(plan.text).toContain("Register repository");
      expect(
        rig.rows(
          "SELECT method, outcome, error_code FROM user_audit_log ORDER BY audit_id DESC LIMIT 1",
        ),
      ).toEqual([{ method: "BeginApproval", outcome: "rejected", error_code: code }]);
    }
    expect(rig.rows("SELECT * FROM user_approval_challenges")).toEqual([]);
  });

  test("confirmed on another terminal, by the caller's own credential, by an agent → refused; then by the person", async () => {
    const plan = await rig.begin(registerRepo());
    expect(await codeOf(rig.confirm(plan, OTHER_TERMINAL))).toBe("other-terminal");
    expect(await codeOf(rig.confirm(plan, AGENT))).toBe("presenter-is-an-agent");
    for (const credential of ["registration", "admin"]) {
      const call = rig.client(credential).call("ConfirmApproval", answerTo(plan, PERSON));
      expect([credential, await codeOf(call)]).toEqual([credential, "credential-kind"]);
    }
    const approval = await rig.confirm(plan);
    expect((await rig.call("RegisterRepo", { ...args(), approval })).created).toBe(true);
  });

  test("daemon restarts between plan, yes and call → the person is not asked again", async () => {
    const plan = await rig.begin(registerRepo());
    await rig.stop();
    await rig.boot();
    const approval = await rig.confirm(plan);
    await rig.stop();
    await rig.boot();
    expect((await rig.call("RegisterRepo", { ...args(), approval })).created).toBe(true);
  });
});

describe("unregister", () => {
  const request = (repoId: string, keepState: boolean) => ({
    method: "UnregisterRepo" as const,
    args: { repo: { repoId }, keepState },
  });

  test("record deleted, repository untouched, gone from the list", async () => {
    const { repo } = await rig.register();
    const head = await rig.repo.head();
    const plan = await rig.begin(request(repo.repoId, false));
    expect(plan.text).toContain("deleted for good");
    const approval = await rig.confirm(plan);
    const done = await rig.call("UnregisterRepo", {
      ...request(repo.repoId, false).args,
      approval,
    });
    expect(done).toMatchObject({ path: rig.repo.root, keptState: null });
    expect((await rig.call("ListRepos", {})).repos).toEqual([]);
    expect(rig.recorded()).toEqual([]);
    expect(await rig.repo.head()).toBe(head);
    expect((await rig.register()).repo.repoId).not.toBe(repo.repoId);
  });

  test("--keep-state → record stays, and the next registration takes it up with everything in it", async () => {
    const { repo } = await rig.register();
    const approval = await rig.agreed(request(repo.repoId, true));
    await rig.call("UnregisterRepo", { ...request(repo.repoId, true).args, approval });
    expect((await rig.call("ListRepos", {})).repos).toEqual([]);
    const plan = await rig.begin(registerRepo());
    expect(plan.text).toContain("takes up the record it kept");
    const again = await rig.confirm(plan);
    const back = await rig.call("RegisterRepo", { ...args(), approval: again });
    expect([back.created, back.repo.repoId]).toEqual([true, repo.repoId]);
    expect(existsSync(join(rig.stateDir, "repos", repo.repoId, "kept.json"))).toBe(false);
  });

  test("thread that is not closed → refused by name; changed after the plan → plan-changed", async () => {
    const { repo } = await rig.register();
    const approval = await rig.agreed(request(repo.repoId, false));
    addThread(repo.repoId);
    expect(await codeOf(rig.begin(request(repo.repoId, false)))).toBe("threads-open");
    const call = rig.call("UnregisterRepo", { ...request(repo.repoId, false).args, approval });
    expect(await codeOf(call)).toBe("threads-open");
    expect(rig.recorded()).toEqual([repo.repoId]);
  });

  test("thread begun after its threads were looked at, before the approval is spent → threads-open, approval not spent", async () => {
    const { repo } = await rig.register();
    const approval = await rig.agreed(request(repo.repoId, false));
    const { files } = rig.daemon.world;
    const real = files.listDir.bind(files);
    // The plan looks at the threads first and into this folder last.
    files.listDir = (path) => {
      if (path.endsWith("/recovery")) addThread(repo.repoId);
      return real(path);
    };
    const call = rig.call("UnregisterRepo", { ...request(repo.repoId, false).args, approval });
    expect(await codeOf(call)).toBe("threads-open");
    files.listDir = real;
    expect(rig.daemon.repos.has(repo.repoId)).toBe(true);
    expect(rig.recorded()).toEqual([repo.repoId]);
    expect(
      rig.rows("SELECT 1 FROM user_approved_operations WHERE method = 'UnregisterRepo'"),
    ).toEqual([]);
  });

  test("record cannot be marked as kept → that error, and the repository goes on as before", async () => {
    const { repo } = await rig.register();
    const approval = await rig.agreed(request(repo.repoId, true));
    const { files } = rig.daemon.world;
    const real = files.writeDurable.bind(files);
    files.writeDurable = (path, ...rest) => {
      if (path.endsWith("/kept.json")) throw new Error("no space left");
      real(path, ...rest);
    };
    const call = rig.call("UnregisterRepo", { ...request(repo.repoId, true).args, approval });
    expect(await codeOf(call)).toBe("internal");
    files.writeDurable = real;
    expect(
      rig.rows("SELECT state FROM user_approved_operations WHERE method = 'UnregisterRepo'"),
    ).toEqual([{ state: "Failed" }]);
    const threads = await rig.call("RepoThreadSummaries", {
      repo: { repoId: repo.repoId },
      closed: true,
    });
    expect(threads.threads).toEqual([]);
    expect(rig.starts).toEqual([repo.repoId, repo.repoId]);
    expect((await rig.call("ListRepos", {})).repos).toHaveLength(1);
  });

  test("repository that is gone from the disk → only with --keep-state, by its old path", async () => {
    const { repo } = await rig.register();
    await rig.stop();
    const away = `${rig.repo.root}.away`;
    renameSync(rig.repo.root, away);
    await rig.boot();
    const of = { repo: { folder: rig.repo.root }, keepState: false };
    expect(await codeOf(rig.begin({ method: "UnregisterRepo", args: of }))).toBe(
      "repo-unavailable",
    );
    const kept = { ...of, keepState: true };
    const approval = await rig.agreed({ method: "UnregisterRepo", args: kept });
    const done = await rig.call("UnregisterRepo", { ...kept, approval });
    expect(done.keptState).toBe(join(rig.stateDir, "repos", repo.repoId));
    renameSync(away, rig.repo.root);
  });
});

describe("deaths of the daemon", () => {
  const steps = ["mark", "forget", "remove"];
  const points = (method: string, names: string[]): string[] =>
    names.flatMap((step) =>
      APPROVED_MOMENTS.map((moment) => `approved.${method}.${step}.${moment}`),
    );

  for (const point of points("RegisterRepo", ["open"])) {
    test(`register: daemon dies at ${point} → the next one finishes exactly that operation`, async () => {
      rig.crashAt = point;
      const approval = await rig.agreed(registerRepo());
      expect(await codeOf(rig.call("RegisterRepo", { ...args(), approval }))).toBe("internal");
      await rig.stop();
      await rig.boot();
      const [op] = rig.rows("SELECT operation_id, state FROM user_approved_operations");
      expect(op).toMatchObject({ state: "Completed" });
      const { repos } = await rig.call("ListRepos", {});
      expect(repos.map((repo) => repo.repoId)).toEqual([op!["operation_id"] as string]);
      expect(rig.recorded()).toEqual([op!["operation_id"] as string]);
      expect(rig.daemon.repos.size).toBe(1);
      expect(rig.starts).toEqual(repos.map((repo) => repo.repoId));
      // The client asks again: registered, without another approval.
      expect((await rig.call("RegisterRepo", { ...args(), approval })).created).toBe(false);
    });
  }

  for (const keepState of [false, true]) {
    // Both ways are the same steps; the second one is played where it differs.
    const some = points("UnregisterRepo", keepState ? ["mark", "remove"] : steps).filter(
      (point) => !keepState || /started|effected/.test(point),
    );
    for (const point of some) {
      test(`unregister${keepState ? " --keep-state" : ""}: daemon dies at ${point} → finished by the next one`, async () => {
        const { repo } = await rig.register();
        const request = { repo: { repoId: repo.repoId }, keepState };
        const approval = await rig.agreed({ method: "UnregisterRepo", args: request });
        rig.crashAt = point;
        expect(await codeOf(rig.call("UnregisterRepo", { ...request, approval }))).toBe("internal");
        await rig.stop();
        await rig.boot();
        expect(
          rig.rows("SELECT state FROM user_approved_operations WHERE method = 'UnregisterRepo'"),
        ).toEqual([{ state: "Completed" }]);
        expect((await rig.call("ListRepos", {})).repos).toEqual([]);
        expect(rig.daemon.repos.size).toBe(0);
        expect(rig.recorded()).toEqual(keepState ? [repo.repoId] : []);
        expect(await codeOf(rig.call("UnregisterRepo", { ...request, approval }))).toBe(
          "approval-used",
        );
      });
    }
  }

  test("every step of both is in this file", async () => {
    rig.crashesSeen.length = 0;
    const { repo } = await rig.register();
    const request = { repo: { repoId: repo.repoId }, keepState: false };
    const approval = await rig.agreed({ method: "UnregisterRepo", args: request });
    await rig.call("UnregisterRepo", { ...request, approval });
    expect(rig.crashesSeen.sort()).toEqual(
      [...points("RegisterRepo", ["open"]), ...points("UnregisterRepo", steps)].sort(),
    );
  });
});

describe("presenter", () => {
  test("first use → enrolled, file 0600; again → presenter-enrolled; recovered with the admin credential → the old one opens nothing", async () => {
    expect(await codeOf(rig.enrol())).toBe("presenter-enrolled");
    const old = rig.client("presenter");
    const plan = await rig.begin(registerRepo());
    const recover = { clientPid: PERSON };
    const refused = rig.call("RecoverApprovalPresenter", recover);
    expect(await codeOf(refused)).toBe("credential-kind");
    await rig.client("admin").call("RecoverApprovalPresenter", recover);
    const call = old.call("ConfirmApproval", answerTo(plan, PERSON));
    expect(await codeOf(call)).toBe("credential-unknown");
    await rig.confirm(plan);
  });

  test("enrolment or recovery asked for by an agent, or away from a terminal → refused", async () => {
    const admin = rig.client("admin");
    for (const clientPid of [AGENT, 999]) {
      expect(await codeOf(admin.call("RecoverApprovalPresenter", { clientPid }))).not.toBe("done");
    }
  });

  test("credential file lost → says how to get a new one, confirms nothing", async () => {
    writeFileSync(join(rig.stateDir, "presenter-cred"), "");
    const plan = await rig.begin(registerRepo());
    expect(await codeOf(rig.confirm(plan))).toBe("credential-unknown");
  });
});
