/**
 * The one table of kiki's HTTP contract. Server, client, docs/rpc.md and tests are driven from it.
 * `POST /v1/<Method>`, JSON body, `Authorization: Kiki <credential>`.
 */
import { z } from "zod";
import { APPROVAL_METHODS } from "./approvals.ts";
import {
  approval,
  zApplyRepair,
  zDiagnoseRepair,
  zGetAuditLog,
  zGetThreadAudit,
  zNewThread,
  zRegisterRepo,
  zUnregisterRepo,
} from "./inputs.ts";
import {
  consequential,
  free,
  MAX_HOOK_BODY_BYTES,
  method,
  ofThread,
  open,
  ownThread,
} from "./method.ts";
import {
  zAttention,
  zAuditRow,
  zConfigProblem,
  zConfigSetting,
  zContext,
  zDiagnosis,
  zDoctorLine,
  zFoundHarness,
  zRepoRef,
  zRepoSummary,
  zStep,
  zThreadRef,
  zThreadState,
  zThreadSummary,
} from "./types.ts";

/** Who a hook speaks for: the incarnation, proved by its secret, on top of the thread credential. */
const hookCaller = { incarnation: z.string(), secret: z.string() };
/** Raw payload as the harness wrote it. */
const rawEvent = z.unknown();

const decision = z.discriminatedUnion("decision", [
  z.object({ decision: z.literal("pass") }),
  /** `output` goes to stdout byte for byte. */
  z.object({
    decision: z.literal("deny"),
    output: z.string(),
    delivered: z
      .object({ intentId: z.string(), turn: z.number().int(), batch: z.number().int() })
      .optional(),
  }),
  z.object({ decision: z.literal("hold"), token: z.string(), holdMs: z.number().int() }),
]);
export type HookDecision = z.infer<typeof decision>;

