/** Shapes shared by several methods. Stable: documented in docs/rpc.md, printed by `--json`. */
import { z } from "zod";
import {
  AGENT_DISPLAY_STATES,
  LIFECYCLES,
  PROJECTION_ISSUES,
  STEP_STATES,
} from "../../core/lifecycle.ts";
import { CREDENTIAL_KINDS } from "../../core/access.ts";
import { LAYERS } from "../../core/config/spec.ts";
import { CONTEXT_SOURCES } from "../../core/context.ts";
import { CASCADE_STATUSES, INTENT_KINDS, INTENT_STATES } from "../../core/intent.ts";

export const zThreadId = z.string().uuid();
export const zCommit = z.string().regex(/^[0-9a-f]{40}$/);
/** ISO 8601 on the wire; integer milliseconds in the database. */
export const zTime = z.string();

/** A repository named by its id or by any folder inside one of its workspaces. */
export const zRepoRef = z.object({ repoId: z.string().optional(), folder: z.string().optional() });
/** A thread named by id, name or unique prefix of a name. */
export const zThreadRef = z.object({ repo: zRepoRef, thread: z.string().min(1) });

/** The repo summary: the complete list of what one thread may see of another without an approval. */
export const zThreadSummary = z.object({
  repoId: z.string(),
  repoPath: z.string(),
  threadId: zThreadId,
  name: z.string(),
  bookmark: z.string().nullable(),
  followsThreadId: zThreadId.nullable(),
  followsName: z.string().nullable(),
  lifecycle: z.enum(LIFECYCLES),
  cascade: z.enum(CASCADE_STATUSES),
  agent: z.enum(AGENT_DISPLAY_STATES).nullable(),
  checkpoint: z.enum(["current", "behind", "diverged"]).nullable(),
  tmuxSocket: z.string().nullable(),
  tmuxSessionId: z.string().nullable(),
  tmuxSession: z.string().nullable(),
  description: z.string(),
  lastAgentEvent: z.string().nullable(),
  lastAgentEventAt: zTime.nullable(),
});
export type ThreadSummary = z.infer<typeof zThreadSummary>;

export const zStep = z.object({
  ordinal: z.number().int(),
  name: z.string(),
  state: z.enum(STEP_STATES),
  error: z.string().nullable(),
  /** What a step that takes long is doing. */
  note: z.string().optional(),
});

export const zIntent = z.object({
  intentId: z.string(),
  seq: z.number().int(),
  kind: z.enum(INTENT_KINDS),
  state: z.enum(INTENT_STATES),
  parentThreadId: z.string(),
  parentName: z.string(),
  fromBase: zCommit,
  toBase: zCommit,
  reason: z.string().nullable(),
  redeliveries: z.number().int(),
  /** A person has to decide; until then the agent is paused, its process stopped. */
  paused: z.boolean(),
});

export const zAttention = z.object({
  kind: z.string(),
  message: z.string(),
  raisedAt: zTime,
});

/** Everything about one's own thread. */
export const zThreadState = z.object({
  summary: zThreadSummary,
  workspacePath: z.string(),
  workspaceName: z.string(),
  head: zCommit.nullable(),
  headOp: z.string().nullable(),
  checkpointCommit: zCommit.nullable(),
  baseCommit: zCommit.nullable(),
  harness: z.string(),
  incarnation: z.string().nullable(),
  harnessSessionId: z.string().nullable(),
  follows: z
    .object({ threadId: zThreadId, name: z.string(), lastSynchronized: zCommit })
    .nullable(),
  children: z.array(z.object({ threadId: zThreadId, name: z.string() })),
  intents: z.array(zIntent),
  attention: z.array(zAttention),
  /** Only what was looked at and found missing: something that could not be asked is no issue. */
  issues: z.array(z.object({ issue: z.enum(PROJECTION_ISSUES), message: z.string() })),
  operation: z
    .object({
      kind: z.string(),
      state: z.string(),
      error: z.string().nullable(),
      steps: z.array(zStep),
    })
    .nullable(),
});
export type ThreadState = z.infer<typeof zThreadState>;

export const zRepoSummary = z.object({
  repoId: z.string(),
  path: z.string(),
  registeredAt: zTime,
  colocated: z.boolean(),
  stateDb: z.string(),
  activeThreads: z.number().int(),
  closedThreads: z.number().int(),
});
export type RepoSummary = z.infer<typeof zRepoSummary>;

