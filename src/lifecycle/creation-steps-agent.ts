/** Creation steps 5 to 7: what the agent gets before there is a pane for it. */
import { repoPaths, threadPaths } from "../core/paths.ts";
import { insertThreadCredential, revokeThreadCredential } from "../store/credentials.ts";
import {
  harnessFolder,
  launchFile,
  sha256Hex,
  threadOf,
  type CreateContext,
} from "./creation-deps.ts";
import { conversationFor, prepareLaunch } from "./launch-prepare.ts";
import { readLaunch, verifyFiles, type LaunchFile } from "./launch.ts";
import { releaseNow } from "./release-settings.ts";
import type { StepDef } from "./saga.ts";

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
  /** The harness's conversation id, chosen by kiki; null where the harness names its conversations itself. */
  sessionId: string | null;
}

/** The launch file without what is secret in it. */
export type ConfigEvidence = Omit<LaunchFile, "argv" | "env" | "cwd" | "files"> & {
  launchFile: string;
};

export const harnessConfigStep: StepDef<CreateContext, ConfigIdentity, ConfigEvidence> = {
  name: "harness-config",
  identity: (ctx) => ({
    incarnation: ctx.deps.ids.uuid(),
    sessionId: conversationFor(ctx.deps, threadOf(ctx).harness, null).sessionId,
  }),
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
    const thread = threadOf(ctx);
    const launch = await prepareLaunch(ctx.deps, thread, {
      ...id,
      resume: false,
      prompt: thread.firstPrompt,
      follows: ctx.args.follows,
    });
    const path = launchFile(harnessFolder(ctx));
    // Last: a launch file means that everything it names is complete.
    await ctx.deps.files.writeDurable(path, JSON.stringify(launch), FILE_MODE);
    return evidenceOfLaunch(path, launch);
  },
  compensate(ctx) {
    // First: what gives a workspace's file back lies in the folder.
    releaseNow(ctx.deps, threadOf(ctx));
    return ctx.deps.files.removeTree(harnessFolder(ctx));
  },
};

function evidenceOfLaunch(path: string, launch: LaunchFile): ConfigEvidence {
  const { argv: _argv, env: _env, cwd: _cwd, files: _files, ...rest } = launch;
  return { ...rest, launchFile: path };
}
