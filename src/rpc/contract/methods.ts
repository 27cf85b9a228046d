/**
 * The one table of kiki's HTTP contract. Server, client, docs/rpc.md and tests are driven from it.
 * `POST /v1/<Method>`, JSON body, `Authorization: Kiki <credential>`.
 */
import { z } from "zod";
import {
  zAttention,
  zConfigProblem,
  zConfigSetting,
  zContext,
  zDiagnosis,
  zDoctorLine,
  zPlan,
  zRepoRef,
  zRepoSummary,
  zStep,
  zThreadRef,
  zThreadState,
  zThreadSummary,
} from "./types.ts";

/**
 * Who may call: `none` answers anybody who reaches the socket; `registration` any kiki credential of this user;
 * `own-thread` only the credential of the thread the incarnation in the body belongs to.
 */
export type Capability = "none" | "registration" | "own-thread";

export interface MethodSpec {
  doc: string;
  capability: Capability;
  input: z.ZodType;
  output: z.ZodType;
  /** Body limit in bytes. */
  maxBody: number;
}

export const MAX_BODY_BYTES = 1024 * 1024;
export const MAX_HOOK_BODY_BYTES = 64 * 1024 * 1024;

/** Fields `kk new` sends; a plan is made from them, and the same fields come back with its digest. */
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

/** Process that shows the plan: what the plan reserves is reserved while it lives. */
const clientPid = z.number().int().positive().optional();

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

function method<I extends z.ZodType, O extends z.ZodType>(spec: {
  doc: string;
  capability: Capability;
  input: I;
  output: O;
  maxBody?: number;
}): { doc: string; capability: Capability; input: I; output: O; maxBody: number } {
  return { maxBody: MAX_BODY_BYTES, ...spec };
}

export const METHODS = {
  // ---- daemon ----
  DaemonStatus: method({
    doc: "Version, process and socket of the running daemon. Always answered, to any client version.",
    capability: "none",
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
        z.object({ repoId: z.string(), events: z.boolean(), reason: z.string().nullable() }),
      ),
    }),
  }),
  DaemonShutdown: method({
    doc: "Drain running work (bounded) and exit. Always answered, to any client version.",
    capability: "none",
    /** With `pid`, only the daemon of that process id stops: two clients replacing one daemon replace it once. */
    input: z.object({ reason: z.string(), pid: z.number().int().optional() }),
    output: z.object({ pid: z.number().int(), stopping: z.boolean() }),
  }),
  Doctor: method({
    doc: "Checks of the daemon's side: tool versions as the daemon sees them, watchers, sockets.",
    capability: "registration",
    input: z.object({}),
    output: z.object({ lines: z.array(zDoctorLine) }),
  }),
  // ---- registry ----
  RegisterRepo: method({
    doc: "Register the jj repository at a folder; idempotent.",
    capability: "registration",
    input: z.object({ folder: z.string() }),
    output: z.object({ repo: zRepoSummary, created: z.boolean() }),
  }),
  ListRepos: method({
    doc: "All registered repositories.",
    capability: "registration",
    input: z.object({}),
    output: z.object({ repos: z.array(zRepoSummary) }),
  }),
  ResolveContext: method({
    doc: "What a command is about: named target → KIKI_THREAD_ID → tmux session → folder; a closed thread only by name.",
    capability: "registration",
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
    capability: "registration",
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
  BeginApproval: method({
    doc: "Non-mutating preflight of a consequential method; returns the exact plan a person confirms.",
    capability: "registration",
    input: z.discriminatedUnion("method", [
      z.object({ method: z.literal("NewThread"), args: zNewThread, clientPid }),
      z.object({ method: z.literal("ApplyRepair"), args: zApplyRepair, clientPid }),
    ]),
    output: zPlan,
  }),
  NewThread: method({
    doc: "Create a thread exactly as planned. Refused (`plan-changed`) when the digest no longer fits.",
    capability: "registration",
    input: zNewThread.extend({ digest: z.string() }),
    output: z.object({
      repoId: z.string(),
      threadId: z.string(),
      name: z.string(),
      operationId: z.string(),
    }),
  }),
  DiagnoseRepair: method({
    doc: "What is wrong with a thread, or with every thread of a repository, and the repairs there are. Reads only.",
    capability: "registration",
    input: z.object({ repo: zRepoRef, thread: z.string().min(1).nullable() }),
    output: z.object({ diagnoses: z.array(zDiagnosis) }),
  }),
  ApplyRepair: method({
    doc: "Carry out one repair exactly as planned. Refused (`plan-changed`, `repair-stale`) when it no longer fits.",
    capability: "registration",
    input: zApplyRepair.extend({ digest: z.string() }),
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
    capability: "registration",
    input: z.object({ repo: zRepoRef.nullable(), closed: z.boolean() }),
    output: z.object({ threads: z.array(zThreadSummary) }),
  }),
  GetThreadState: method({
    doc: "Everything about one thread.",
    capability: "registration",
    input: zThreadRef,
    output: zThreadState,
  }),
  GetLifecycleOperation: method({
    doc: "Progress of a lifecycle operation; answers when it differs from `seen` (states joined) or after `waitMs`.",
    capability: "registration",
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
    capability: "registration",
    input: zThreadRef,
    output: z.object({ text: z.string() }),
  }),
  EnsurePanes: method({
    doc: "Refresh the thread's tmux projection before switching to it.",
    capability: "registration",
    input: zThreadRef,
    output: z.object({
      attach: z.array(z.string()),
      sessionAlive: z.boolean(),
      summary: zThreadSummary,
    }),
  }),
  // ---- pane wrapper ----
  AwaitLaunchGate: method({
    doc: "Held until the thread's next launch gate is activated; one-use. Called by the agent pane's inert wrapper.",
    capability: "own-thread",
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
    capability: "own-thread",
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
    capability: "own-thread",
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
    capability: "own-thread",
    input: z.object({ ...hookCaller, event: rawEvent }),
    output: decision,
    maxBody: MAX_HOOK_BODY_BYTES,
  }),
  Hold: method({
    doc: "Confirms a hold and waits for its end. The hook allows only on an explicit `pass`.",
    capability: "own-thread",
    input: z.object({ ...hookCaller, token: z.string() }),
    output: decision,
  }),
  MarkDelivered: method({
    doc: "The hook has written the payload to its stdout. Never evidence of acknowledgement.",
    capability: "own-thread",
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
    capability: "own-thread",
    input: z.object({ ...hookCaller, event: rawEvent }),
    output: z.object({}),
    maxBody: MAX_HOOK_BODY_BYTES,
  }),
} as const;

export type MethodName = keyof typeof METHODS;
export type Input<M extends MethodName> = z.infer<(typeof METHODS)[M]["input"]>;
export type Output<M extends MethodName> = z.infer<(typeof METHODS)[M]["output"]>;
