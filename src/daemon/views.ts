/** From rows to the shapes of the contract: what `kk` prints and `--json` shows. */
import { cascadeStatus } from "../core/intent.ts";
import { agentDisplay, type AgentDisplayState } from "../core/lifecycle.ts";
import { checkpointRelation } from "../core/projection.ts";
import type { RepoSummary, ThreadState, ThreadSummary } from "../rpc/contract/types.ts";
import { openAttention } from "../store/attention.ts";
import { edges } from "../store/edges.ts";
import { intentsOf } from "../store/intents.ts";
import {
  latestOperation,
  stepsOf,
  type OperationRow,
  type StepRow,
} from "../store/lifecycle-ops.ts";
import { repoPaths } from "../core/paths.ts";
import type { RepoRow } from "../store/repos.ts";
import { liveSession } from "../store/sessions.ts";
import {
  childrenOf,
  threadById,
  threadSummaries,
  threadSummary,
  type ThreadSummaryRow,
} from "../store/threads.ts";
import type { Descriptions } from "./descriptions.ts";
import type { Daemon, RepoRuntime } from "./runtime.ts";

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Summaries of one repository's threads, oldest first. `closed` adds closed ones, and only that. */
export async function summariesOf(
  repo: RepoRuntime,
  descriptions: Descriptions,
  closed: boolean,
): Promise<ThreadSummary[]> {
  return describeRows(repo, descriptions, threadSummaries(repo.db, { closed }));
}

/** null when there is no such thread. */
export async function summaryOf(
  repo: RepoRuntime,
  descriptions: Descriptions,
  threadId: string,
): Promise<ThreadSummary | null> {
  const row = threadSummary(repo.db, threadId);
  return row === null ? null : ((await describeRows(repo, descriptions, [row]))[0] ?? null);
}

async function describeRows(
  repo: RepoRuntime,
  descriptions: Descriptions,
  rows: readonly ThreadSummaryRow[],
): Promise<ThreadSummary[]> {
  const heads = rows.flatMap((row) => (row.head === null ? [] : [row.head]));
  const described = await descriptions.of(repo.jj, heads);
  return rows.map((row) => summaryFrom(repo, row, described(row.head)));
}

function summaryFrom(repo: RepoRuntime, row: ThreadSummaryRow, description: string): ThreadSummary {
  const { agent } = row;
  return {
    repoId: repo.repoId,
    repoPath: repo.row.repoRoot,
    threadId: row.threadId,
    name: row.name,
    bookmark: row.bookmark,
    followsThreadId: row.followsThreadId,
    followsName: row.followsName,
    lifecycle: row.lifecycle,
    cascade: cascadeStatus(row.intents),
    agent: displayOf(row),
    checkpoint: relationOf(row),
    tmuxSocket: row.tmuxSocket,
    tmuxSessionId: row.tmuxSessionId,
    tmuxSession: row.tmuxSession,
    description,
    lastAgentEvent: agent?.lastEvent ?? null,
    lastAgentEventAt: agent?.lastEventAt == null ? null : isoTime(agent.lastEventAt),
  };
}

/** null: no agent process is known to run, and nothing about it waits for a person. */
function displayOf(row: ThreadSummaryRow): AgentDisplayState | null {
  const { agent, attention } = row;
  if (agent === null) return attention ? "blocked" : null;
  const ended = agent.retired && agent.status !== "Crashed";
  if (ended && !attention) return null;
  return agentDisplay(agent.status, {
    lastTurnCompleted: agent.lastTurnCompleted,
    unacknowledgedAttention: attention,
  });
}

function relationOf(row: ThreadSummaryRow): ThreadSummary["checkpoint"] {
  const { lifecycle, head, checkpoint } = row;
  return checkpointRelation({ lifecycle, head, checkpoint, issues: [], checkpointInHead: null });
}

/** Everything the database says; what is missing outside it is the caller's to see. null: no such thread. */
export async function stateOf(
  repo: RepoRuntime,
  descriptions: Descriptions,
  threadId: string,
): Promise<Omit<ThreadState, "issues"> | null> {
  const { db } = repo;
  const row = threadById(db, threadId);
  const summary = await summaryOf(repo, descriptions, threadId);
  if (row === null || summary === null) return null;
  const edge = edges(db).find((e) => e.child === threadId) ?? null;
  const session = liveSession(db, threadId);
  const operation = latestOperation(db, threadId);
  const nameOf = (id: string): string => threadById(db, id)?.name ?? id;
  return {
    summary,
    workspacePath: row.workspacePath,
    workspaceName: row.workspaceName,
    head: row.head,
    headOp: row.headOp,
    checkpointCommit: row.checkpoint,
    baseCommit: row.base,
    harness: row.harness,
    incarnation: session?.incarnation ?? null,
    harnessSessionId: session?.harnessSessionId ?? null,
    follows:
      edge === null
        ? null
        : {
            threadId: edge.parent,
            name: nameOf(edge.parent),
            lastSynchronized: edge.lastSynchronized,
          },
    children: childrenOf(db, threadId),
    intents: intentsOf(db, threadId).map((intent) => ({
      intentId: intent.intentId,
      seq: intent.seq,
      kind: intent.kind,
      state: intent.state,
      parentThreadId: intent.parentThreadId,
      parentName: nameOf(intent.parentThreadId),
      fromBase: intent.fromBase,
      toBase: intent.toBase,
      reason: intent.reason,
      redeliveries: intent.softRedeliveryCount,
      paused: intent.exhausted || (intent.state === "RecoveryRequired" && !intent.recovering),
    })),
    attention: attentionOf(repo, threadId),
    operation: operation === null ? null : operationFrom(repo, operation),
  };
}

export function attentionOf(repo: RepoRuntime, threadId: string): ThreadState["attention"] {
  return openAttention(repo.db, threadId).map((row) => ({
    kind: row.kind,
    message: row.message,
    raisedAt: isoTime(row.raisedAt),
  }));
}

export function operationFrom(
  repo: RepoRuntime,
  operation: OperationRow,
): NonNullable<ThreadState["operation"]> {
  return {
    kind: operation.kind,
    state: operation.state,
    error: operation.error,
    steps: stepsOf(repo.db, operation.operationId).map((step) => ({
      ordinal: step.ordinal,
      name: step.name,
      state: step.state,
      error: step.error,
      ...noteOf(step),
    })),
  };
}

/** A set-up recipe may run for minutes: which command, and where its output goes. */
function noteOf(step: StepRow): { note?: string } {
  const { command, log } = (step.identity ?? {}) as { command?: string; log?: string };
  if (step.name !== "setup" || step.state !== "Started" || !command) return {};
  return { note: `${command.trim().split("\n")[0]} — log: ${log}` };
}

/** A repository that cannot be opened has no counts; it is listed all the same. */
export function repoSummary(daemon: Daemon, row: RepoRow): RepoSummary {
  const open = daemon.repos.get(row.repoId);
  const threads = open === undefined ? [] : threadSummaries(open.db, { closed: true });
  return {
    repoId: row.repoId,
    path: row.repoRoot,
    registeredAt: isoTime(row.registeredAt),
    colocated: row.colocated,
    stateDb: repoPaths(daemon.stateDir, row.repoId).db,
    activeThreads: threads.filter((t) => t.lifecycle === "Active").length,
    closedThreads: threads.filter((t) => t.lifecycle === "Closed").length,
  };
}
