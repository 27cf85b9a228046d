/**
 * Creation step 7: the set-up recipe. Whatever becomes of it, the thread is made: trouble is a warning that names the
 * log. Its command runs at most once (core/setup.ts), in a session of its own that outlives the daemon; a daemon that
 * finds it running waits for it, one that finds it gone without a status says so and goes on.
 */
import { describeError } from "../core/errors.ts";
import { threadPaths } from "../core/paths.ts";
import { ROOT_COMMIT } from "../core/revset.ts";
import {
  exitStatus,
  outcomeText,
  SETUP_MARKER,
  setupArgv,
  type SetupOutcome,
  type SetupRecipe,
} from "../core/setup.ts";
import type { ProcessIdentity } from "../ports/processes.ts";
import type { CopiedFile } from "../ports/recipes.ts";
import { raiseAttention } from "../store/attention.ts";
import { threadById } from "../store/threads.ts";
import type { Db } from "../store/db.ts";
import { threadOf, type CreateContext } from "./creation-deps.ts";
import { recordedEnv } from "./launch-prepare.ts";
import { SagaSuspended, type StepDef } from "./saga.ts";

/** A log is cut to its newest half beyond this. */
const MAX_LOG_BYTES = 4 * 1024 * 1024;
const POLL_MS = 250;
/** Between SIGTERM and SIGKILL: a package manager takes its locks away. */
const GRACE_MS = 5_000;
/** Names in a warning. */
const MAX_NAMED = 3;

export interface SetupIdentity {
  /** null: nothing is configured. */
  token: string | null;
  /** For progress. */
  command: string | null;
  log: string | null;
}

interface SetupEvidence {
  copied: CopiedFile[];
  problems: string[];
  /** null: there was no command. */
  outcome: SetupOutcome | null;
  seconds: number;
  /** The last thing a command that failed had written. */
  said: string;
}

const NOTHING: SetupEvidence = { copied: [], problems: [], outcome: null, seconds: 0, said: "" };

export const setupStep: StepDef<CreateContext, SetupIdentity, SetupEvidence> = {
  name: "setup",
  identity(ctx) {
    const { setup } = ctx.args;
    if (setup == null) return { token: null, command: null, log: null };
    const { setupLog } = pathsOf(ctx);
    return { token: ctx.deps.ids.uuid(), command: setup.run, log: setupLog };
  },
  // `run` looks first: copies are repeatable, and the command is claimed by a file that can be made once.
  observe: () => ({ is: "not-done" }),
  async run(ctx, id) {
    const { setup } = ctx.args;
    return setup == null || id.token === null ? NOTHING : setUp(ctx, setup, id.token);
  },
  onCompleted: warn,
  async compensate(ctx, id, evidence) {
    const { setup } = ctx.args;
    if (setup == null || id.token === null) return;
    const { token } = id;
    const { recipes, jj } = ctx.deps;
    const { workspacePath } = threadOf(ctx);
    const leader = await leaderOf(ctx, token);
    const session = leader === null ? () => [] : () => recipes.ofSession(leader.pid);
    // All of it, also what has left the session: no process of a recipe outlives the thread it was started for.
    await recipes.end(() => [...session(), ...recipes.carrying(token)], GRACE_MS);
    // Killed before it had recorded what it copied: what is equal to its source now is a copy.
    const copied =
      evidence?.copied ??
      (await equalFiles(ctx, jj.location.repoRoot, workspacePath, await notInBase(ctx, setup)));
    if ((await ctx.deps.files.kind(workspacePath)) === "folder") {
      await recipes.uncopy(workspacePath, copied);
    }
    for (const file of Object.values(markerFiles(ctx, token)))
      await ctx.deps.files.removeDurable(file);
  },
};

function pathsOf(ctx: CreateContext): ReturnType<typeof threadPaths> {
  return threadPaths(ctx.deps.stateDir, ctx.deps.repoId, ctx.threadId);
}

/** `claim` holds the number of the shell that runs the command, `status` its exit status. */
function markerFiles(ctx: CreateContext, token: string): { claim: string; status: string } {
  const { setup } = pathsOf(ctx);
  return { claim: `${setup}/${token}.pid`, status: `${setup}/${token}.status` };
}