export const zContext = z.object({
  /** The thread's repository, else the folder's; null outside any registered one. */
  repo: zRepoSummary.nullable(),
  thread: z
    .object({ threadId: zThreadId, name: z.string(), lifecycle: z.enum(LIFECYCLES) })
    .nullable(),
  /** What named the thread, or else the repository. */
  by: z.enum(CONTEXT_SOURCES).nullable(),
  /** What pointed to a thread that is closed, or not there. */
  passed: z.array(
    z.object({
      source: z.enum(["environment", "tmux", "folder"]),
      threadId: z.string(),
      name: z.string().nullable(),
      why: z.enum(["gone", "closed"]),
    }),
  ),
});

/** Where a value or a problem is: in a file, in a variable, or in neither. Lines and columns from 1. */
const configSource = {
  layer: z.enum(LAYERS),
  file: z.string().nullable(),
  line: z.number().int().nullable(),
  column: z.number().int().nullable(),
  variable: z.string().nullable(),
};

export const zConfigSetting = z.object({
  key: z.string(),
  /** null: nothing is set and there is no default. */
  value: z.unknown(),
  ...configSource,
  /** The last good value: what is written there now cannot be used. */
  kept: z.boolean(),
  reload: z.enum(["hot", "lifecycle", "restart"]),
  /** Completes "a change takes effect". */
  effect: z.string(),
  /** Nothing reads it in this version. */
  planned: z.boolean(),
  doc: z.string(),
});
export type ConfigSetting = z.infer<typeof zConfigSetting>;

export const zConfigProblem = z.object({
  ...configSource,
  /** `error`: a value could not be taken. `warning`: something is ignored. */
  severity: z.enum(["error", "warning"]),
  /** null: the whole file. */
  key: z.string().nullable(),
  message: z.string(),
});

/** A canonical plan a person confirms, shown byte for byte. */
export const zPlan = z.object({
  method: z.string(),
  /** Plain text, no ANSI, at most 80 columns where the content allows. */
  text: z.string(),
  /** Hex SHA-256 over method, canonical arguments, observed state and text. */
  digest: z.string(),
  /** null: nobody can confirm it where it was asked for. */
  challenge: z
    .object({
      challengeId: z.uuid(),
      /** Whose database has it; null: the user's. */
      repoId: z.string().nullable(),
      nonce: z.string(),
      expiresAt: zTime,
      /** What is left of its life, in milliseconds: a wall clock that jumps changes nothing about it. */
      expiresInMs: z.number().int(),
    })
    .nullable(),
  refusal: z
    .object({ code: z.string(), message: z.string(), hint: z.string().nullable() })
    .nullable(),
});
export type Plan = z.infer<typeof zPlan>;

/** One request. What the caller of the moment may not see is null. */
export const zAuditRow = z.object({
  at: zTime,
  /** null: the user's log. */
  repoId: z.string().nullable(),
  method: z.string(),
  threadId: z.string().nullable(),
  target: z.string().nullable(),
  callerKind: z.enum(CREDENTIAL_KINDS).nullable(),
  credentialId: z.string().nullable(),
  /** Of a caller nobody knows: never anything of a credential. */
  fingerprint: z.string().nullable(),
  approval: z.string().nullable(),
  outcome: z.enum(["accepted", "rejected"]),
  errorCode: z.string().nullable(),
  detail: z.record(z.string(), z.unknown()),
});
export type AuditRow = z.infer<typeof zAuditRow>;

/** One line of a diagnosis; `ok` null: nobody could tell, or nothing is demanded. */
export const zRepairFact = z.object({
  name: z.string(),
  value: z.string(),
  ok: z.boolean().nullable(),
});

/** What is recorded, what was seen, and the plans there are. Reading it changes nothing. */
export const zDiagnosis = z.object({
  repoId: z.string(),
  threadId: zThreadId,
  name: z.string(),
  lifecycle: z.enum(LIFECYCLES),
  harness: z.string(),
  needsRepair: z.boolean(),
  authority: z.array(zRepairFact),
  observed: z.array(zRepairFact),
  notes: z.array(z.string()),
  plans: z.array(
    z.object({
      /** Hash of the plan and of what it was derived from: stale as soon as that changes. */
      id: z.string(),
      kind: z.string(),
      title: z.string(),
      changes: z.array(z.string()),
    }),
  ),
});
export type Diagnosis = z.infer<typeof zDiagnosis>;

export const zDoctorLine = z.object({
  name: z.string(),
  ok: z.boolean(),
  detail: z.string(),
  fix: z.string().nullable(),
});
export type DoctorLine = z.infer<typeof zDoctorLine>;

/** A harness as a client finds it on the person's PATH; `version` null when the program does not say one. */
export const zFoundHarness = z.object({
  name: z.enum(["claude-code", "codex"]),
  executable: z.string(),
  version: z.string().nullable(),
});
export type FoundHarness = z.infer<typeof zFoundHarness>;
