/**
 * Creation steps 8 to 10: the tmux session, the waiting wrapper, the gate. The session's first pane is the agent's
 * from the start: its root is kiki's inert wrapper, which waits for the gate and holds nothing.
 */
import { fail } from "../core/errors.ts";
import type { Observed } from "../core/result.ts";
import type { TmuxBackend, TmuxPane, TmuxSession } from "../ports/tmux.ts";
import type { Db } from "../store/db.ts";
import {
  insertGate,
  insertSession,
  retireSession,
  revokeGate,
  sessionById,
} from "../store/sessions.ts";
import { setTmuxSessionId } from "../store/threads.ts";
import {
  envFile,
  evidenceOf,
  harnessFolder,
  threadOf,
  type CreateContext,
} from "./creation-deps.ts";
import type { ConfigEvidence } from "./creation-steps-agent.ts";
import { provedLaunch } from "./launch.ts";
import type { StepDef } from "./saga.ts";

export const TAG_THREAD = "@kiki_thread";
const TAG_OP = "@kiki_op";
export const TAG_ROLE = "@kiki_role";

/** For a journal that does not say: written before the pane could be configured. */
const OLD_SHELL_PANE = { position: "below", sizePercent: 25, minRows: 24 } as const;
/** A killed session's agent may take a moment to end. */
const AGENT_END_MS = 5_000;
const AGENT_END_POLL_MS = 50;

export function tmuxOf(ctx: CreateContext): TmuxBackend {
  return ctx.deps.tmux(threadOf(ctx).tmuxSocket);
}

/** The listed value; an answer that proves nothing is an error, never an empty list. */
function known<T>(seen: Observed<T>): T {
  if (seen.known) return seen.value;
  throw fail("failed", "tmux-unknown", `tmux gave no usable answer: ${seen.reason}`, "tmux ls");
}

// ---- session ------------------------------------------------------------------------------------------------

interface SessionIdentity {
  session: string;
  op: string;
}

interface SessionEvidence {
  sessionId: string;
  agentPaneId: string;
  /** null when the terminal is too low for two panes. */
  shellPaneId: string | null;
}

export const sessionStep: StepDef<CreateContext, SessionIdentity, SessionEvidence> = {
  name: "session",
  identity: (ctx) => ({ session: threadOf(ctx).tmuxSession, op: ctx.operationId }),
  async observe(ctx) {
    const seen = await ownPanes(ctx);
    if (seen === null) return { is: "not-done" };
    const { session, agent, shell } = seen;
    // Made, but not to the end: `run` goes on from what is there.
    if (agent === null || (shell === null && wantsShell(ctx))) return { is: "not-done" };
    return {
      is: "done",
      evidence: { sessionId: session.id, agentPaneId: agent.id, shellPaneId: shell?.id ?? null },
    };
  },
  async run(ctx, id) {
    const tmux = tmuxOf(ctx);
    const seen = await ownPanes(ctx);
    const made = seen === null ? await newSession(ctx, tmux, id) : adopt(seen);
    const shellPaneId =
      seen?.shell?.id ?? (wantsShell(ctx) ? await splitShell(ctx, tmux, id, made.paneId) : null);
    return { sessionId: made.sessionId, agentPaneId: made.paneId, shellPaneId };
  },
  onCompleted: (db, ctx, { sessionId }) => setTmuxSessionId(db, ctx.threadId, sessionId),
  async compensate(ctx) {
    const tmux = tmuxOf(ctx);
    // By its tag, not by a stored id: ids start again with the server.
    const session = ownSession(ctx, known(await tmux.listSessions()));
    if (session !== null) await tmux.killSession(session.id);
    await awaitAgentEnd(ctx);
  },
  onCompensated: (db, ctx) => setTmuxSessionId(db, ctx.threadId, null),
};

/** As planned, not as configured now: the journal's plan is what was approved. */
function shellPane(ctx: CreateContext): NonNullable<CreateContext["args"]["shellPane"]> | null {
  const { shellPane: planned, rows } = ctx.args;
  if (planned !== undefined) return planned;
  return rows >= OLD_SHELL_PANE.minRows ? OLD_SHELL_PANE : null;
}

function wantsShell(ctx: CreateContext): boolean {
  return shellPane(ctx) !== null;
}

function ownSession(ctx: CreateContext, sessions: readonly TmuxSession[]): TmuxSession | null {
  return sessions.find((s) => s.tags[TAG_OP] === ctx.operationId) ?? null;
}

interface OwnPanes {
  session: TmuxSession;
  agent: TmuxPane | null;
  shell: TmuxPane | null;
}

async function ownPanes(ctx: CreateContext): Promise<OwnPanes | null> {
  const tmux = tmuxOf(ctx);
  const session = ownSession(ctx, known(await tmux.listSessions()));
  if (session === null) return null;
  const panes = known(await tmux.listPanes()).filter((p) => p.tags[TAG_OP] === ctx.operationId);
  const role = (name: string): TmuxPane | null =>
    panes.find((p) => p.sessionId === session.id && p.tags[TAG_ROLE] === name) ?? null;
  return { session, agent: role("agent"), shell: role("shell") };
}

function adopt({ session, agent }: OwnPanes): { sessionId: string; paneId: string } {
  if (agent === null) throw paneGone();
  return { sessionId: session.id, paneId: agent.id };
}

/** For panes a person splits off: `kk` there finds this thread, and the daemon it belongs to. */
function paneEnv(ctx: CreateContext): Record<string, string> {
  const { stateDir, repoId } = ctx.deps;
  return { KIKI_STATE_DIR: stateDir, KIKI_REPO_ID: repoId, KIKI_THREAD_ID: ctx.threadId };
}