/** What the commit itself brings is there already, and is never a copy: taking it back would be a change. */
async function notInBase(ctx: CreateContext, { files }: SetupRecipe): Promise<string[]> {
  const { jj } = ctx.deps;
  const { base } = threadOf(ctx);
  const [op] = await jj.heads();
  if (files.length === 0 || base === null || op === undefined) return files;
  const tracked = await jj.changedPaths(op, ROOT_COMMIT, base);
  const brought = new Set(tracked.map((file) => file.path));
  return files.filter((file) => !brought.has(file));
}

async function equalFiles(
  ctx: CreateContext,
  root: string,
  workspace: string,
  files: readonly string[],
): Promise<CopiedFile[]> {
  const found: CopiedFile[] = [];
  for (const path of files) {
    const sha256 = await ctx.deps.files.sha256(`${workspace}/${path}`);
    if (sha256 === null || sha256 !== (await ctx.deps.files.sha256(`${root}/${path}`))) continue;
    found.push({ path, sha256 });
  }
  return found;
}

async function setUp(
  ctx: CreateContext,
  setup: SetupRecipe,
  token: string,
): Promise<SetupEvidence> {
  const { clock, files, jj, recipes } = ctx.deps;
  const { setup: folder, setupLog: log } = pathsOf(ctx);
  const began = clock.monotonic();
  let copied: CopiedFile[] = [];
  let problems: string[] = [];
  let outcome: SetupOutcome | null = null;
  try {
    await files.ensureDir(folder, 0o700);
    const result = await recipes.copy(
      jj.location.repoRoot,
      threadOf(ctx).workspacePath,
      await notInBase(ctx, setup),
    );
    ({ copied, problems } = result);
    recipes.note(log, [
      ...copied.map((file) => `kiki: copied ${file.path}`),
      ...[...result.notes, ...problems].map((text) => `kiki: ${text}`),
    ]);
    if (setup.run.trim() !== "") outcome = await runOnce(ctx, setup, token, log);
  } catch (error) {
    if (error instanceof SagaSuspended) throw error;
    outcome = { is: "not-started", why: describeError(error) };
  }
  const said = outcome === null || outcome.is === "ok" ? "" : recipes.lastLine(log);
  const text = outcomeText(outcome);
  try {
    recipes.note(log, [`kiki: the recipe ${text ?? "is done"}`]);
  } catch {
    // The log's disk is full; the outcome is in the journal.
  }
  const seconds = Math.round((clock.monotonic() - began) / 1_000);
  return { copied, problems, outcome, seconds, said };
}

// ---- the command --------------------------------------------------------------------------------------------

async function runOnce(
  ctx: CreateContext,
  setup: SetupRecipe,
  token: string,
  log: string,
): Promise<SetupOutcome> {
  const { files, recipes } = ctx.deps;
  const marks = markerFiles(ctx, token);
  const begun = (await files.readText(marks.claim)) !== null;
  const running = recipes.carrying(token);
  if (begun || running.length > 0) {
    recipes.note(log, ["kiki: the daemon was started again meanwhile"]);
    return awaitEnd(ctx, setup, { token, log, leader: await leaderOf(ctx, token) });
  }
  const { repoId, stateDir } = ctx.deps;
  recipes.note(log, [`kiki: runs ${setup.run}`]);
  const started = recipes.start({
    argv: setupArgv(setup.run, { token, ...marks }),
    cwd: threadOf(ctx).workspacePath,
    env: {
      ...(await recordedEnv(ctx.deps, ctx.threadId)),
      KIKI_STATE_DIR: stateDir,
      KIKI_REPO_ID: repoId,
      KIKI_THREAD_ID: ctx.threadId,
      KIKI_REPO_ROOT: ctx.deps.jj.location.repoRoot,
      [SETUP_MARKER]: token,
    },
    log,
  });
  const { process: leader, exited } = started;
  return awaitEnd(ctx, setup, { token, log, leader, exited });
}

interface Running {
  token: string;
  log: string;
  /** The shell that will write the status; null when it is gone already. */
  leader: ProcessIdentity | null;
  exited?: Promise<void>;
}

/**
 * Waits for the status, the end of the shell that would write it, or the time limit, which a restart begins anew.
 * What is left of the command's session is ended then: nobody waits for it, and it would hold the workspace.
 */
