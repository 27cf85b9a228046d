/**
 * From nothing to a serving daemon, in an order in which nothing can be half there: lock, folders, user database,
 * credential, repositories, socket, and only then recovery, so that hooks held by it have somewhere to wait.
 */
import { makeAuditWriter } from "../authority/audit.ts";
import { makeBroker } from "../authority/broker.ts";
import { makeIdentify } from "../authority/identify.ts";
import { steadyClock } from "../authority/steady.ts";
import { statePaths } from "../core/paths.ts";
import { SerialQueues } from "../core/serial-queue.ts";
import { makeProving } from "../lifecycle/proving.ts";
import type { Log } from "../ports/log.ts";
import { serveRpc, type Handlers, type RpcServer } from "../rpc/server.ts";
import { setMeta } from "../store/daemon-meta.ts";
import { openUserDb } from "../store/open.ts";
import { listRepos } from "../store/repos.ts";
import { liveAgents } from "../store/sessions.ts";
import { BUILD, VERSION } from "../version.ts";
import { resumeApprovedOperations } from "./approved.ts";
import { makeAttempts, type DaemonCaller } from "./attempts.ts";
import { approvalHandlers } from "./handlers/approvals.ts";
import { auditHandlers } from "./handlers/audit.ts";
import { configHandlers } from "./handlers/config.ts";
import { daemonHandlers } from "./handlers/daemon.ts";
import { hookHandlers } from "./handlers/hook.ts";
import { launchHandlers } from "./handlers/launch.ts";
import { registryHandlers } from "./handlers/registry.ts";
import { repairHandlers } from "./handlers/repair.ts";
import { threadHandlers } from "./handlers/threads.ts";
import { takeLock, type DaemonLock } from "./lock.ts";
import {
  closeRepo,
  lookAtQuiet,
  openRepo,
  ownerUnavailable,
  retireGone,
  startRepo,
} from "./repos.ts";
import type { Daemon, World } from "./runtime.ts";
import { ensureUserCredential } from "./user-credentials.ts";
import { bindPrivately, identityOf, prepareSocket } from "./socket.ts";

export interface BootRequest {
  /** Absolute, resolved, 0700. */
  stateDir: string;
  runtimeDir: string | undefined;
  world: World;
  log: Log;
  /** Resolves false when this process must not serve after all. */
  mayServe(): Promise<boolean>;
}

export interface RunningDaemon {
  readonly daemon: Daemon;
  /** Resolves with the reason once somebody asked for the end. */
  readonly stopRequested: Promise<string>;
  /** Drains, closes everything, removes socket and pid file, frees the lock. Bounded; never rejects. */
  stop(): Promise<void>;
}

/**
 * A daemon whose state folder or socket is gone can be reached by nobody, and its lock keeps every successor away; it
 * must not live on unseen.
 */
const OWNERSHIP_CHECK_MS = 5_000;
/** An agent that went without a word (tmux killed, machine restarted) is noticed within this. */
const GONE_AGENTS_CHECK_MS = 15_000;
/** A turn that was broken off is shown as over within this and the quiet before it counts. */
const QUIET_AGENTS_CHECK_MS = 3_000;
const FINGERPRINT_KEY_BYTES = 32;
/** Running requests get this long to finish. */
const DRAIN_MS = 5_000;
/** Work that outlives its request (a reconciliation, a creation step) gets this long on top; boot resumes the rest. */
const SETTLE_MS = 5_000;

/** null when another daemon holds the lock, or `mayServe` says no. Throws KikiError for what a person must mend. */
export async function bootDaemon(request: BootRequest): Promise<RunningDaemon | null> {
  const lock = takeLock(statePaths(request.stateDir).lock);
  if (lock === null) {
    request.log.info("another daemon holds the lock; leaving");
    return null;
  }
  try {
    if (await request.mayServe()) return await serve(request, lock);
  } catch (error) {
    lock.release();
    throw error;
  }
  lock.release();
  return null;
}

