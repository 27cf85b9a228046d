/** Which credential is which caller, and what it may not do. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { join } from "node:path";
import {
  hashSecret,
  makeAuthenticate,
  type Authenticate,
  type Needs,
} from "../../src/authority/authenticate.ts";
import { KikiError } from "../../src/core/errors.ts";
import {
  insertThreadCredential,
  insertUserCredential,
  revokeThreadCredential,
  revokeUserCredential,
} from "../../src/store/credentials.ts";
import type { Db } from "../../src/store/db.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { insertThread } from "../../src/store/threads.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const SECRETS = {
  registration: "1".repeat(64),
  admin: "2".repeat(64),
  presenter: "3".repeat(64),
  parser: "4".repeat(64),
  tests: "5".repeat(64),
} as const;

let userDb: Db;
let repos: { repoId: string; db: Db }[];
let authenticate: Authenticate;
const open: Db[] = [];

beforeEach(() => {
  const dir = tempDir("auth");
  userDb = openUserDb(join(dir, "user.db"));
  const kinds = {
    registration: "RegistrationScoped",
    admin: "Admin",
    presenter: "ApprovalPresenter",
  } as const;
  for (const [name, kind] of Object.entries(kinds)) {
    const secretSha256 = hashSecret(SECRETS[name as keyof typeof kinds]);
    insertUserCredential(userDb, { credentialId: name, kind, secretSha256, now: 1 });
  }
  repos = ["r1", "r2"].map((repoId) => ({ repoId, db: openRepoDb(join(dir, `${repoId}.db`)) }));
  addThread(repos[0]!.db, "parser");
  addThread(repos[1]!.db, "tests");
  authenticate = makeAuthenticate({ userDb, repos: () => repos });
  open.push(userDb, ...repos.map((repo) => repo.db));
});
afterAll(() => {
  for (const db of open) db.close();
  removeTempDirs();
});

function addThread(db: Db, name: "parser" | "tests"): void {
  insertThread(db, {
    threadId: name,
    name,
    slug: name,
    harness: "claude-code",
    harnessExecutable: "/bin/claude",
    harnessArgs: [],
    firstPrompt: null,
    workspaceName: `kk-${name}`,
    workspacePath: `/w/${name}`,
    bookmark: `kk/${name}`,
    tmuxSocket: null,
    tmuxSession: `kk-${name}`,
    createdAt: 1,
  });
  insertThreadCredential(db, {
    credentialId: name,
    threadId: name,
    secretSha256: hashSecret(SECRETS[name]),
    now: 1,
  });
}

/** The caller in one word, or the refusal's code. */
function caller(name: keyof typeof SECRETS | null, needs: Needs, input: unknown = {}): string {
  const header = name === null ? null : `Kiki ${SECRETS[name]}`;
  const found = authenticate(header, needs, input);
  if (found instanceof KikiError) {
    expect(found.kind).toBe("approval");
    return found.code;
  }
  return found.kind === "thread" ? `thread ${found.repoId}/${found.threadId}` : found.kind;
}

test("registration methods: registration or any thread credential → that caller", () => {
  expect(caller("registration", "registration")).toBe("registration");
  expect(caller("parser", "registration")).toBe("thread r1/parser");
  expect(caller("tests", "registration")).toBe("thread r2/tests");
});

test("own-thread methods: only the thread's own credential, for its own thread and repository", () => {
  const own = { repoId: "r1", threadId: "parser" };
  expect(caller("parser", "own-thread", own)).toBe("thread r1/parser");
  expect(caller("parser", "own-thread", { incarnation: "i", secret: "s" })).toBe(
    "thread r1/parser",
  );
  expect(caller("tests", "own-thread", own)).toBe("credential-thread");
  expect(caller("parser", "own-thread", { ...own, repoId: "r2" })).toBe("credential-thread");
  expect(caller("registration", "own-thread", own)).toBe("credential-unknown");
});

test("admin and presenter credentials → refused by every operational method", () => {
  expect(caller("admin", "registration")).toBe("credential-kind");
  expect(caller("presenter", "registration")).toBe("credential-kind");
  expect(caller("admin", "own-thread")).toBe("credential-unknown");
});

test("methods that need nothing → anybody, without a look at the credential", () => {
  expect([caller(null, "none"), caller("admin", "none")]).toEqual(["anonymous", "anonymous"]);
});

test("no header, other scheme, wrong length, upper case → credential-missing", () => {
  const secret = SECRETS.registration;
  for (const header of [
    null,
    "",
    `Bearer ${secret}`,
    `Kiki ${secret}0`,
    "Kiki ABCDEF",
    `kiki ${secret}`,
  ]) {
    const found = authenticate(header, "registration", {});
    expect([header, found instanceof KikiError && found.code]).toEqual([
      header,
      "credential-missing",
    ]);
  }
});

test("revoked credential → unknown at once, also after it was used", () => {
  expect(caller("parser", "registration")).toBe("thread r1/parser");
  revokeThreadCredential(repos[0]!.db, "parser", 2);
  expect(caller("parser", "registration")).toBe("credential-unknown");
  revokeUserCredential(userDb, "registration", 2);
  expect(caller("registration", "registration")).toBe("credential-unknown");
});

test("error for a bad credential → never holds the credential", () => {
  const found = authenticate(`Kiki ${"e".repeat(64)}`, "registration", {});
  expect(JSON.stringify(found)).not.toContain("eeee");
});