async function awaitEnd(
  ctx: CreateContext,
  setup: SetupRecipe,
  of: Running,
): Promise<SetupOutcome> {
  const { clock, processes, recipes } = ctx.deps;
  const deadline = clock.monotonic() + setup.timeoutS * 1_000;
  const { leader } = of;
  let outcome: SetupOutcome | null = null;
  while (outcome === null) {
    if (ctx.stopping.aborted) throw new SagaSuspended();
    recipes.trim(of.log, MAX_LOG_BYTES);
    // Asked first: a shell that is gone now had written its status before.
    const gone = leader === null || processes.identify(leader.pid)?.startTime !== leader.startTime;
    outcome = (await statusOf(ctx, of.token)) ?? (gone ? await endedUnseen(ctx, of.token) : null);
    if (outcome === null && clock.monotonic() >= deadline) {
      outcome = { is: "timed-out", afterS: setup.timeoutS };
    }
    if (outcome === null) await pause(ctx, of.exited);
  }
  const left = await survivors(ctx, of);
  const ended = await recipes.end(left, GRACE_MS);
  recipes.trim(of.log, MAX_LOG_BYTES);
  if (ended.length > 0) {
    const what = outcome.is === "timed-out" ? "ended" : "left running, and ended,";
    recipes.note(of.log, [`kiki: ${what} ${ended.map((p) => `process ${p.pid}`).join(", ")}`]);
  }
  return outcome;
}

async function pause(ctx: CreateContext, exited: Promise<void> | undefined): Promise<void> {
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, ctx.stopping]);
  const slept = ctx.deps.clock.sleep(POLL_MS, signal).catch(() => undefined);
  await Promise.race(exited === undefined ? [slept] : [slept, exited]);
  over.abort();
}

async function statusOf(ctx: CreateContext, token: string): Promise<SetupOutcome | null> {
  const text = await ctx.deps.files.readText(markerFiles(ctx, token).status);
  return text === null ? null : exitStatus(text);
}

async function endedUnseen(ctx: CreateContext, token: string): Promise<SetupOutcome> {
  const begun = (await ctx.deps.files.readText(markerFiles(ctx, token).claim)) !== null;
  return begun
    ? { is: "unknown" }
    : { is: "not-started", why: "its shell ended before it had begun" };
}

/** The shell that runs the command, while it lives. */
async function leaderOf(ctx: CreateContext, token: string): Promise<ProcessIdentity | null> {
  const { files, recipes } = ctx.deps;
  const claimed = await files.readText(markerFiles(ctx, token).claim);
  const alive = recipes.carrying(token);
  const isLeader =
    claimed === null
      ? (pid: number) => recipes.ofSession(pid).some((p) => p.pid === pid) // has only just been started
      : (pid: number) => pid === Number(claimed.trim());
  return alive.find((p) => isLeader(p.pid)) ?? null;
}

/**
 * What is left of the command's session. What has left the session on purpose (a build server) may stay. Of a session
 * whose leader was gone before this daemon looked only the number is known, which may be another's by now: there the
 * token must be proved as well.
 */
async function survivors(ctx: CreateContext, of: Running): Promise<() => ProcessIdentity[]> {
  const { files, recipes } = ctx.deps;
  const { leader, token } = of;
  if (leader !== null) return () => recipes.ofSession(leader.pid);
  const session = Number((await files.readText(markerFiles(ctx, token).claim))?.trim() ?? "");
  if (!Number.isInteger(session) || session <= 1) return () => [];
  return () => {
    const own = new Set(recipes.carrying(token).map((p) => p.pid));
    return recipes.ofSession(session).filter((p) => own.has(p.pid));
  };
}

// ---- what a person is told ----------------------------------------------------------------------------------

function warn(db: Db, ctx: CreateContext, evidence: SetupEvidence, id: SetupIdentity): void {
  const { outcome, problems } = evidence;
  const text = outcomeText(outcome);
  if (text === null && problems.length === 0) return;
  const said = evidence.said === "" ? "" : `: ${evidence.said}`;
  const named = problems.slice(0, MAX_NAMED).join("; ");
  const parts = [
    ...(text === null ? [] : [`the set-up recipe ${text}${said}`]),
    ...(problems.length === 0
      ? []
      : [`set-up: ${named}${problems.length > MAX_NAMED ? "; …" : ""}`]),
  ];
  raiseAttention(db, {
    threadId: ctx.threadId,
    kind: "setup-failed",
    dedupKey: ctx.operationId,
    message: `"${threadById(db, ctx.threadId)?.name ?? ctx.threadId}": ${parts.join("; ")} — log: ${id.log ?? ""}`,
    loud: false,
    now: ctx.deps.clock.now(),
  });
}
