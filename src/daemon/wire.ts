/**
 * The composition root: the only place that knows which backend stands behind which port, and the only importer of
 * backends in the daemon.
 */
import { join } from "node:path";
import { realClock } from "../backends/clock.ts";
import * as files from "../backends/files.ts";
import * as folders from "../backends/folders.ts";
import { createFsEvents } from "../backends/fs-events.ts";
import { ClaudeCodeHarness } from "../backends/harness/claude-code/adapter.ts";
import { CodexHarness } from "../backends/harness/codex/adapter.ts";
import { realIds } from "../backends/ids.ts";
import { createJj } from "../backends/jj/backend.ts";
import { processesFor } from "../backends/processes/select.ts";
import { terminalsFor } from "../backends/processes/terminals.ts";
import { installPrograms, type Programs } from "../backends/programs.ts";
import { createRecipes } from "../backends/recipes.ts";
import * as secondNames from "../backends/second-names.ts";
import { openTmux } from "../backends/tmux/tmux.ts";
import { readVersioned } from "../backends/versioned.ts";
import { mendThreadCredentials, rotateThreadCredential } from "../authority/thread-credentials.ts";
import { makeCascade } from "../cascade/cascade.ts";
import { DEFAULT_SETTINGS, type CascadeFiles } from "../cascade/deps.ts";
import { survivorsEnded } from "../cascade/survivors.ts";
import { fail } from "../core/errors.ts";
import { repoPaths } from "../core/paths.ts";
import { SerialQueues } from "../core/serial-queue.ts";
import { makeCreation, type Creation } from "../lifecycle/creation.ts";
import type { CreationFiles } from "../lifecycle/creation-deps.ts";
import type { Proving } from "../lifecycle/proving.ts";
import { runSaga } from "../lifecycle/saga-runner.ts";
import { NO_CRASH } from "../ports/crash.ts";
import type { Harness, HarnessName } from "../ports/harness.ts";
import type { JjRepo, RepoLocation } from "../ports/jj.ts";
import type { Log } from "../ports/log.ts";
import type { TmuxBackend } from "../ports/tmux.ts";
import { creationRepairer } from "../repair/creation-repairs.ts";
import { makeStandStill } from "../lifecycle/stand-still.ts";
import { makeEdgeRepairs } from "../repair/edge-repairs.ts";
import { deliveryRepairer } from "../repair/delivery-repairs.ts";
import { makeRepairs, type Repairs } from "../repair/repairs.ts";
import { retireCalls } from "../store/admissions.ts";
import { raiseAttention } from "../store/attention.ts";
import { write, type Db } from "../store/db.ts";
import { openRepoDb } from "../store/open.ts";
import { attribute, closeAttribution } from "../store/ops.ts";
import type { RepoRow } from "../store/repos.ts";
import { BUILD } from "../version.ts";
import { agentsOf } from "./agents.ts";
import { Config } from "./config.ts";
import { makeExclusive, Patience } from "./exclusive.ts";
import type { RepoRuntime, World } from "./runtime.ts";

/** What all repositories share. */
interface Shared {
  stateDir: string;
  socket: string;
  jj: World["jj"];
  tmux: World["tmux"];
  queues: SerialQueues;
  programs: Programs;
  config: Config;
  proving: Proving;
  log: Log;
}

const cascadeFiles: CascadeFiles = {
  writeDurable: files.writeDurable,
  removeDurable: files.removeDurable,
  ensureDir: files.ensureDir,
  listDir: files.listDir,
  readText: files.readText,
  copyInto: files.copyInto,
  sha256: files.sha256,
  changedAt: files.changedAt,
  stamp: secondNames.stamp,
  hardLink: secondNames.hardLink,
  removeTree: files.removeTree,
  isBehindLink: secondNames.isBehindLink,
  moveFile: files.moveFile,
  putBack: secondNames.putBack,
  removeEmptyFolders: files.removeEmptyFolders,
};