export const METHODS = {
  // ---- daemon ----
  DaemonStatus: method({
    doc: "Version, process and socket of the running daemon. Always answered, to any client version.",
    access: open(),
    input: z.object({}),
    output: z.object({
      version: z.string(),
      build: z.string(),
      pid: z.number().int(),
      startedAt: z.string(),
      stateDir: z.string(),
      socket: z.string(),
      repos: z.number().int(),
      watching: z.array(
        z.object({
          repoId: z.string(),
          events: z.boolean(),
          reason: z.string().nullable(),
          /** Why operations of jj are noticed late just now; absent: they are not. */
          degraded: z.string().optional(),
        }),
      ),
    }),
  }),
  DaemonShutdown: method({
    doc: "Drain running work (bounded) and exit. Always answered, to any client version.",
    access: open(["reason", "pid"]),
    /** With `pid`, only the daemon of that process id stops: two clients replacing one daemon replace it once. */
    input: z.object({ reason: z.string(), pid: z.number().int().optional() }),
    output: z.object({ pid: z.number().int(), stopping: z.boolean() }),
  }),
  Doctor: method({
    doc: "Checks of the daemon's side: tool versions as the daemon sees them, watchers, sockets, and what was proved of the harnesses named.",
    access: free("none", { sink: "user" }),
    input: z.object({ harnesses: z.array(zFoundHarness).optional() }),
    output: z.object({ lines: z.array(zDoctorLine) }),
  }),
  // ---- registry ----
  RegisterRepo: method({
    doc: "Register the jj repository at a folder; idempotent.",
    access: consequential("folder", { sink: "user", audit: ["folder"] }),
    input: zRegisterRepo.extend(approval),
    output: z.object({ repo: zRepoSummary, created: z.boolean() }),
  }),
  UnregisterRepo: method({
    doc: "Forget a repository: kiki's own record of it, and its state unless that is kept. The repository stays as it is.",
    access: consequential("repo", { sink: "user", audit: ["keepState"] }),
    input: zUnregisterRepo.extend(approval),
    output: z.object({ repoId: z.string(), path: z.string(), keptState: z.string().nullable() }),
  }),
  ListRepos: method({
    doc: "All registered repositories.",
    access: free("none", { sink: "user" }),
    input: z.object({}),
    output: z.object({ repos: z.array(zRepoSummary) }),
  }),
  ResolveContext: method({
    doc: "What a command is about: named target → KIKI_THREAD_ID → tmux session → folder; a closed thread only by name.",
    access: free("folder"),
    /** Thread ids as the caller's environment and tmux session have them, true or not; `folder` absolute. */
    input: z.object({
      target: z.string().min(1).nullable(),
      environment: z.string().nullable(),
      tmux: z.string().nullable(),
      folder: z.string().nullable(),
    }),
    output: zContext,
  }),
  GetConfig: method({
    doc:
      "Configuration as it counts for a thread, a repository, or the user alone: each value with the layer it comes from. " +
      "`key` narrows to one key or table; `env` holds the caller's KIKI_ variables, which count for what commands read.",
    access: free("thread", { threads: "own", audit: ["key"] }),
    input: z.object({
      repo: zRepoRef.nullable(),
      thread: z.string().min(1).nullable(),
      key: z.string().nullable(),
      env: z.record(z.string(), z.string()).optional(),
    }),
    output: z.object({
      repo: z.object({ repoId: z.string(), path: z.string() }).nullable(),
      thread: z.object({ threadId: z.string(), name: z.string() }).nullable(),
      /** Lowest layer first. */
      files: z.array(z.object({ layer: z.string(), path: z.string(), present: z.boolean() })),
      settings: z.array(zConfigSetting),
      problems: z.array(zConfigProblem),
    }),
  }),
  // ---- approval and lifecycle ----
  ...APPROVAL_METHODS,
  NewThread: method({
    doc: "Create a thread exactly as planned. Refused (`plan-changed`) when the digest no longer fits.",
    access: consequential("repo", { audit: ["name", "harness", "follows"] }),
    input: zNewThread.extend(approval),
    output: z.object({
      repoId: z.string(),
      threadId: z.string(),
      name: z.string(),
      operationId: z.string(),
    }),
  }),
  DiagnoseRepair: method({
    doc: "What is wrong with a thread, or with every thread of a repository, and the repairs there are. Reads only.",
    access: ofThread(),
    input: zDiagnoseRepair.extend(approval),
    output: z.object({ diagnoses: z.array(zDiagnosis) }),
  }),
  ApplyRepair: method({
    doc: "Carry out one repair exactly as planned. Refused (`plan-changed`, `repair-stale`) when it no longer fits.",
    access: consequential("thread", { audit: ["planId"] }),
    input: zApplyRepair.extend(approval),
    output: z.object({
      repoId: z.string(),
      threadId: z.string(),
      name: z.string(),
      operationId: z.string(),
    }),
  }),
  // ---- reads ----
  RepoThreadSummaries: method({
    doc: "Summary of the threads of one repository, or of all; `closed` adds closed threads.",
    access: free("repo"),
    input: z.object({ repo: zRepoRef.nullable(), closed: z.boolean() }),
    output: z.object({ threads: z.array(zThreadSummary) }),
  }),
  GetThreadState: method({
    doc: "Everything about one thread.",
    access: ofThread(),
    input: zThreadRef.extend(approval),
    output: zThreadState,
  }),
  GetLifecycleOperation: method({
    doc: "Progress of a lifecycle operation; answers when it differs from `seen` (states joined) or after `waitMs`.",
    access: free("operation", { threads: "own", audit: ["operationId"] }),
    input: z.object({
      repoId: z.string(),
      operationId: z.string(),
      seen: z.string(),
      waitMs: z.number().int().min(0).max(30_000),
    }),
    output: z.object({
      kind: z.string(),
      lifecycle: z.string(),
      done: z.boolean(),
      error: z.string().nullable(),
      /** The operation that goes on where this one ended, a creation after its repair for example. */
      next: z.string().nullable(),
      steps: z.array(zStep),
      seen: z.string(),
      attention: z.array(zAttention),
    }),
  }),
  GetStatusBody: method({
    doc: "Literal `jj st` of a thread's workspace, read without starting a cascade.",
    access: ofThread(),
    input: zThreadRef.extend(approval),
    output: z.object({ text: z.string() }),
  }),
  EnsurePanes: method({
    doc: "Refresh the thread's tmux projection before switching to it.",
    access: free("thread"),
    input: zThreadRef,
    output: z.object({
      attach: z.array(z.string()),
      sessionAlive: z.boolean(),
      summary: zThreadSummary,
    }),
  }),
  GetThreadAudit: method({
    doc: "Requests about one thread, redacted for the thread itself.",
    access: free("thread", { threads: "own", approval: "not-own" }),
    input: zGetThreadAudit.extend(approval),
    output: z.object({ rows: z.array(zAuditRow), more: z.boolean() }),
  }),
  GetAuditLog: method({
    doc: "Every request there was, with everything recorded about it; `more` when older ones were left out.",
    access: free("repo", { approval: "always", audit: ["scope", "since", "method", "outcome"] }),
    input: zGetAuditLog.extend(approval),
    output: z.object({
      rows: z.array(zAuditRow),
      more: z.boolean(),
      /** Repositories whose log is missing from `all`, because they cannot be opened now. */
      unread: z.array(z.object({ repoId: z.string(), path: z.string(), reason: z.string() })),
    }),
  }),
  // ---- pane wrapper ----
  AwaitLaunchGate: method({
    doc: "Held until the thread's next launch gate is activated; one-use. Called by the agent pane's inert wrapper.",
    access: ownThread("ids", ["paneId"]),
    input: z.object({
      repoId: z.string(),
      threadId: z.string(),
      paneId: z.string(),
      waitMs: z.number().int(),
    }),
    output: z.object({
      launch: z
        .object({
          incarnation: z.string(),
          argv: z.array(z.string()),
          env: z.record(z.string(), z.string()),
          cwd: z.string(),
        })
        .nullable(),
    }),
  }),
  ReportHarnessStarted: method({
    doc: "The wrapper spawned the harness; makes `exec'd` durable.",
    access: ownThread("ids", ["incarnation", "pid"]),
    input: z.object({
      repoId: z.string(),
      threadId: z.string(),
      incarnation: z.string(),
      pid: z.number().int(),
      startTime: z.string(),
    }),
    output: z.object({}),
  }),
  ReportHarnessExited: method({
    doc: "The harness process ended; retires the incarnation.",
    access: ownThread("ids", ["incarnation", "exitCode", "signal"]),
    input: z.object({
      repoId: z.string(),
      threadId: z.string(),
      incarnation: z.string(),
      exitCode: z.number().int().nullable(),
      signal: z.number().int().nullable(),
    }),
    output: z.object({}),
  }),
  // ---- hook ----
  PreToolUseDecision: method({
    doc: "May this tool run? `pass`, `deny` with the bytes to print, or `hold`: confirm with Hold and wait.",
    access: ownThread("caller", ["incarnation"]),
    input: z.object({ ...hookCaller, event: rawEvent }),
    output: decision,
    maxBody: MAX_HOOK_BODY_BYTES,
  }),
  Hold: method({
    doc: "Confirms a hold and waits for its end. The hook allows only on an explicit `pass`.",
    access: ownThread("caller", ["incarnation"]),
    input: z.object({ ...hookCaller, token: z.string() }),
    output: decision,
  }),
  MarkDelivered: method({
    doc: "The hook has written the payload to its stdout. Never evidence of acknowledgement.",
    access: ownThread("caller", ["incarnation", "intentId", "turn", "batch"]),
    input: z.object({
      ...hookCaller,
      intentId: z.string(),
      turn: z.number().int(),
      batch: z.number().int(),
    }),
    output: z.object({}),
  }),
  ReportEvent: method({
    doc: "Any other hook event, raw. Never blocks the agent.",
    access: ownThread("caller", ["incarnation"]),
    input: z.object({ ...hookCaller, event: rawEvent }),
    output: z.object({}),
    maxBody: MAX_HOOK_BODY_BYTES,
  }),
} as const;

export type MethodName = keyof typeof METHODS;
export type Input<M extends MethodName> = z.infer<(typeof METHODS)[M]["input"]>;
export type Output<M extends MethodName> = z.infer<(typeof METHODS)[M]["output"]>;
