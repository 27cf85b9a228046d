/** Two repositories, four kinds of credentials, and a table of processes on terminals: real databases, nothing else. */
import { join } from "node:path";
import {
  APPROVAL_LIFE_MS,
  makeBroker,
  type Asked,
  type Broker,
} from "../../src/authority/broker.ts";
import { hashSecret } from "../../src/authority/identify.ts";
import type { Presence } from "../../src/authority/presence.ts";
import { steadyClock } from "../../src/authority/steady.ts";
import type { ApprovalStore } from "../../src/store/approvals.ts";
import { insertThreadCredential, insertUserCredential } from "../../src/store/credentials.ts";
import type { Db } from "../../src/store/db.ts";
import { openRepoDb, openUserDb } from "../../src/store/open.ts";
import { insertPresenter } from "../../src/store/presenters.ts";
import { insertThread } from "../../src/store/threads.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeIds } from "../fakes/ids.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

export const SECRETS = {
  registration: "1".repeat(64),
  admin: "2".repeat(64),
  presenter: "3".repeat(64),
  parser: "4".repeat(64),
  tests: "5".repeat(64),
} as const;

export const LIFE_MS = APPROVAL_LIFE_MS;

export const PERSON: Presence = {
  terminal: "tty 1",
  foreground: true,
  agent: false,
  unreadable: false,
};

export interface AuthorityRig {
  dir: string;
  clock: FakeClock;
  ids: FakeIds;
  userDb: Db;
  /** r1 has thread "parser", r2 has thread "tests". */
  repos: { repoId: string; db: Db }[];
  broker: Broker;
  /** Tables of r1, and of the user. */
  repo: ApprovalStore;
  user: ApprovalStore;
  /** A daemon of its own on the same databases: its clock begins anew. */
  restarted(): Broker;
  close(): void;
}

export function makeAuthorityRig(): AuthorityRig {
  const dir = tempDir("authority");
  const clock = new FakeClock();
  const ids = new FakeIds();
  const userDb = openUserDb(join(dir, "user.db"));
  const kinds = {
    registration: "RegistrationScoped",
    admin: "Admin",
    presenter: "ApprovalPresenter",
  } as const;
  for (const [name, kind] of Object.entries(kinds)) {
    const secretSha256 = hashSecret(SECRETS[name as keyof typeof kinds]);
    insertUserCredential(userDb, { credentialId: name, kind, secretSha256, now: 1 });
  }
  insertPresenter(userDb, { presenterId: "p1", credentialId: "presenter", enrolledAt: 1 });
  const repos = ["r1", "r2"].map((repoId) => ({
    repoId,
    db: openRepoDb(join(dir, `${repoId}.db`)),
  }));
  addThread(repos[0]!.db, "parser");
  addThread(repos[1]!.db, "tests");
  const broker = (): Broker => makeBroker({ ids, now: steadyClock(clock) });
  return {
    dir,
    clock,
    ids,
    userDb,
    repos,
    broker: broker(),
    repo: { db: repos[0]!.db, prefix: "" },
    user: { db: userDb, prefix: "user_" },
    restarted: broker,
    close() {
      for (const db of [userDb, ...repos.map((r) => r.db)]) db.close();
      removeTempDirs();
    },
  };
}

export function addThread(db: Db, name: "parser" | "tests"): void {
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

/** What the thread "parser" asks for, everywhere the same. */
export const ASKED: Asked = {
  credentialId: "parser",
  method: "NewThread",
  target: "repo r1",
  args: { name: "x" },
};
export const PLAN = {
  method: ASKED.method,
  target: ASKED.target,
  args: ASKED.args,
  text: "New thread x\n",
  digest: "d".repeat(64),
};