const creationFiles: CreationFiles = {
  ensureDir: async (path, mode) => files.ensureDir(path, mode),
  writeDurable: async (path, bytes, mode) => files.writeDurable(path, bytes, mode),
  removeDurable: async (path) => files.removeDurable(path),
  readText: async (path) => files.readText(path),
  sha256: folders.fileSha256,
  kind: folders.folderKind,
  inode: folders.inodeOf,
  listFiles: folders.listFiles,
  removeListed: folders.removeListed,
  removeTree: folders.removeTree,
};

/** The real world. `log` is asked for late, because the log itself needs the clock. */
export function makeWorld(stateDir: string, log: () => Log): World {
  const jj = createJj();
  const tmux = tmuxServers();
  const queues = new SerialQueues();
  let programs: Programs | null = null;
  const config = new Config({
    stateDir,
    readVersioned,
    env: process.env,
    home: process.env["HOME"] ?? null,
    log,
  });
  return {
    clock: realClock,
    ids: realIds,
    files: { ...files, removeTree: folders.removeTree, fileStamp: folders.fileStamp },
    jj,
    tmux,
    config,
    processes: processesFor(),
    terminals: terminalsFor(),
    crash: NO_CRASH,
    harness,
    async openRepo(row, socket, proving) {
      // Late: only the daemon that holds the lock may point the names at itself.
      programs ??= installPrograms(join(stateDir, "bin"), process.execPath, sourceEntry());
      return openRepoRuntime(
        { stateDir, socket, jj, tmux, queues, programs, config, proving, log: log() },
        row,
      );
    },
  };
}

function sha256Hex(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}

/** One object per tmux server. */
function tmuxServers(): (socket: string | null) => TmuxBackend {
  const known = new Map<string | null, TmuxBackend>();
  return (socket) => {
    const open = known.get(socket) ?? openTmux({ socket });
    known.set(socket, open);
    return open;
  };
}

/** Entry of the sources; null in the compiled program, which holds it. */
function sourceEntry(): string | null {
  return BUILD === "dev" ? join(import.meta.dir, "..", "main.ts") : null;
}

const HARNESSES: Record<HarnessName, Harness> = {
  "claude-code": new ClaudeCodeHarness(),
  codex: new CodexHarness(),
};

function harness(name: HarnessName): Harness {
  return HARNESSES[name];
}

