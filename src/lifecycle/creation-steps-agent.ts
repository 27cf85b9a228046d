/** Creation steps 5 to 7: what the agent gets before there is a pane for it. */
import { composeBriefing } from "../core/briefing.ts";
import { fail } from "../core/errors.ts";
import { repoPaths, threadPaths } from "../core/paths.ts";
import type { LaunchRequest } from "../ports/harness.ts";
import { insertThreadCredential, revokeThreadCredential } from "../store/credentials.ts";
import { threadById, type ThreadRow } from "../store/threads.ts";
import {
  envFile,
  harnessFolder,
  launchFile,
  settingsOf,
  sha256Hex,
  threadOf,
  type CreateContext,
} from "./creation-deps.ts";
import { checkCapabilities } from "./creation-plan.ts";
import { readLaunch, verifyFiles, type LaunchFile } from "./launch.ts";
import type { StepDef } from "./saga-runner.ts";

const SECRET_BYTES = 32;
const SECRET_TEXT = /^[0-9a-f]{64}$/;
const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;

// ---- credential ---------------------------------------------------------------------------------------------

/** The file holds the secret, the database its hash; the file comes first, so a row never lacks its file. */
export const credentialStep: StepDef<
  CreateContext,
  { credentialId: string },
  { secretSha256: string }
> = {
  name: "credential",
  identity: (ctx) => ({ credentialId: ctx.deps.ids.uuid() }),
  async observe(ctx) {
    const secret = (await ctx.deps.files.readText(pathsOf(ctx).credential))?.trim() ?? "";
    if (!SECRET_TEXT.test(secret)) return { is: "not-done" };
    return { is: "done", evidence: { secretSha256: sha256Hex(secret) } };
  },
  async run(ctx) {
    const { files, ids, stateDir, repoId } = ctx.deps;
    const secret = ids.secret(SECRET_BYTES);
    await files.ensureDir(repoPaths(stateDir, repoId).credentials, FOLDER_MODE);
    await files.writeDurable(pathsOf(ctx).credential, `${secret}\n`, FILE_MODE);
    return { secretSha256: sha256Hex(secret) };
  },
  onCompleted(db, ctx, { secretSha256 }, { credentialId }) {
    const { threadId, deps } = ctx;
    insertThreadCredential(db, { credentialId, threadId, secretSha256, now: deps.clock.now() });
  },
  onCompensating: (db, ctx) => revokeThreadCredential(db, ctx.threadId, ctx.deps.clock.now()),
  compensate: (ctx) => ctx.deps.files.removeDurable(pathsOf(ctx).credential),
};

function pathsOf(ctx: CreateContext): ReturnType<typeof threadPaths> {
  return threadPaths(ctx.deps.stateDir, ctx.deps.repoId, ctx.threadId);
}

// ---- harness-config -----------------------------------------------------------------------------------------

interface ConfigIdentity {
  incarnation: string;
  /** The harness's conversation id, chosen by kiki. */
  sessionId: string;
}

/** The launch file without what is secret in it. */
export type ConfigEvidence = Omit<LaunchFile, "argv" | "env" | "cwd" | "files"> & {
  launchFile: string;
};

export const harnessConfigStep: StepDef<CreateContext, ConfigIdentity, ConfigEvidence> = {
  name: "harness-config",
  identity: (ctx) => ({ incarnation: ctx.deps.ids.uuid(), sessionId: ctx.deps.ids.uuid() }),
  async observe(ctx, id) {
    const path = launchFile(harnessFolder(ctx));
    const launch = await readLaunch(ctx.deps.files, path);
    if (launch?.incarnation !== id.incarnation) return { is: "not-done" };
    try {
      await verifyFiles(ctx.deps.files, launch);
    } catch {
      return { is: "not-done" }; // written anew: nobody has been started with it
    }
    return { is: "done", evidence: evidenceOfLaunch(path, launch) };
  },
  async run(ctx, id) {
    const launch = await prepareLaunch(ctx, id);
    const path = launchFile(harnessFolder(ctx));
    // Last: a launch file means that everything it names is complete.
    await ctx.deps.files.writeDurable(path, JSON.stringify(launch), FILE_MODE);
    return evidenceOfLaunch(path, launch);
  },
  compensate: (ctx) => ctx.deps.files.removeTree(harnessFolder(ctx)),
};

