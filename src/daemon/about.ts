/** What a request is about: the repository, the thread, and one word for it, by the contract's `target`. */
import { mask } from "../authority/audit.ts";
import type { About, Identity, Target } from "../core/access.ts";
import { METHODS, type MethodName } from "../rpc/contract/methods.ts";
import { beganOperation } from "../store/approvals.ts";
import { operationById } from "../store/lifecycle-ops.ts";
import { repoRowOfFolder, resolveRepo, resolveThreadRef } from "./handlers/resolve.ts";
import type { Daemon } from "./runtime.ts";

export interface Subject extends About {
  /** Equal for the same thing, in an approval and in the audit log; null: nothing in particular. */
  target: string | null;
  /** Why it could not be found out; the handler says it again in its own words. */
  failed: Error | null;
}

const NOTHING: Subject = { repoId: null, threadId: null, began: false, target: null, failed: null };

/** Longer than any path that exists. */
const MAX_TARGET_CHARS = 4_200;

type Ref = Parameters<typeof resolveRepo>[1];

interface Fields {
  repo: Ref | null;
  thread: string | null;
  repoId: string;
  threadId: string;
  operationId: string;
  folder: string | null;
  challengeId: string;
  method: MethodName;
  args: unknown;
}

/** Never throws: what nobody can find is `failed`, about nothing. `input` null: not as the contract has it. */
export async function subjectOf(
  daemon: Daemon,
  method: MethodName,
  input: unknown,
  identity: Identity | null,
): Promise<Subject> {
  const { target } = METHODS[method].access;
  // Fields that could not be read name nothing; a hook's thread is known all the same.
  if (input === null && target !== "caller") return NOTHING;
  try {
    return await find(daemon, target, input, identity);
  } catch (error) {
    const failed = error instanceof Error ? error : new Error(String(error));
    const about = method === "BeginApproval" ? (input as Fields).args : input;
    return { ...NOTHING, target: named(about), failed };
  }
}

async function find(
  daemon: Daemon,
  target: Target,
  input: unknown,
  identity: Identity | null,
): Promise<Subject> {
  // Validated by the contract, which says which of these a method has.
  const fields = input as Fields;
  switch (target) {
    case "none":
      return NOTHING;
    case "repo":
      return ofRepo(daemon, fields.repo);
    case "thread":
      return ofThread(daemon, fields);
    case "ids":
      return about(fields.repoId, fields.threadId);
    case "operation":
      return ofOperation(daemon, fields, identity);
    case "folder":
      return ofFolder(daemon, fields.folder);
    case "caller":
      return identity?.kind === "ThreadScoped"
        ? about(identity.repoId, identity.threadId)
        : NOTHING;
    case "challenge":
      return {
        ...NOTHING,
        repoId: fields.repoId,
        target: `challenge ${fields.challengeId}`,
      };
    case "begin": {
      const { method, args } = fields;
      return find(daemon, METHODS[method].access.target, args, identity);
    }
  }
}

/**
 * The same request about what it was found to be about, by id: a folder may lead elsewhere by the time it is looked at
 * again, and what is done then has to be what was allowed.
 */
export function pinned<T>(target: Target, input: T, { repoId, threadId, failed }: Subject): T {
  if (repoId === null || failed !== null) return input;
  if (target === "repo") return { ...input, repo: { repoId } };
  if (target !== "thread") return input;
  return { ...input, repo: { repoId }, ...(threadId === null ? {} : { thread: threadId }) };
}

function about(repoId: string, threadId: string | null): Subject {
  const target = threadId === null ? `repo ${repoId}` : `thread ${threadId}`;
  return { ...NOTHING, repoId, threadId, target };
}

async function ofRepo(daemon: Daemon, ref: Ref | null): Promise<Subject> {
  if (ref === null) return NOTHING;
  return about((await resolveRepo(daemon, ref)).repoId, null);
}

async function ofThread(
  daemon: Daemon,
  { repo, thread }: { repo: Ref | null; thread: string | null },
): Promise<Subject> {
  if (thread === null) return ofRepo(daemon, repo);
  // Without a repository a thread is looked for in all of them, by the handler as well.
  const found = await resolveThreadRef(daemon, { repo: repo ?? {}, thread });
  return about(found.repo.repoId, found.thread.threadId);
}

function ofOperation(
  daemon: Daemon,
  { repoId, operationId }: { repoId: string; operationId: string },
  identity: Identity | null,
): Subject {
  const repo = daemon.repos.get(repoId);
  const threadId =
    repo === undefined ? null : (operationById(repo.db, operationId)?.threadId ?? null);
  const began =
    repo !== undefined &&
    identity !== null &&
    beganOperation(repo.db, operationId, identity.credentialId);
  return { ...about(repoId, threadId), target: `operation ${operationId}`, began };
}

async function ofFolder(daemon: Daemon, folder: string | null): Promise<Subject> {
  if (folder === null) return NOTHING;
  const row = await repoRowOfFolder(daemon, folder);
  if (row !== null) return about(row.repoId, null);
  const location = await daemon.world.jj.locate(folder);
  return { ...NOTHING, target: cut(`folder ${location?.repoDir ?? folder}`) };
}

/** A row says what was asked about, not all that somebody may have sent; an approval is compared by it and its arguments. */
function cut(target: string): string {
  return mask(target).slice(0, MAX_TARGET_CHARS);
}

/** What it said it was about, for the audit log. */
function named(input: unknown): string | null {
  const fields = input as { repo?: Ref | null; thread?: unknown; folder?: unknown } | null;
  const words = [
    typeof fields?.thread === "string" ? `thread ${fields.thread}` : null,
    fields?.repo?.repoId === undefined ? null : `repo ${fields.repo.repoId}`,
    fields?.repo?.folder === undefined ? null : `folder ${fields.repo.folder}`,
    typeof fields?.folder === "string" ? `folder ${fields.folder}` : null,
  ].filter((word) => word !== null);
  return words.length === 0 ? null : cut(words.join(" in "));
}