function newSession(
  ctx: CreateContext,
  tmux: TmuxBackend,
  id: SessionIdentity,
): Promise<{ sessionId: string; paneId: string }> {
  const { deps, args, threadId } = ctx;
  const wrapper = [deps.kkPath, "__pane", "agent", "--repo", deps.repoId, "--thread", threadId];
  return tmux.newSession({
    name: id.session,
    cwd: "/", // the wrapper holds nothing in the workspace
    command: [...wrapper, "--state-dir", deps.stateDir],
    env: paneEnv(ctx),
    columns: args.columns,
    rows: args.rows,
    tags: { [TAG_THREAD]: threadId, [TAG_OP]: id.op },
    paneTags: { [TAG_ROLE]: "agent", [TAG_OP]: id.op },
  });
}

async function splitShell(
  ctx: CreateContext,
  tmux: TmuxBackend,
  id: SessionIdentity,
  target: string,
): Promise<string> {
  const { deps, args } = ctx;
  const pane = shellPane(ctx) ?? OLD_SHELL_PANE;
  const wrapper = [deps.kkPath, "__pane", "shell", "--cwd", threadOf(ctx).workspacePath];
  const made = await tmux.splitPane({
    target,
    direction: pane.position,
    sizePercent: pane.sizePercent,
    cwd: "/",
    command: [
      ...wrapper,
      "--shell",
      args.shell,
      "--env-file",
      envFile(harnessFolder(ctx)),
      "--state-dir",
      deps.stateDir,
    ],
    env: paneEnv(ctx),
    tags: { [TAG_ROLE]: "shell", [TAG_OP]: id.op },
  });
  return made.paneId;
}

/** An agent that outlives its pane still writes files: nothing below this step is undone while it runs. */
async function awaitAgentEnd(ctx: CreateContext): Promise<void> {
  const { clock, db, processes } = ctx.deps;
  const { incarnation } = evidenceOf<ConfigEvidence>(ctx, "harness-config");
  const session = sessionById(db, incarnation);
  if (session === null || session.pid === null) return;
  const deadline = clock.monotonic() + AGENT_END_MS;
  while (processes.identify(session.pid)?.startTime === session.startTime) {
    if (clock.monotonic() >= deadline) {
      throw fail(
        "failed",
        "agent-still-running",
        `the agent's process ${session.pid} did not end with its session`,
        `end it: kill ${session.pid}`,
      );
    }
    await clock.sleep(AGENT_END_POLL_MS);
  }
}

export function paneGone(): Error {
  return fail(
    "failed",
    "agent-pane-gone",
    "the agent's pane is gone from its tmux session",
    "run kk new again and leave the pane open",
  );
}

// ---- launch -------------------------------------------------------------------------------------------------

export interface LaunchEvidence {
  paneId: string;
  wrapperPid: number;
  wrapperStart: string;
}

/** The launcher came with the pane; this step proves that it is there, alive and waiting, before a gate exists. */
export const launchStep: StepDef<CreateContext, { op: string }, LaunchEvidence> = {
  name: "launch",
  identity: (ctx) => ({ op: ctx.operationId }),
  observe: () => ({ is: "not-done" }), // `run` only looks
  async run(ctx) {
    const agent = (await ownPanes(ctx))?.agent ?? null;
    if (agent === null) throw paneGone();
    const wrapper = agent.dead ? null : ctx.deps.processes.identify(agent.pid);
    if (wrapper === null) {
      throw fail(
        "failed",
        "wrapper-gone",
        `kiki's launcher in the agent's pane ended at once (${ctx.deps.kkPath})`,
        "kk doctor",
      );
    }
    return { paneId: agent.id, wrapperPid: wrapper.pid, wrapperStart: wrapper.startTime };
  },
};

// ---- gate ---------------------------------------------------------------------------------------------------

export interface GateIdentity {
  gateId: string;
  incarnation: string;
  paneId: string;
}

/** The effect is the completing transaction: incarnation and open gate appear together, or not at all. */
export const gateStep: StepDef<CreateContext, GateIdentity, GateIdentity> = {
  name: "gate",
  identity: (ctx) => ({
    gateId: ctx.deps.ids.uuid(),
    incarnation: evidenceOf<ConfigEvidence>(ctx, "harness-config").incarnation,
    paneId: evidenceOf<LaunchEvidence>(ctx, "launch").paneId,
  }),
  observe: () => ({ is: "not-done" }),
  async run(ctx, id) {
    const config = evidenceOf<ConfigEvidence>(ctx, "harness-config");
    await provedLaunch(ctx.deps.files, config.launchFile, config);
    // What the parent did while this thread was being made is known before the agent can do anything.
    if (ctx.args.follows !== null) await ctx.deps.classifyEdge(ctx.threadId);
    return id;
  },
  onCompleted: openGateOf,
  onCompensating(db, ctx, id) {
    const now = ctx.deps.clock.now();
    revokeGate(db, id.incarnation);
    retireSession(db, id.incarnation, { status: "Crashed", event: "creation failed", now });
  },
  // Nothing outside: whoever passed the gate ends with the session.
  compensate: () => Promise.resolve(),
};

function openGateOf(db: Db, ctx: CreateContext, id: GateIdentity): void {
  const now = ctx.deps.clock.now();
  const { threadId } = ctx;
  const config = evidenceOf<ConfigEvidence>(ctx, "harness-config");
  const { harness } = threadOf(ctx);
  const { harnessVersion, harnessSessionId, secretSha256, settingsFingerprint, capabilities } =
    config;
  insertSession(db, {
    incarnation: id.incarnation,
    threadId,
    harness,
    harnessVersion,
    harnessSessionId,
    secretSha256,
    settingsFingerprint,
    capabilities,
    now,
  });
  insertGate(db, { ...id, threadId, launchFile: config.launchFile, now });
}