function evidenceOfLaunch(path: string, launch: LaunchFile): ConfigEvidence {
  const { argv: _argv, env: _env, cwd: _cwd, files: _files, ...rest } = launch;
  return { ...rest, launchFile: path };
}

async function prepareLaunch(ctx: CreateContext, id: ConfigIdentity): Promise<LaunchFile> {
  const { deps } = ctx;
  const thread = threadOf(ctx);
  const harness = deps.harness(thread.harness);
  const env = await recordedEnv(ctx);
  const harnessVersion = await harness.version(thread.harnessExecutable, env);
  const capabilities = harness.capabilities(harnessVersion);
  checkCapabilities(thread.harness, harnessVersion, capabilities);

  const paths = pathsOf(ctx);
  for (const folder of [paths.harness, paths.passed, paths.spool]) {
    await deps.files.ensureDir(folder, FOLDER_MODE);
  }
  await deps.files.ensureDir(repoPaths(deps.stateDir, deps.repoId).errors, FOLDER_MODE);
  const secret = deps.ids.secret(SECRET_BYTES);
  const spec = await harness.prepare(launchRequest(ctx, thread, { ...id, secret, env }));
  const hashes: Record<string, string> = {};
  for (const path of spec.files) {
    const sha256 = await deps.files.sha256(path);
    if (sha256 === null) throw new Error(`${thread.harness} did not write ${path}`);
    hashes[path] = sha256;
  }
  return {
    incarnation: id.incarnation,
    argv: spec.argv,
    env: spec.env,
    cwd: spec.cwd,
    harnessVersion,
    harnessSessionId: id.sessionId,
    secretSha256: sha256Hex(secret),
    settingsFingerprint: spec.settingsFingerprint,
    capabilities,
    files: hashes,
  };
}

/** The environment approved for the agent, which a set-up recipe gets as well. Throws `environment-lost`. */
export async function recordedEnv(ctx: CreateContext): Promise<Record<string, string>> {
  const file = envFile(harnessFolder(ctx));
  const text = await ctx.deps.files.readText(file);
  if (text !== null) return JSON.parse(text) as Record<string, string>;
  throw fail("failed", "environment-lost", `${file} is gone`, "run kk new again");
}

function launchRequest(
  ctx: CreateContext,
  thread: ThreadRow,
  of: ConfigIdentity & { secret: string; env: Record<string, string> },
): LaunchRequest {
  const { deps } = ctx;
  const paths = pathsOf(ctx);
  return {
    threadId: thread.threadId,
    repoId: deps.repoId,
    threadName: thread.name,
    incarnation: of.incarnation,
    incarnationSecret: of.secret,
    sessionId: of.sessionId,
    resume: false,
    workspaceRoot: thread.workspacePath,
    folder: paths.harness,
    executable: thread.harnessExecutable,
    prompt: thread.firstPrompt,
    extraArgs: thread.harnessArgs,
    env: of.env,
    briefing: settingsOf(deps).briefing ? briefingOf(ctx, thread) : null,
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

function briefingOf(ctx: CreateContext, thread: ThreadRow): string {
  const { follows } = ctx.args;
  return composeBriefing({
    threadName: thread.name,
    goal: thread.firstPrompt,
    workspacePath: thread.workspacePath,
    followsName: follows === null ? null : (threadById(ctx.deps.db, follows)?.name ?? null),
    colocated: ctx.deps.jj.location.colocated,
  });
}
