/** Inputs that come twice: once when an approval is asked for, once when it is used. */
import { z } from "zod";
import { zRepoRef, zThreadRef } from "./types.ts";

/** Fields `kk new` sends; a plan is made from them, and the same fields come back with the approval. */
export const zNewThread = z.object({
  repo: zRepoRef,
  name: z.string().nullable(),
  prompt: z.string().nullable(),
  follows: z.string().nullable(),
  noFollow: z.boolean(),
  base: z.string().nullable(),
  harness: z.string().nullable(),
  harnessArgs: z.array(z.string()),
  /** Absolute path the client found for the harness; null when it is not on the person's PATH. */
  harnessExecutable: z.string().nullable(),
  /** Thread of the client's context (KIKI_THREAD_ID, tmux session, cwd), which the new one follows by default. */
  contextThread: z.string().nullable(),
  /** Workspace folder the command was given in. */
  folder: z.string(),
  tmuxSocket: z.string().nullable(),
  columns: z.number().int().min(20).max(2000),
  rows: z.number().int().min(5).max(1000),
  shell: z.string(),
  /** Allow-listed environment for the agent and the shell pane. */
  env: z.record(z.string(), z.string()),
});
export type NewThreadInput = z.infer<typeof zNewThread>;

/** Fields `kk repair --apply` sends: the choice, and what only this terminal knows for a repair that starts an agent. */
export const zApplyRepair = z.object({
  repo: zRepoRef,
  thread: z.string().min(1),
  planId: z.string().min(1),
  harnessExecutable: z.string().nullable(),
  env: z.record(z.string(), z.string()),
});

export const zRegisterRepo = z.object({ folder: z.string() });

export const zUnregisterRepo = z.object({
  repo: zRepoRef,
  /** Leave the repository's state where it is, to be taken up when it is registered again. */
  keepState: z.boolean(),
});

export const zDiagnoseRepair = z.object({ repo: zRepoRef, thread: z.string().min(1).nullable() });

export const AUDIT_OUTCOMES = ["accepted", "rejected"] as const;
/** Rows of one answer. */
export const MAX_AUDIT_ROWS = 1000;

const auditFilter = {
  /** Rows of that time and later, ISO 8601. */
  since: z.iso.datetime({ offset: true }).nullable(),
  method: z.string().min(1).nullable(),
  outcome: z.enum(AUDIT_OUTCOMES).nullable(),
  /** The newest so many, oldest first. */
  limit: z.number().int().min(1).max(MAX_AUDIT_ROWS),
};

export const zGetThreadAudit = zThreadRef.extend(auditFilter);

export const zGetAuditLog = z.object({
  /** `repo`: one repository's; `all`: every repository's; `user`: of what concerns none. */
  scope: z.enum(["repo", "all", "user"]),
  /** null unless `scope` is `repo`. */
  repo: zRepoRef.nullable(),
  ...auditFilter,
});

/** The approval that a person's yes has issued for exactly this call. */
export const approval = { approval: z.uuid().optional() };