async function openRepoRuntime(shared: Shared, row: RepoRow): Promise<RepoRuntime> {
  const location = await locate(shared, row);
  const paths = repoPaths(shared.stateDir, row.repoId);
  for (const folder of [
    paths.root,
    paths.neutral,
    paths.credentials,
    paths.errors,
    paths.recovery,
  ]) {
    files.ensureDir(folder, 0o700);
  }
  const db = openRepoDb(paths.db);
  const patience = new Patience();
  const { jj, exclusive } = makeExclusive(
    shared.jj.open(location, paths.neutral, patience.limit),
    shared.queues,
    `jj:${row.repoId}`,
    async (repo) => {
      // The start of the cascade waits for them as well; a call that comes by where that has failed changes nothing either.
      const around = { db, processes: processesFor(), clock: realClock, log: shared.log };
      await survivorsEnded(around, DEFAULT_SETTINGS.survivorMs);
      await prepareNeutral(db, repo);
    },
    patience,
  );
  const common = {
    repoId: row.repoId,
    stateDir: shared.stateDir,
    db,
    jj,
    harness,
    processes: processesFor(),
    clock: realClock,
    ids: realIds,
    crash: NO_CRASH,
    log: shared.log,
    queues: shared.queues,
  };
  const credentials = { ...common, files, now: () => realClock.now() };
  // Each asks the other: the watcher for the ready handshake, a creation for the newest view.
  const neighbour: { creation?: Creation; repairs?: Repairs } = {};
  const creationOf = (): Creation => neighbour.creation!;
  const recipes = createRecipes(common.processes);
  const standStill = makeStandStill({ ...common, self: process.pid });
  const cascade = makeCascade({
    ...common,
    exclusive,
    standStill,
    files: cascadeFiles,
    fsEvents: createFsEvents(),
    settings: shared.config.cascade(row, DEFAULT_SETTINGS),
    sha256: sha256Hex,
    raiseAttention(attention) {
      const fresh = write(db, () => raiseAttention(db, { ...attention, now: realClock.now() }));
      if (fresh) shared.log.warn(`attention for ${attention.threadId}: ${attention.message}`);
    },
    waitReady: (incarnation, timeoutMs) => creationOf().waitReady(incarnation, timeoutMs),
    sessionStarted: (incarnation, sessionId) => creationOf().sessionStarted(incarnation, sessionId),
    agents: agentsOf(() => creationOf().agents),
  });
  const creation = makeCreation({
    ...common,
    exclusive,
    jjBackend: shared.jj,
    tmux: shared.tmux,
    files: creationFiles,
    settings: () => shared.config.creation(row),
    proving: shared.proving,
    recipes,
    repairHolds: (threadId, repairId) => neighbour.repairs!.holds(threadId, repairId),
    kkPath: shared.programs.kk,
    hookPath: shared.programs.hook,
    socketPath: shared.socket,
    // A creation must stand on one exact view.
    refreshToFrontier: () => cascade.refreshToOneHead(),
    classifyEdge: (child) => cascade.classifyEdge(child),
    deliveries: {
      ready: (threadId, incarnation) => cascade.agentReady(threadId, incarnation),
      ended: (threadId, incarnation) => cascade.agentEnded(threadId, incarnation),
    },
    onActive: (threadId) => shared.log.info(`thread ${threadId} is Active`),
    onRetired(threadId, incarnation) {
      write(db, () => retireCalls(db, incarnation, realClock.now()));
      rotateThreadCredential(credentials, threadId);
      shared.log.info(`incarnation ${incarnation} of ${threadId} has ended`);
      cascade.considerRestart(threadId);
    },
  });
  neighbour.creation = creation;
  mendThreadCredentials(credentials);
  const edgeRepairs = makeEdgeRepairs({
    ...common,
    troubles: cascade.troubles,
    runSaga: (saga) => runSaga(saga),
    repairHolds: (threadId, repairId) => neighbour.repairs!.holds(threadId, repairId),
  });
  const repairs = makeRepairs({
    db,
    sha256Hex,
    repairers: [
      edgeRepairs,
      creationRepairer({
        ...common,
        tmux: shared.tmux,
        files: creationFiles,
        recipes,
        creation,
      }),
      deliveryRepairer({
        ...common,
        cascade,
        attempts: () => shared.config.cascade(row, DEFAULT_SETTINGS).attempts,
      }),
    ],
  });
  neighbour.repairs = repairs;
  return {
    repoId: row.repoId,
    row,
    location,
    paths,
    db,
    jj,
    creation,
    repairs,
    edgeRepairs,
    standStill,
    cascade,
  };
}

/** Mutations run from a folder of kiki's own. Making it is nobody's step: the watcher reads its operations as any other's. */
async function prepareNeutral(db: Db, jj: JjRepo): Promise<void> {
  const token = realIds.uuid();
  write(db, () => {
    attribute(db, { token, handler: "snapshot", ownerId: "neutral", now: realClock.now() });
    closeAttribution(db, token);
  });
  await jj.ensureNeutral(token);
}

/** The repository must be where it was registered; another one in its place is not it. */
async function locate(shared: Shared, row: RepoRow): Promise<RepoLocation> {
  const location = await shared.jj.locate(row.repoRoot);
  if (location !== null && location.repoDir === row.canonicalPath) return location;
  throw fail(
    "failed",
    "repo-missing",
    `no jj repository at ${row.canonicalPath} any more`,
    "move it back, or register it at its new place with kk init",
  );
}
