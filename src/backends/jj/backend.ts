/** The jj port on the real jj (0.46), by its command line. */
import { realClock } from "../clock.ts";
import { baseEnv } from "../exec.ts";
import type { Clock } from "../../ports/clock.ts";
import type { JjBackend, JjRepo } from "../../ports/jj.ts";
import { DEFAULT_LIMITS, limitsUnder, type JjContext, type JjLimits } from "./context.ts";
import { HeadsOfViews } from "./heads-of-views.ts";
import { locate } from "./locate.ts";
import * as inWorkspace from "./in-workspace.ts";
import * as mutations from "./mutate.ts";
import { ensureNeutral } from "./neutral.ts";
import { createProber } from "./probe.ts";
import { updateProgress } from "./progress.ts";
import * as reads from "./reads.ts";
import * as recovery from "./recovery.ts";
import { autoUpdateStale } from "./auto-update-stale.ts";
import { keptTrees } from "./trees.ts";
import { checkVersions } from "./versions.ts";

/** A look at one setting: `kk doctor` has to answer while jj does not. */
const SETTING_TIMEOUT_MS = 5_000;

export interface JjOptions {
  /** Environment of jj and git; default: the allow-listed part of kiki's own. */
  env?: Record<string, string>;
  clock?: Clock;
  limits?: Partial<JjLimits>;
}

export function createJj(options: JjOptions = {}): JjBackend {
  const env = {
    ...(options.env ?? baseEnv()),
    // Nobody is there to answer a question.
    GIT_TERMINAL_PROMPT: "0",
  };
  const clock = options.clock ?? realClock;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  return {
    checkVersions: () => checkVersions(env),
    autoUpdateStale: (folder) =>
      autoUpdateStale(env, folder, Math.min(limits.readTimeoutMs, SETTING_TIMEOUT_MS)),
    locate: (folder) => Promise.resolve(locate(folder)),
    open: (location, neutral, commandLimit = () => null) =>
      openRepo({ location, neutral, env, clock, limits: limitsUnder(limits, commandLimit) }),
  };
}

function openRepo(ctx: JjContext): JjRepo {
  const treesOf = keptTrees(ctx);
  const prober = createProber(ctx, treesOf);
  const headsOfViews = new HeadsOfViews(ctx);
  let neutral: Promise<void> | null = null;
  return {
    location: ctx.location,
    headsFolder: reads.headsFolder(ctx),
    heads: () => reads.heads(ctx),
    operations: (head, limit) => reads.operations(ctx, head, limit),
    operationExists: (id) => Promise.resolve(reads.operationExists(ctx, id)),
    workspaces: (op) => reads.workspaces(ctx, op),
    workspaceHeads: (ops) => headsOfViews.read(ops),
    workspaceCommits: (op) => Promise.resolve(headsOfViews.commitsOf(op)),
    commits: async (op, revset) => headsOfViews.learn(await reads.commits(ctx, op, revset)),
    existing: async (op, ids) => headsOfViews.learn(await reads.existing(ctx, op, ids)),
    relations: async (op, commits, of) =>
      headsOfViews.learn(await reads.relations(ctx, op, commits, of)),
    isAncestor: (op, ancestor, of) => reads.isAncestor(ctx, op, ancestor, of),
    evolvedFrom: (op, commit) => reads.evolvedFrom(ctx, op, commit),
    bookmarks: (op) => reads.bookmarks(ctx, op),
    changedPaths: (op, from, to) => reads.changedPaths(ctx, op, from, to),
    conflictedPaths: (op, commit) => reads.conflictedPaths(ctx, op, commit),
    sameChange: (op, from, to) => reads.sameChange(ctx, op, from, to),
    touchedPaths: (from, to) => recovery.touchedPaths(ctx, treesOf, from, to),
    differing: (commit, folder, paths) => recovery.differing(ctx, commit, folder, paths),
    updateProgress: (op, from, to, folder) =>
      updateProgress(ctx, treesOf, { op, from, to, folder }),
    gitHead: (workspaceRoot, workspace, op) => recovery.gitHead(ctx, workspaceRoot, workspace, op),
    looseFiles: (workspaceRoot) => recovery.looseFiles(ctx, workspaceRoot),
    diff: (op, from, to) => reads.diff(ctx, op, from, to),
    statusText: (workspaceRoot) => reads.statusText(ctx, workspaceRoot),
    probe: (workspaceRoot, workspace, op) => prober.probe(workspaceRoot, workspace, op),

    ensureNeutral(token) {
      // Twenty threads created at once need it once.
      neutral ??= ensureNeutral(ctx, token).finally(() => {
        neutral = null;
      });
      return neutral;
    },
    addWorkspace: (input) => mutations.addWorkspace(ctx, input),
    forgetWorkspace: (name, token) => mutations.forgetWorkspace(ctx, name, token),
    forgetWorktree: (path) => mutations.forgetWorktree(ctx, path),
    abandon: (commits, token) => mutations.abandon(ctx, commits, token),
    edit: (workspaceRoot, commit, token) => inWorkspace.edit(ctx, workspaceRoot, commit, token),
    pinCommit: (ref, commit) => recovery.pinCommit(ctx, ref, commit),
    setGitHead: (workspaceRoot, commit) => recovery.setGitHead(ctx, workspaceRoot, commit),
    createBookmark: (name, commit, token, of) =>
      mutations.createBookmark(ctx, name, commit, token, of),
    setBookmark: (name, commit, token) => mutations.setBookmark(ctx, name, commit, token),
    deleteBookmark: (name, token) => mutations.deleteBookmark(ctx, name, token),
    mergeHeads: (token) => mutations.mergeHeads(ctx, token),
    snapshot: (workspaceRoot, token) => inWorkspace.snapshot(ctx, workspaceRoot, token),
    updateStale: (workspaceRoot, token) => inWorkspace.updateStale(ctx, workspaceRoot, token),
    stageRebase: (input) => mutations.stageRebase(ctx, input),
    integrate: (op, token) => mutations.integrate(ctx, op, token),
  };
}