async function serve(request: BootRequest, lock: DaemonLock): Promise<RunningDaemon> {
  const { log, world, stateDir } = request;
  const paths = statePaths(stateDir);
  world.files.ensureDir(`${stateDir}/repos`, 0o700);
  const userDb = openUserDb(paths.userDb);
  const credentials = { ...world, userDb, log };
  ensureUserCredential(credentials, "RegistrationScoped", paths.registrationCredential);
  ensureUserCredential(credentials, "Admin", paths.adminCredential);
  const socket = prepareSocket({
    stateDir,
    runtimeDir: request.runtimeDir,
    uid: process.getuid?.() ?? 0,
    recorded: lock.previous?.socket ?? "",
  });
  const asked = Promise.withResolvers<string>();
  const daemon: Daemon = {
    stateDir,
    paths,
    socket,
    startedAt: world.clock.now(),
    userDb,
    audit: makeAuditWriter({ log }),
    proving: makeProving({
      ...world,
      userDb,
      folder: paths.proofs,
      queues: new SerialQueues(),
      log,
      by: `kiki ${VERSION} (${BUILD})`,
    }),
    steadyNow: steadyClock(world.clock),
    world,
    log,
    repos: new Map(),
    broken: new Map(),
    requestStop: asked.resolve,
  };
  await daemon.proving.sweep();
  for (const row of listRepos(userDb)) await openRepo(daemon, row);
  await resumeApprovedOperations(daemon);
  const server = bindPrivately(() => startServer(daemon));
  lock.record(socket);
  setMeta(userDb, "socket", socket);
  world.files.writeDurable(paths.pid, `${process.pid}\n`, 0o600);
  log.info(`kkd ${VERSION} (${BUILD}) serves on ${socket}`);
  for (const repoId of daemon.repos.keys()) startRepo(daemon, repoId);
  const bound = identityOf(socket);
  const ownership = setInterval(() => {
    if (!lock.stillCounts()) daemon.requestStop("the state folder was removed or replaced");
    // Systems sweep /tmp, where the socket of a long state path lies.
    else if (identityOf(socket) !== bound) daemon.requestStop("the socket was removed or replaced");
  }, OWNERSHIP_CHECK_MS);
  ownership.unref();
  const agents = setInterval(() => retireGone(daemon), GONE_AGENTS_CHECK_MS);
  agents.unref();
  const quiet = setInterval(() => lookAtQuiet(daemon), QUIET_AGENTS_CHECK_MS);
  quiet.unref();
  const stop = (): Promise<void> => {
    for (const timer of [ownership, agents, quiet]) clearInterval(timer);
    return shutDown(daemon, server, lock);
  };
  return { daemon, stopRequested: asked.promise, stop };
}

function startServer(daemon: Daemon): RpcServer {
  const { world, userDb, steadyNow: now } = daemon;
  const broker = makeBroker({ ids: world.ids, now });
  const approvals = {
    daemon,
    broker,
    presence: {
      terminals: world.terminals,
      processes: world.processes,
      agents: () => [...daemon.repos.values()].flatMap(({ db }) => liveAgents(db)),
    },
    presenters: {
      userDb,
      ids: world.ids,
      now: () => world.clock.now(),
      writeSecret: (secret: string) =>
        world.files.writeDurable(daemon.paths.presenterCredential, `${secret}\n`, 0o600),
    },
  };
  const handlers: Handlers<DaemonCaller> = {
    ...daemonHandlers(daemon),
    ...registryHandlers(daemon),
    ...configHandlers(daemon),
    ...threadHandlers(daemon),
    ...repairHandlers(daemon),
    ...launchHandlers(daemon),
    ...hookHandlers((repoId) => daemon.repos.get(repoId)),
    ...approvalHandlers(approvals),
    ...auditHandlers(daemon),
  };
  const identify = makeIdentify({
    userDb,
    repos: () => daemon.repos.values(),
    unavailable: (secret) => ownerUnavailable(daemon, secret),
    fingerprintKey: world.ids.secret(FINGERPRINT_KEY_BYTES),
  });
  return serveRpc<DaemonCaller>({
    unixPath: daemon.socket,
    handlers,
    attempt: makeAttempts({ daemon, identify, broker, audit: daemon.audit }),
    version: VERSION,
    log: daemon.log,
  });
}

async function shutDown(daemon: Daemon, server: RpcServer, lock: DaemonLock): Promise<void> {
  const { log, world, paths } = daemon;
  // Closing the server removes the socket by its path, where another daemon may listen by now.
  if (!lock.stillCounts()) return;
  await server.stop(DRAIN_MS);
  const repos = [...daemon.repos.values()];
  const settled = Promise.all(repos.map((repo) => closeRepo(daemon, repo)));
  const late = world.clock.sleep(SETTLE_MS).then(() => "late" as const);
  if ((await Promise.race([settled, late])) === "late") {
    // Databases stay open: what still runs may write, and the journal is made for an end at any point.
    log.warn("some work did not end in time; the next start goes on with it");
  } else {
    daemon.audit.flush();
    for (const { db } of [...repos, { db: daemon.userDb }]) db.close();
  }
  try {
    world.files.removeDurable(paths.pid);
  } catch (error) {
    log.warn(`pid file not removed: ${String(error)}`);
  }
  log.info("kkd ended");
  lock.release();
}
