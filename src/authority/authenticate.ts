/**
 * From a credential to a caller (authority chapter, "Credentials"). This slice knows registration and thread
 * credentials; approvals, presenters and the audit row of every request come in at this place.
 *
 * Runs before every tool call of every agent: for a hook it is one look-up by unique key.
 */
import { timingSafeEqual } from "node:crypto";
import { fail, type KikiError } from "../core/errors.ts";
import type { RepoId, ThreadId } from "../core/ids.ts";
import { liveUserCredentials, threadOfCredential } from "../store/credentials.ts";
import type { Db } from "../store/db.ts";

export type Caller =
  | { kind: "anonymous" }
  | { kind: "registration" }
  | { kind: "thread"; repoId: RepoId; threadId: ThreadId };

/** What a method asks for; the contract's capability, spelled out because authority does not know the transport. */
export type Needs = "none" | "registration" | "own-thread";

export interface AuthenticateDeps {
  userDb: Db;
  /** Databases of the repositories that are open. */
  repos(): Iterable<{ repoId: RepoId; db: Db }>;
  /**
   * Why nobody can say whose credential this is: it is a thread's of a repository that cannot be opened now. null:
   * it is not. Asked only about credentials no open database knows.
   */
  unavailable?(secret: string): KikiError | null;
}

export type Authenticate = (
  header: string | null,
  needs: Needs,
  input: unknown,
) => Caller | KikiError;

/** Lower-case hex SHA-256 of a credential's text, as both databases store it. */
export function hashSecret(secret: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).digest("hex");
}

export function makeAuthenticate(deps: AuthenticateDeps): Authenticate {
  /** Hash → repository it was found in last. Only a hint about where to look: the row decides each time. */
  const foundIn = new Map<string, RepoId>();

  const threadCaller = (hash: string): Caller | null => {
    const hint = foundIn.get(hash);
    const repos = [...deps.repos()];
    for (const repo of repos.sort(
      (a, b) => Number(b.repoId === hint) - Number(a.repoId === hint),
    )) {
      const threadId = threadOfCredential(repo.db, hash);
      if (threadId === null) continue;
      foundIn.set(hash, repo.repoId);
      return { kind: "thread", repoId: repo.repoId, threadId };
    }
    foundIn.delete(hash);
    return null;
  };

  const userCaller = (hash: string): Caller | KikiError | null => {
    const found = liveUserCredentials(deps.userDb).find((c) => sameHash(c.secretSha256, hash));
    if (found === undefined) return null;
    // Presenter and admin credentials do one thing each, and none of the methods here is that thing.
    if (found.kind !== "RegistrationScoped") {
      return refused("credential-kind", `a ${found.kind} credential cannot call this method`);
    }
    return { kind: "registration" };
  };

  return (header, needs, input) => {
    if (needs === "none") return { kind: "anonymous" };
    const secret = /^Kiki ([0-9a-f]{64})$/.exec(header ?? "")?.[1];
    if (secret === undefined) {
      return refused("credential-missing", "this method needs a kiki credential");
    }
    const hash = hashSecret(secret);
    const caller =
      needs === "own-thread" ? threadCaller(hash) : (userCaller(hash) ?? threadCaller(hash));
    if (caller === null) {
      // Not a refusal: a hook takes that for the daemon's word and loses its event, or blocks its agent, over it.
      const unavailable = deps.unavailable?.(secret) ?? null;
      if (unavailable !== null) return unavailable;
      return refused("credential-unknown", "this credential is unknown or has been revoked");
    }
    return needs === "own-thread" ? (otherThread(caller, input) ?? caller) : caller;
  };
}

/**
 * Why `caller` may not speak for the thread that `input` names; null when it may. A hook names an incarnation
 * instead, and proves it by a secret: the hook handlers check that, because they need the incarnation's row anyway.
 */
function otherThread(caller: Caller | KikiError, input: unknown): KikiError | null {
  if (caller.kind !== "thread") {
    return refused("credential-kind", "this method needs the credential of its own thread");
  }
  const { repoId, threadId } = input as Record<string, unknown>;
  const named = threadId ?? caller.threadId;
  if (named === caller.threadId && (repoId ?? caller.repoId) === caller.repoId) return null;
  return refused("credential-thread", "this credential belongs to another thread");
}

function refused(code: string, message: string): KikiError {
  return fail("approval", code, message);
}

/** Constant-time comparison of two hex digests. */
function sameHash(a: string, b: string): boolean {
  const left = Buffer.from(a, "hex");
  const right = Buffer.from(b, "hex");
  return left.length === right.length && timingSafeEqual(left, right);
}
