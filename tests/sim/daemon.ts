/** One life of a daemon: exactly the production objects, put together as src/daemon/wire.ts does, on the world's ports. */
import { makeCascade, type Cascade } from "../../src/cascade/cascade.ts";
import { Stop, Unproven } from "../../src/cascade/stop.ts";
import { survivorsEnded } from "../../src/cascade/survivors.ts";
import { DEFAULT_SETTINGS, type CascadeFiles } from "../../src/cascade/deps.ts";
import { KikiError } from "../../src/core/errors.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { agentsOf } from "../../src/daemon/agents.ts";
import { makeExclusive } from "../../src/daemon/exclusive.ts";
import { hookHandlers } from "../../src/daemon/handlers/hook.ts";
import type { RepoRuntime } from "../../src/daemon/runtime.ts";
import { settingsOf, sha256Hex, type CreationFiles } from "../../src/lifecycle/creation-deps.ts";
import { makeCreation, type Creation } from "../../src/lifecycle/creation.ts";
import { runSaga } from "../../src/lifecycle/saga-runner.ts";
import { makeStandStill, type StandStill } from "../../src/lifecycle/stand-still.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Harness, HarnessName } from "../../src/ports/harness.ts";
import type { JjBackend, JjRepo, WorkspaceProbe } from "../../src/ports/jj.ts";
import type { Processes } from "../../src/ports/processes.ts";
import type { Recipes } from "../../src/ports/recipes.ts";
import type { TmuxBackend } from "../../src/ports/tmux.ts";
import { creationRepairer } from "../../src/repair/creation-repairs.ts";
import { deliveryRepairer } from "../../src/repair/delivery-repairs.ts";
import { makeEdgeRepairs, type EdgeRepairs } from "../../src/repair/edge-repairs.ts";
import { makeRepairs, type Repairs } from "../../src/repair/repairs.ts";
import { retireCalls } from "../../src/store/admissions.ts";
import { raiseAttention } from "../../src/store/attention.ts";
import { write, type Db } from "../../src/store/db.ts";
import { attribute, closeAttribution } from "../../src/store/ops.ts";
import { cascadeFilesOn } from "./disk.ts";
import type { Mortal } from "./ports.ts";
import type { World } from "./world.ts";

export const REPO_ID = "aaaaaaaa-1111-4111-8111-111111111111";
export const STATE = "/state";

export interface Life extends Mortal {
  readonly db: Db;
  readonly end: AbortController;
  readonly creation: Creation;
  readonly repairs: Repairs;
  readonly edgeRepairs: EdgeRepairs;
  readonly standStill: StandStill;
  readonly cascade: Cascade;
  readonly hooks: ReturnType<typeof hookHandlers>;
}

/** In place of a start time: a command of jj whose daemon is dead. */
const JJ = "jj";

