/**
 * From a credential to whose it is (authority chapter, "Credentials"). What its owner may do is `enforcer.ts`.
 *
 * Runs before every tool call of every agent: for a hook it is one look-up by unique key.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Identity } from "../core/access.ts";
import type { KikiError } from "../core/errors.ts";
import type { RepoId } from "../core/ids.ts";
import { liveUserCredentials, threadOfCredential } from "../store/credentials.ts";
import type { Db } from "../store/db.ts";
import { presenterOfCredential } from "../store/presenters.ts";

export interface IdentifyDeps {
  userDb: Db;
  /** Databases of the repositories that are open. */
  repos(): Iterable<{ repoId: RepoId; db: Db }>;
  /**
   * Why nobody can say whose credential this is: it is a thread's of a repository that cannot be opened now. null:
   * it is not. Asked only about credentials no open database knows.
   */
  unavailable?(secret: string): KikiError | null;
  /** Random, of this daemon alone: fingerprints tell callers apart and let nobody guess what they sent. */
  fingerprintKey: string;
}

export interface Identified {
  identity: Identity | null;
  /** Of a caller nobody knows; null for one who is known. */
  fingerprint: string | null;
  /** It may be somebody's after all: say that, and do not refuse it as unknown. */
  unavailable: KikiError | null;
}

export type Identify = (header: string | null) => Identified;

/** Lower-case hex SHA-256 of a credential's text, as both databases store it. */
export function hashSecret(secret: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).digest("hex");
}

const FINGERPRINT_DIGITS = 16;

export function makeIdentify(deps: IdentifyDeps): Identify {
  /** Hash → repository it was found in last. Only a hint about where to look: the row decides each time. */
  const foundIn = new Map<string, RepoId>();

  const thread = (hash: string): Identity | null => {
    const hint = foundIn.get(hash);
    const repos = [...deps.repos()];
    for (const repo of repos.sort(
      (a, b) => Number(b.repoId === hint) - Number(a.repoId === hint),
    )) {
      const found = threadOfCredential(repo.db, hash);
      if (found === null) continue;
      foundIn.set(hash, repo.repoId);
      const { credentialId, threadId } = found;
      return { kind: "ThreadScoped", credentialId, repoId: repo.repoId, threadId };
    }
    foundIn.delete(hash);
    return null;
  };

  const user = (hash: string): Identity | null => {
    const found = liveUserCredentials(deps.userDb).find((c) => sameHash(c.secretSha256, hash));
    if (found === undefined) return null;
    const { credentialId, kind } = found;
    if (kind !== "ApprovalPresenter") return { kind, credentialId };
    const presenter = presenterOfCredential(deps.userDb, credentialId);
    return presenter === null ? null : { kind, credentialId, presenterId: presenter.presenterId };
  };

  return (header) => {
    const secret = /^Kiki ([0-9a-f]{64})$/.exec(header ?? "")?.[1];
    if (secret !== undefined) {
      const hash = hashSecret(secret);
      const identity = foundIn.has(hash)
        ? (thread(hash) ?? user(hash))
        : (user(hash) ?? thread(hash));
      if (identity !== null) return { identity, fingerprint: null, unavailable: null };
    }
    return {
      identity: null,
      fingerprint: fingerprint(deps.fingerprintKey, header),
      // Not a refusal: a hook takes that for the daemon's word and loses its event, or blocks its agent, over it.
      unavailable: secret === undefined ? null : (deps.unavailable?.(secret) ?? null),
    };
  };
}

/** Keyed: a short password somebody sent by mistake could be found again from a plain hash of it. */
function fingerprint(key: string, header: string | null): string {
  if (header === null || header === "") return "none";
  const digest = createHmac("sha256", key).update(header).digest("hex");
  return `hmac ${digest.slice(0, FINGERPRINT_DIGITS)}`;
}

/** Constant-time comparison of two hex digests. */
export function sameHash(a: string, b: string): boolean {
  const left = Buffer.from(a, "hex");
  const right = Buffer.from(b, "hex");
  return left.length === right.length && timingSafeEqual(left, right);
}
