/**
 * A thread's credential changes when one of its incarnations has ended, so that nothing that incarnation left running
 * can go on speaking for the thread. While a thread is being made, its creation has the credential in hand.
 */
import { repoPaths, threadPaths } from "../core/paths.ts";
import type { RepoId, ThreadId } from "../core/ids.ts";
import type { Ids } from "../ports/ids.ts";
import {
  insertThreadCredential,
  revokeThreadCredential,
  threadCredential,
} from "../store/credentials.ts";
import { write, type Db } from "../store/db.ts";
import { sessionsOf } from "../store/sessions.ts";
import { allThreads, threadById } from "../store/threads.ts";
import { hashSecret } from "./identify.ts";

const SECRET_BYTES = 32;
const FILE_MODE = 0o600;

export interface ThreadCredentialDeps {
  stateDir: string;
  repoId: RepoId;
  db: Db;
  ids: Ids;
  now(): number;
  files: {
    ensureDir(path: string, mode: number): void;
    writeDurable(path: string, bytes: string, mode: number): void;
    readText(path: string): string | null;
  };
}

/** Only of an `Active` thread. File and row change in one go of the event loop: nobody is answered in between. */
export function rotateThreadCredential(deps: ThreadCredentialDeps, threadId: ThreadId): void {
  const { db, ids, files } = deps;
  if (threadById(db, threadId)?.lifecycle !== "Active") return;
  const secret = ids.secret(SECRET_BYTES);
  files.ensureDir(repoPaths(deps.stateDir, deps.repoId).credentials, 0o700);
  files.writeDurable(credentialFile(deps, threadId), `${secret}\n`, FILE_MODE);
  write(db, () => {
    revokeThreadCredential(db, threadId, deps.now());
    insertThreadCredential(db, {
      credentialId: ids.uuid(),
      threadId,
      secretSha256: hashSecret(secret),
      now: deps.now(),
    });
  });
}

/** At boot: a death between an incarnation's end and the rotation, or between its file and its row. Returns how many. */
export function mendThreadCredentials(deps: ThreadCredentialDeps): number {
  const stale = allThreads(deps.db).filter(
    ({ threadId, lifecycle }) => lifecycle === "Active" && needsRotation(deps, threadId),
  );
  for (const { threadId } of stale) rotateThreadCredential(deps, threadId);
  return stale.length;
}

function needsRotation(deps: ThreadCredentialDeps, threadId: ThreadId): boolean {
  const live = threadCredential(deps.db, threadId);
  if (live === null) return true;
  const secret = deps.files.readText(credentialFile(deps, threadId))?.trim() ?? "";
  if (live.secretSha256 !== hashSecret(secret)) return true;
  // A clock that went back in between costs one rotation too many, at the next start.
  return sessionsOf(deps.db, threadId).some(
    ({ retiredAt }) => retiredAt !== null && retiredAt > live.createdAt,
  );
}

function credentialFile(deps: ThreadCredentialDeps, threadId: ThreadId): string {
  return threadPaths(deps.stateDir, deps.repoId, threadId).credential;
}