/** Opens the database and starts everything, as the daemon's boot does. */
export function bootDaemon(w: World): Life {
  const db = w.database.open();
  const life = { dead: false, db, end: new AbortController() } as Life;
  mortalWrites(w, life);
  const queues = new SerialQueues();
  const clock = clockOf(w, life);
  const { jj, exclusive } = makeExclusive(jjOf(w, life), queues, `jj:${REPO_ID}`, async (repo) => {
    await survivorsEnded(
      { db, processes: processesOf(w, life), clock, log: logOf(w, life) },
      DEFAULT_SETTINGS.survivorMs,
    );
    await prepareNeutral(w, db, repo);
  });
  const common = {
    repoId: REPO_ID,
    stateDir: STATE,
    db,
    jj,
    harness: (name: HarnessName) => harnessOf(w, life, name),
    processes: processesOf(w, life),
    clock,
    ids: {
      uuid: () => w.ports.now(life, "ids", () => w.ids.uuid()),
      secret: (bytes: number) => w.ports.now(life, "ids", () => w.ids.secret(bytes)),
    },
    crash: {
      at: (name: string) =>
        w.ports.now(
          life,
          `crash ${name}`,
          () => {
            w.count(`crash point ${name}`);
            w.observer.point(name);
          },
          true,
        ),
    },
    log: logOf(w, life),
    queues,
  };
  const creationFiles = creationFilesOf(w, life);
  const recipes = recipesOf(w, life);
  const creationOf = (): Creation => life.creation;
  const standStill = makeStandStill({ ...common, self: process.pid });
  const cascade = makeCascade({
    ...common,
    exclusive,
    standStill,
    files: cascadeFilesOf(w, life),
    fsEvents: {
      watch: (folder, onChange, onLost) =>
        w.ports.call(life, "fs.watch", () =>
          w.fsEvents.watch(
            folder,
            () => void (life.dead || onChange()),
            (reason) => void (life.dead || onLost?.(reason)),
          ),
        ),
    },
    settings: DEFAULT_SETTINGS,
    sha256: sha256Hex,
    raiseAttention(row) {
      write(db, () => raiseAttention(db, { ...row, now: clock.now() }));
    },
    waitReady: (incarnation, ms) => creationOf().waitReady(incarnation, ms),
    sessionStarted: (incarnation, session) => creationOf().sessionStarted(incarnation, session),
    agents: agentsOf(() => creationOf().agents),
  });
  const creation = makeCreation({
    ...common,
    exclusive,
    jjBackend: {
      checkVersions: () => Promise.resolve({ jj: "0.46.0", git: "2.53.0" }),
    } as unknown as JjBackend,
    tmux: () => tmuxOf(w, life),
    files: creationFiles,
    settings: () => ({ ...settingsOf({}), setup: w.setup }),
    recipes,
    repairHolds: (threadId, repairId) => life.repairs.holds(threadId, repairId),
    kkPath: "/opt/kiki/kk",
    hookPath: "/opt/kiki/kk-hook",
    socketPath: `${STATE}/kkd.sock`,
    refreshToFrontier: () => cascade.refreshToOneHead(),
    classifyEdge: (child) => cascade.classifyEdge(child),
    deliveries: {
      ready: (threadId, incarnation) => cascade.agentReady(threadId, incarnation),
      ended: (threadId, incarnation) => cascade.agentEnded(threadId, incarnation),
    },
    onActive: () => w.count("thread Active"),
    onRetired(threadId, incarnation) {
      write(db, () => retireCalls(db, incarnation, clock.now()));
      cascade.considerRestart(threadId);
    },
  });
  const edgeRepairs = makeEdgeRepairs({
    ...common,
    troubles: cascade.troubles,
    runSaga: (saga) => runSaga(saga),
    repairHolds: (threadId, repairId) => life.repairs.holds(threadId, repairId),
  });
  const repairs = makeRepairs({
    db,
    sha256Hex,
    repairers: [
      edgeRepairs,
      creationRepairer({
        ...common,
        tmux: () => tmuxOf(w, life),
        files: creationFiles,
        recipes,
        creation,
      }),
      deliveryRepairer({ ...common, cascade, attempts: () => DEFAULT_SETTINGS.attempts }),
    ],
  });
  const runtime = { repoId: REPO_ID, db, cascade } as unknown as RepoRuntime;
  const hooks = hookHandlers((id) => (id === REPO_ID ? runtime : undefined));
  return Object.assign(life, { cascade, creation, repairs, edgeRepairs, standStill, hooks });
}

/** Boot recovery in the background, in the daemon's order. */
export function startDaemon(w: World, life: Life): void {
  void life.standStill
    .resumeAtBoot()
    .then(() => life.cascade.start())
    .then(() => {
      life.creation.resumeAll();
      life.edgeRepairs.resumeAll();
      life.creation.retireGone();
    })
    .catch((error: unknown) => {
      if (!life.dead) w.breach(`boot recovery failed: ${String(error)}`);
    });
}

/** A daemon may die right before and right after any commit; never in the middle, which SQLite itself proves. */
function mortalWrites(w: World, life: Life): void {
  const { db } = life;
  const plain = db.transaction.bind(db);
  db.transaction = ((body: () => unknown) => {
    const transaction = plain(body);
    const immediate = (): unknown => {
      if (db.inTransaction) return transaction.immediate();
      return w.ports.now(life, "commit", () => transaction.immediate(), true);
    };
    return { immediate };
  }) as never;
}

async function prepareNeutral(w: World, db: Db, jj: JjRepo): Promise<void> {
  const token = w.ids.uuid();
  write(db, () => {
    attribute(db, { token, handler: "snapshot", ownerId: "neutral", now: w.clock.now() });
    closeAttribution(db, token);
  });
  await jj.ensureNeutral(token);
}

const JJ_READS = [
  "heads",
  "operations",
  "operationExists",
  "workspaces",
  "commits",
  "existing",
  "workspaceHeads",
  "relations",
  "isAncestor",
  "evolvedFrom",
  "bookmarks",
  "changedPaths",
  "conflictedPaths",
  "sameChange",
  "touchedPaths",
  "updateProgress",
  "differing",
  "gitHead",
  "looseFiles",
  "diff",
  "statusText",
] as const satisfies readonly (keyof JjRepo)[];

