/**
 * What a reference means is found out once: what was looked at when a caller was let through, or shown when a person
 * agreed, is what is read and changed, wherever a folder leads to afterwards.
 */
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  expect,
  setDefaultTimeout,
  test,
} from "bun:test";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { hashSecret } from "../../src/authority/identify.ts";
import {
  approvalById,
  claimApproval,
  closeChallenge,
  insertApproval,
  insertChallenge,
  moveApprovedOperation,
} from "../../src/store/approvals.ts";
import { raiseAttention } from "../../src/store/attention.ts";
import { insertThreadCredential } from "../../src/store/credentials.ts";
import { write } from "../../src/store/db.ts";
import { endOperation, insertOperation } from "../../src/store/lifecycle-ops.ts";
import { insertThread } from "../../src/store/threads.ts";
import { makeRepo, type TestRepo } from "../support/jj-repo.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { codeOf, RegistryRig } from "./registry-rig.ts";

setDefaultTimeout(60_000);
/** Threads of the same name, "parser", in two repositories. */
let repos: [TestRepo, TestRepo];
let rig: RegistryRig;
let ids: string[];
let link: string;

beforeAll(async () => {
  repos = [await makeRepo(), await makeRepo()];
});
beforeEach(async () => {
  rig = await RegistryRig.make(repos[0]);
  ids = [];
  link = join(tempDir("link"), "repo");
  pointAt(0);
});
afterEach(() => rig.stop());
afterAll(removeTempDirs);

function pointAt(which: 0 | 1): void {
  rmSync(link, { force: true });
  symlinkSync(repos[which].root, link);
}

async function registerBoth(): Promise<void> {
  for (const { root } of repos) ids.push((await rig.register(root)).repo.repoId);
}

const SECRETS = ["a".repeat(64), "b".repeat(64)];
const threadId = (which: number): string => `00000000-0000-4000-8000-00000000000${which + 1}`;

const THREAD = {
  name: "parser",
  slug: "parser",
  harness: "claude-code" as const,
  harnessExecutable: "/bin/claude",
  harnessArgs: [],
  firstPrompt: null,
  workspaceName: "kk-parser",
  workspacePath: "/nowhere",
  bookmark: "kk/parser",
  tmuxSocket: null,
  tmuxSession: "kk-parser",
  createdAt: 1,
};
const OTHER_NAMES = {
  name: "lexer",
  slug: "lexer",
  workspaceName: "kk-lexer",
  workspacePath: "/elsewhere",
  bookmark: "kk/lexer",
  tmuxSession: "kk-lexer",
};

async function withThreads(): Promise<void> {
  await registerBoth();
  ids.forEach((repoId, which) => {
    const { db } = rig.daemon.repos.get(repoId)!;
    insertThread(db, { ...THREAD, threadId: threadId(which) });
    const secretSha256 = hashSecret(SECRETS[which]!);
    const credentialId = `c${which}`;
    insertThreadCredential(db, { credentialId, threadId: threadId(which), secretSha256, now: 1 });
  });
}

const NEXT = "00000000-0000-4000-8000-0000000000ff";

/** The second thread's creation, which the first one had approved; and an operation after it, which it had not. */
function creationApprovedByFirst(): void {
  const { db } = rig.daemon.repos.get(ids[0]!)!;
  const at = { db, prefix: "" } as const;
  insertThread(db, { ...THREAD, ...OTHER_NAMES, threadId: threadId(2) });
  const [operationId, planSha256] = [threadId(2), "d".repeat(64)];
  write(db, () => {
    insertChallenge(at, {
      challengeId: "challenge",
      nonceSha256: "e".repeat(64),
      method: "NewThread",
      target: "repo",
      args: "{}",
      planText: "plan",
      planSha256,
      callerKind: "ThreadScoped",
      callerCredentialId: "c0",
      createdAt: 1,
      expiresAt: 9,
      terminal: "tty 1",
    });
    closeChallenge(at, "challenge", { state: "Confirmed", presenterId: "p", closedAt: 2 });
    const issued = { approvalId: "approval", challengeId: "challenge", planSha256 };
    insertApproval(at, { ...issued, issuedAt: 2, expiresAt: 9 });
    const thread = { threadId: threadId(2), args: {}, steps: [], now: 3 };
    insertOperation(db, { ...thread, operationId, kind: "Create" });
    claimApproval(at, approvalById(at, "approval")!, {
      operationId,
      lifecycleOperationId: operationId,
      now: 3,
    });
    moveApprovedOperation(at, operationId, { state: "Running" });
    raiseAttention(db, {
      threadId: threadId(2),
      kind: "agent-crashed",
      dedupKey: "k",
      message: "private to it",
      loud: false,
      now: 4,
    });
  });
}

