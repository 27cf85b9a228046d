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
import { insertThreadCredential } from "../../src/store/credentials.ts";
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

async function withThreads(): Promise<void> {
  await registerBoth();
  ids.forEach((repoId, which) => {
    const { db } = rig.daemon.repos.get(repoId)!;
    insertThread(db, {
      threadId: threadId(which),
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
    const secretSha256 = hashSecret(SECRETS[which]!);
    const credentialId = `c${which}`;
    insertThreadCredential(db, { credentialId, threadId: threadId(which), secretSha256, now: 1 });
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