/** Where each mutation has its token. */
const JJ_MUTATIONS = {
  ensureNeutral: (args: unknown[]) => args[0],
  addWorkspace: (args: unknown[]) => (args[0] as { token: string }).token,
  forgetWorkspace: (args: unknown[]) => args[1],
  abandon: (args: unknown[]) => args[1],
  edit: (args: unknown[]) => args[2],
  createBookmark: (args: unknown[]) => args[2],
  setBookmark: (args: unknown[]) => args[2],
  deleteBookmark: (args: unknown[]) => args[1],
  mergeHeads: (args: unknown[]) => args[0],
  snapshot: (args: unknown[]) => args[1],
  updateStale: (args: unknown[]) => args[1],
  stageRebase: (args: unknown[]) => (args[0] as { token: string }).token,
  integrate: (args: unknown[]) => args[1],
} as const satisfies Partial<Record<keyof JjRepo, (args: unknown[]) => unknown>>;

function jjOf(w: World, life: Life): JjRepo {
  const { jj, ports } = w;
  const methods: Record<string, unknown> = { location: jj.location, headsFolder: jj.headsFolder };
  const bare = jj as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  for (const name of JJ_READS) {
    methods[name] = (...args: unknown[]) =>
      ports.call(life, `jj.${name}`, () => bare[name]!(...args), { unsteady: true });
  }
  methods["probe"] = (...args: unknown[]) => {
    const look = async (): Promise<unknown> => {
      const probe = (await bare["probe"]!(...args)) as WorkspaceProbe;
      w.observer.probed(args[0] as string, probe);
      return probe;
    };
    return ports.call(life, "jj.probe", look, { unsteady: true });
  };
  for (const [name, tokenIn] of Object.entries(JJ_MUTATIONS)) {
    methods[name] = (...args: unknown[]) => {
      const token = tokenIn(args) as string;
      const run = (): Promise<unknown> => w.jjCommand(name, args, () => bare[name]!(...args));
      return ports.call(life, `jj.${name}`, run, { unsteady: true, token });
    };
  }
  // Files only: it does not fail as a command does.
  methods["workspaceCommits"] = (op: string) =>
    ports.call(life, "jj.workspaceCommits", () => jj.workspaceCommits(op));
  // git's alone, without a token.
  for (const name of ["forgetWorktree", "pinCommit", "setGitHead"]) {
    methods[name] = (...args: unknown[]) =>
      ports.call(life, `jj.${name}`, () => bare[name]!(...args), { unsteady: true });
  }
  return methods as unknown as JjRepo;
}

const TMUX_METHODS = [
  "checkVersion",
  "listSessions",
  "listPanes",
  "newSession",
  "splitPane",
  "killSession",
  "capturePane",
  "displayMessage",
] as const satisfies readonly (keyof TmuxBackend)[];

function tmuxOf(w: World, life: Life): TmuxBackend {
  const bare = w.tmux as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const methods: Record<string, unknown> = {};
  for (const name of TMUX_METHODS) {
    // A list that cannot be read is told by its value, never thrown.
    const unsteady = name !== "listSessions" && name !== "listPanes" && name !== "capturePane";
    methods[name] = (...args: unknown[]) =>
      w.ports.call(life, `tmux.${name}`, () => bare[name]!(...args), { unsteady });
  }
  return methods as unknown as TmuxBackend;
}

function creationFilesOf(w: World, life: Life): CreationFiles {
  const { files, ports } = w;
  const bare = files as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const names = [
    "ensureDir",
    "writeDurable",
    "removeDurable",
    "readText",
    "sha256",
    "kind",
    "inode",
    "listFiles",
    "removeListed",
    "removeTree",
  ] as const satisfies readonly (keyof CreationFiles)[];
  return Object.fromEntries(
    names.map((name) => [
      name,
      (...args: unknown[]) => ports.call(life, `files.${name}`, () => bare[name]!(...args)),
    ]),
  ) as unknown as CreationFiles;
}

function recipesOf(w: World, life: Life): Recipes {
  const bare = w.recipes as unknown as Record<string, (...args: unknown[]) => unknown>;
  const slow = ["match", "copy", "uncopy", "end"] as const satisfies readonly (keyof Recipes)[];
  const quick = ["note", "lastLine", "trim", "start", "carrying", "ofSession"] as const;
  const methods: Record<string, unknown> = {};
  for (const name of slow)
    methods[name] = (...args: unknown[]) =>
      w.ports.call(life, `recipes.${name}`, () => bare[name]!(...args) as Promise<unknown>);
  for (const name of quick)
    methods[name] = (...args: unknown[]) =>
      w.ports.now(life, `recipes.${name}`, () => bare[name]!(...args), name === "start");
  return methods as unknown as Recipes;
}