/** The folder leads to the first repository for so many look-ups, then to the second. */
function flipAfter(looks: number): void {
  const { jj } = rig.daemon.world;
  const real = jj.locate.bind(jj);
  let seen = 0;
  jj.locate = (folder) => {
    if (folder !== link) return real(folder);
    seen += 1;
    return real(repos[seen <= looks ? 0 : 1].root);
  };
}

test("thread asks for another thread's configuration without naming a repository → credential-thread", async () => {
  await withThreads();
  const config = (thread: string, secret: string) =>
    rig.client(secret).call("GetConfig", { repo: null, thread, key: null });
  expect((await config(threadId(0), SECRETS[0]!)).thread?.threadId).toBe(threadId(0));
  expect(await codeOf(config(threadId(0), SECRETS[1]!))).toBe("credential-thread");
});

test("folder leads elsewhere once a thread was let through → its own is answered, not the other's", async () => {
  await withThreads();
  flipAfter(1);
  const config = { repo: { folder: link }, thread: "parser", key: null };
  const read = await rig.client(SECRETS[0]!).call("GetConfig", config);
  expect(read.thread?.threadId).toBe(threadId(0));
});

test("folder leads elsewhere while a plan is made → what is shown is what the approval is for", async () => {
  await withThreads();
  flipAfter(1);
  const args = {
    scope: "repo" as const,
    repo: { folder: link },
    since: null,
    method: null,
    outcome: null,
    limit: 1,
  };
  const plan = await rig.begin({ method: "GetAuditLog", args });
  expect(plan.challenge?.repoId).toBe(ids[0]!);
  expect(plan.text).toContain(repos[0].root);
  expect(plan.text).not.toContain(repos[1].root);
});

test("thread follows what it had approved → to its end, and nothing of that thread's later life", async () => {
  await withThreads();
  creationApprovedByFirst();
  const { db } = rig.daemon.repos.get(ids[0]!)!;
  const follow = (operationId: string) =>
    rig
      .client(SECRETS[0]!)
      .call("GetLifecycleOperation", { repoId: ids[0]!, operationId, seen: "", waitMs: 0 });
  const running = await follow(threadId(2));
  expect([running.done, running.attention.length]).toEqual([false, 1]);
  write(db, () => endOperation(db, threadId(2), { state: "Completed", now: 5 }));
  const ended = await follow(threadId(2));
  expect([ended.done, ended.attention]).toEqual([true, []]);
  const later = { operationId: NEXT, threadId: threadId(2), args: {}, steps: [], now: 6 };
  write(db, () => insertOperation(db, { ...later, kind: "Repair" }));
  expect(await codeOf(follow(NEXT))).toBe("credential-thread");
});

test("unregister: daemon dies before its first step, the folder leads elsewhere then → the one that was shown is forgotten", async () => {
  await registerBoth();
  const request = { repo: { folder: link }, keepState: false };
  const approval = await rig.agreed({ method: "UnregisterRepo", args: request });
  rig.crashAt = "approved.UnregisterRepo.mark.before";
  expect(await codeOf(rig.call("UnregisterRepo", { ...request, approval }))).toBe("internal");
  await rig.stop();
  pointAt(1);
  await rig.boot();
  const { repos: left } = await rig.call("ListRepos", {});
  expect(left.map((repo) => repo.repoId)).toEqual([ids[1]!]);
});

test("register: daemon dies before its first step, the folder leads elsewhere then → the one that was shown is registered", async () => {
  const approval = await rig.agreed({ method: "RegisterRepo", args: { folder: link } });
  rig.crashAt = "approved.RegisterRepo.open.before";
  expect(await codeOf(rig.call("RegisterRepo", { folder: link, approval }))).toBe("internal");
  await rig.stop();
  pointAt(1);
  await rig.boot();
  const { repos: known } = await rig.call("ListRepos", {});
  expect(known.map((repo) => repo.path)).toEqual([repos[0].root]);
});
