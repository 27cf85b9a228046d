/**
 * Who may call what (authority chapter, "Credentials"): the words the contract's table is written in, and the decision
 * over them. Pure: who a caller is and what a request is about have been found out before.
 */
import type { RepoId, ThreadId } from "./ids.ts";

export const CREDENTIAL_KINDS = [
  "ThreadScoped",
  "RegistrationScoped",
  "ApprovalPresenter",
  "Admin",
] as const;
export type CredentialKind = (typeof CREDENTIAL_KINDS)[number];

/**
 * Which credentials a method takes. `anyone`: none is asked for. `user`: registration or a thread's. `own-thread`: the
 * thread's that the request is about. `bootstrap`: registration or admin.
 */
export const CALLERS = ["anyone", "user", "own-thread", "presenter", "bootstrap", "admin"] as const;
export type Callers = (typeof CALLERS)[number];

const KINDS: Record<Exclude<Callers, "anyone">, readonly CredentialKind[]> = {
  user: ["RegistrationScoped", "ThreadScoped"],
  "own-thread": ["ThreadScoped"],
  presenter: ["ApprovalPresenter"],
  bootstrap: ["RegistrationScoped", "Admin"],
  admin: ["Admin"],
};

/**
 * What a request is about, and in which fields it says so: a repository (`repo`), a thread in it (`repo`, `thread`),
 * the same by ids (`repoId`, `threadId`), an operation (`repoId`, `operationId`), a folder, the caller's own thread, a
 * challenge, or whatever the method that an approval is asked for is about.
 */
export const TARGETS = [
  "none",
  "repo",
  "thread",
  "ids",
  "operation",
  "folder",
  "caller",
  "challenge",
  "begin",
] as const;
export type Target = (typeof TARGETS)[number];

/**
 * When a person must have said yes. `sibling`: when a thread asks about another one. `not-own`: whenever it is not the
 * asking thread's own, asked from outside of any thread too.
 */
export const APPROVAL_RULES = ["never", "always", "sibling", "not-own"] as const;
export type ApprovalRule = (typeof APPROVAL_RULES)[number];

export interface Access {
  callers: Callers;
  target: Target;
  /** Threads that a thread credential may be used about. An approval lifts `own`. */
  threads: "own" | "any";
  approval: ApprovalRule;
  /** When an approval is spent: before a read, or in the transaction that begins its effect. */
  spent: "at-once" | "with-effect";
  /** Audit log of the attempt: the repository's where that is known by then, or always the user's. */
  sink: "repo" | "user";
  /** Input fields that are copied into the audit row: plain values that are never secret. */
  audit: readonly string[];
}

/** A credential that is live, and whose it is. */
export type Identity =
  | { kind: "RegistrationScoped" | "Admin"; credentialId: string }
  | { kind: "ThreadScoped"; credentialId: string; repoId: RepoId; threadId: ThreadId }
  | { kind: "ApprovalPresenter"; credentialId: string; presenterId: string };

/** What a request turned out to be about. */
export interface About {
  repoId: RepoId | null;
  threadId: ThreadId | null;
  /** The operation it is about was begun by this very credential, with an approval. */
  began: boolean;
}

export type AccessProblem = "credential-missing" | "credential-kind" | "credential-thread";

/** Whether a credential of this kind is taken at all, before anything is looked up for the request. */
export function kindProblem(access: Access, caller: Identity | null): AccessProblem | null {
  if (access.callers === "anyone") return null;
  if (caller === null) return "credential-missing";
  return KINDS[access.callers].includes(caller.kind) ? null : "credential-kind";
}

/** Whether the caller may ask about this at all; an approval may still be needed. */
export function scopeProblem(
  access: Access,
  caller: Identity | null,
  about: About,
): AccessProblem | null {
  if (caller?.kind !== "ThreadScoped" || access.threads === "any") return null;
  // What an approval can allow is refused as missing one, which says how to go on.
  if (access.approval !== "never" || about.began) return null;
  if (about.threadId !== null) return isOwn(caller, about) ? null : "credential-thread";
  return about.repoId === null || about.repoId === caller.repoId ? null : "credential-thread";
}

/** Whether a person must have agreed to this request. */
export function needsApproval(access: Access, caller: Identity | null, about: About): boolean {
  switch (access.approval) {
    case "never":
      return false;
    case "always":
      return true;
    case "sibling":
      return caller?.kind === "ThreadScoped" && !isOwn(caller, about);
    case "not-own":
      return !isOwn(caller, about);
  }
}

/** The thread asks about itself. */
export function isOwn(caller: Identity | null, about: About): boolean {
  if (caller?.kind !== "ThreadScoped") return false;
  return about.threadId === caller.threadId && about.repoId === caller.repoId;
}