function cascadeFilesOf(w: World, life: Life): CascadeFiles {
  const bare = cascadeFilesOn(w.files) as unknown as Record<string, (...a: unknown[]) => unknown>;
  const writes = new Set(
    "writeDurable removeDurable copyInto hardLink removeTree moveFile putBack removeEmptyFolders".split(
      " ",
    ),
  );
  return Object.fromEntries(
    Object.keys(bare).map((name) => [
      name,
      (...args: unknown[]) => {
        if (name === "removeDurable" && !life.dead && w.files.get(args[0] as string) !== null)
          w.observer.consumed(args[0] as string);
        return w.ports.now(life, `files.${name}`, () => bare[name]!(...args), writes.has(name));
      },
    ]),
  ) as unknown as CascadeFiles;
}

function processesOf(w: World, life: Life): Processes {
  const ask = <T>(name: string, run: () => T): T => w.ports.now(life, `processes.${name}`, run);
  const { processes } = w;
  return {
    // The daemon can see itself, under the number it has on this machine.
    identify: (pid) =>
      ask("identify", () =>
        pid === process.pid ? { pid, startTime: "this daemon" } : processes.identify(pid),
      ),
    parentOf: (pid) => ask("parentOf", () => processes.parentOf(pid)),
    withArgument: (text) =>
      ask("withArgument", () => [
        ...processes.withArgument(text),
        ...w.ports.survivors
          .filter((s) => s.token.includes(text))
          .map(({ pid }) => ({ pid, startTime: JJ })),
      ]),
    sample: (marks) => ask("sample", () => processes.sample(marks)),
    argvOf: (who) =>
      ask("argvOf", () => (who.startTime === JJ ? w.ports.argvOf(who.pid) : processes.argvOf(who))),
    observe: (who) => ask("observe", () => processes.observe(who)),
    signal: (who, signal) =>
      ask("signal", () =>
        who.startTime === JJ ? w.ports.endSurvivor(who.pid) : processes.signal(who, signal),
      ),
    openLocks: (who) => ask("openLocks", () => processes.openLocks(who)),
    holders: (folder) => w.ports.call(life, "processes.holders", () => processes.holders(folder)),
  };
}

function harnessOf(w: World, life: Life, name: HarnessName): Harness {
  const { ports } = w;
  const harness = name === "codex" ? w.codex : w.harness;
  return {
    name: harness.name,
    batching: harness.batching,
    naming: harness.naming,
    version: () => ports.call(life, "harness.version", () => harness.version()),
    adapterVersion: harness.adapterVersion,
    gateProofs: (version) => harness.gateProofs(version),
    prove: (request) => ports.call(life, "harness.prove", () => harness.prove(request)),
    checkArguments: (args) => harness.checkArguments(args),
    prepare: (request) => ports.call(life, "harness.prepare", () => harness.prepare(request)),
    ...(harness.agentTool === undefined ? {} : { agentTool: harness.agentTool }),
    interpretEvent: (raw) =>
      ports.now(life, "harness.interpretEvent", () => harness.interpretEvent(raw)),
    record: (path) => harness.record(path),
    conversationGone: (of) => harness.conversationGone(of),
    denyOutput: (reason) => ports.now(life, "harness.denyOutput", () => harness.denyOutput(reason)),
    expectedResult: (reason, call) => harness.expectedResult(reason, call),
    refusalPrefixes: (call) => harness.refusalPrefixes(call),
    startupDialog: (text) => harness.startupDialog(text),
    composer: (text) => harness.composer(text),
  };
}

function clockOf(w: World, life: Life): Clock {
  return {
    now: () => w.ports.now(life, "clock", () => w.clock.now()),
    monotonic: () => w.ports.now(life, "clock", () => w.clock.monotonic()),
    sleep: (ms, signal) =>
      w.ports.call(life, "clock.sleep", () => w.clock.sleep(ms, signal), { deadly: false }),
  };
}

/** What the product logs as an error is a failure it did not expect, unless the world made it. */
function logOf(w: World, life: Life) {
  const line = (level: string, message: string): void => {
    if (life.dead) return;
    w.note(`     [${level}] ${message}`);
    w.observer.logged(message);
  };
  return {
    info: (message: string) => line("info", message),
    warn: (message: string) => line("warn", message),
    error: (message: string, cause?: unknown) => {
      line("error", `${message}${cause instanceof Error ? ` (${cause.message})` : ""}`);
      const root = cause instanceof Unproven ? cause.cause : cause;
      const foreseen = root instanceof KikiError || root instanceof Stop;
      if (cause instanceof Error && !foreseen && !life.dead)
        w.unexpected(`${message}: ${cause.stack ?? cause.message}`);
    },
  };
}
