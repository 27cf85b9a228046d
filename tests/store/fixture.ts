/** A repository database in memory speed, and rows to begin with. */
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "../../src/store/db.ts";
import { insertThreadCredential } from "../../src/store/credentials.ts";
import { setCheckpoint, setHead } from "../../src/store/edges.ts";
import { insertOperation } from "../../src/store/lifecycle-ops.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { insertGate, insertSession } from "../../src/store/sessions.ts";
import { insertThread, setBase, setTmuxSessionId } from "../../src/store/threads.ts";
import { tempDir } from "../support/temp.ts";

export const COMMIT = "c".repeat(40);
export const OP = "d".repeat(128);
const SHA = "e".repeat(64);

let template = "";

/** Migrated once and copied: making the whole schema takes longer than most tests. */
export function repoDb(): Db {
  if (!existsSync(template)) {
    template = join(tempDir("store"), "state.db");
    openRepoDb(template).close();
  }
  const file = join(tempDir("store"), "state.db");
  copyFileSync(template, file);
  const db = openRepoDb(file);
  db.run("PRAGMA synchronous = OFF");
  return db;
}

export function addThread(db: Db, id: string): void {
  insertThread(db, {
    threadId: id,
    name: id,
    slug: id,
    harness: "claude-code",
    harnessExecutable: "/bin/claude",
    harnessArgs: ["-v"],
    firstPrompt: null,
    workspaceName: `kk-${id}`,
    workspacePath: `/ws/${id}`,
    bookmark: `kk/${id}`,
    tmuxSocket: null,
    tmuxSession: `kk-${id}`,
    createdAt: 1,
  });
}

/** Base, head, checkpoint, session and credential: what a gate needs. */
export function addProjections(db: Db, id: string): void {
  setBase(db, id, COMMIT);
  setHead(db, id, { commit: COMMIT, change: "k".repeat(32), op: OP });
  setCheckpoint(db, id, COMMIT);
  setTmuxSessionId(db, id, "$1");
  const hash = Bun.hash(id).toString(16).padStart(64, "0");
  insertThreadCredential(db, {
    credentialId: `cred-${id}`,
    threadId: id,
    secretSha256: hash,
    now: 1,
  });
}

export function addSession(db: Db, threadId: string, incarnation: string): void {
  insertSession(db, {
    incarnation,
    threadId,
    harness: "claude-code",
    harnessVersion: "2.1",
    harnessSessionId: "s",
    secretSha256: Bun.hash(incarnation).toString(16).padStart(64, "1"),
    settingsFingerprint: SHA,
    capabilities: { soft_pause: true },
    now: 1,
  });
}

export function addGate(db: Db, threadId: string, incarnation: string): void {
  const gateId = `gate-${incarnation}`;
  insertGate(db, { gateId, threadId, incarnation, paneId: "%1", launchFile: "/l", now: 1 });
}

export function addOperation(
  db: Db,
  threadId: string,
  operationId: string,
  steps = ["one", "two"],
): void {
  const named = steps.map((name) => ({ name }));
  insertOperation(db, {
    operationId,
    threadId,
    kind: "Create",
    args: { a: 1 },
    steps: named,
    now: 1,
  });
}
