/** Everything generated for one incarnation, and proved, before a gate exists for it. */
import { composeBriefing } from "../core/briefing.ts";
import { fail } from "../core/errors.ts";
import { repoPaths, threadPaths } from "../core/paths.ts";
import { capabilitiesOf, type Proof } from "../core/proofs.ts";
import type { HarnessName, LaunchRequest } from "../ports/harness.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import { envFile, settingsOf, sha256Hex, type CreationDeps } from "./creation-deps.ts";
import { checkProofs, provedHarness } from "./harness-standing.ts";
import type { LaunchFile } from "./launch.ts";

const SECRET_BYTES = 32;
const FOLDER_MODE = 0o700;

export interface LaunchOrder {
  incarnation: string;
  /** The harness's conversation id; null: a new one, which the harness names itself. */
  sessionId: string | null;
  /** The conversation is there already. */
  resume: boolean;
  prompt: string | null;
  /** Its place where the conversation turns out not to be resumable. */
  anew?: string | null;
  /** For the briefing. */
  follows: string | null;
}

/** Generates the harness's files anew and proves that kiki's hooks are the only ones. Throws what the adapter throws. */
export async function prepareLaunch(
  deps: CreationDeps,
  thread: ThreadRow,
  asked: LaunchOrder,
): Promise<LaunchFile> {
  const harness = deps.harness(thread.harness);
  const env = await recordedEnv(deps, thread.threadId);
  const proved = await provedHarness(deps, thread.harness, thread.harnessExecutable, env);
  const paths = threadPaths(deps.stateDir, deps.repoId, thread.threadId);
  const gone =
    asked.resume &&
    asked.sessionId !== null &&
    harness.conversationGone({ env, folder: paths.harness, sessionId: asked.sessionId });
  if (gone)
    deps.log.warn(`thread ${thread.threadId}: the record of its conversation is gone; a new one`);
  const order = startable(deps, thread, asked, proved.capabilities.session_resume && !gone);

  for (const folder of [paths.harness, paths.passed, paths.spool]) {
    await deps.files.ensureDir(folder, FOLDER_MODE);
  }
  await deps.files.ensureDir(repoPaths(deps.stateDir, deps.repoId).errors, FOLDER_MODE);
  const secret = deps.ids.secret(SECRET_BYTES);
  const spec = await harness.prepare(
    launchRequest(deps, thread, { ...order, secret, env, proved: proved.proofs }),
  );
  const proofs = [...proved.proofs, ...spec.proofs];
  checkProofs(thread.harness, proved.version, proofs);
  const hashes: Record<string, string> = {};
  for (const path of spec.files) {
    const sha256 = await deps.files.sha256(path);
    if (sha256 === null) throw new Error(`${thread.harness} did not write ${path}`);
    hashes[path] = sha256;
  }
  return {
    incarnation: order.incarnation,
    argv: spec.argv,
    env: spec.env,
    cwd: spec.cwd,
    harnessVersion: proved.version,
    harnessSessionId: order.sessionId,
    secretSha256: sha256Hex(secret),
    settingsFingerprint: spec.settingsFingerprint,
    capabilities: capabilitiesOf(proofs),
    readyBy: harness.naming === "harness" && order.prompt === null ? "composer" : "session",
    marks: spec.marks ?? [],
    files: hashes,
  };
}

/** The conversation an agent is to have: the proved one taken up again, else a new one under whoever names it. */
export function conversationFor(
  deps: CreationDeps,
  harness: HarnessName,
  proved: string | null,
): Pick<LaunchOrder, "sessionId" | "resume"> {
  const own = (): string | null =>
    deps.harness(harness).naming === "kiki" ? deps.ids.uuid() : null;
  return { sessionId: proved ?? own(), resume: proved !== null };
}

/**
 * Where a version was not seen to take its conversation up again, or that one is gone, it begins a new one, from the first
 * prompt if there is nothing else to be said.
 */
function startable(
  deps: CreationDeps,
  { harness, firstPrompt }: ThreadRow,
  asked: LaunchOrder,
  canResume: boolean,
): LaunchOrder {
  if (!asked.resume || canResume) return asked;
  return {
    ...asked,
    ...conversationFor(deps, harness, null),
    prompt: asked.anew ?? firstPrompt,
  };
}

/** The environment approved for the agent, which a set-up recipe gets as well. Throws `environment-lost`. */
export async function recordedEnv(
  deps: CreationDeps,
  threadId: string,
): Promise<Record<string, string>> {
  const file = envFile(threadPaths(deps.stateDir, deps.repoId, threadId).harness);
  const text = await deps.files.readText(file);
  if (text !== null) return JSON.parse(text) as Record<string, string>;
  throw fail("failed", "environment-lost", `${file} is gone`, "run kk new again");
}

function launchRequest(
  deps: CreationDeps,
  thread: ThreadRow,
  of: LaunchOrder & { secret: string; env: Record<string, string>; proved: readonly Proof[] },
): LaunchRequest {
  const paths = threadPaths(deps.stateDir, deps.repoId, thread.threadId);
  return {
    threadId: thread.threadId,
    repoId: deps.repoId,
    threadName: thread.name,
    incarnation: of.incarnation,
    incarnationSecret: of.secret,
    sessionId: of.sessionId,
    resume: of.resume,
    workspaceRoot: thread.workspacePath,
    folder: paths.harness,
    executable: thread.harnessExecutable,
    prompt: of.prompt,
    extraArgs: thread.harnessArgs,
    env: of.env,
    briefing: settingsOf(deps).briefing ? briefingOf(deps, thread, of.follows) : null,
    codex: settingsOf(deps).codex,
    proved: of.proved,
    claudeCode: settingsOf(deps).claudeCode,
    hook: {
      executable: deps.hookPath,
      socket: deps.socketPath,
      credentialFile: paths.credential,
      errorLog: paths.errorLog,
      passedFolder: paths.passed,
      spoolFolder: paths.spool,
      barrierFile: paths.barrier,
      kk: deps.kkPath,
      stateDir: deps.stateDir,
    },
  };
}

function briefingOf(deps: CreationDeps, thread: ThreadRow, follows: string | null): string {
  return composeBriefing({
    threadName: thread.name,
    goal: thread.firstPrompt,
    workspacePath: thread.workspacePath,
    followsName: follows === null ? null : (threadById(deps.db, follows)?.name ?? null),
    colocated: deps.jj.location.colocated,
  });
}
