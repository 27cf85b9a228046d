/** The daemon as a process: its environment, its signals, its end. */
import { errorLine, KikiError } from "../core/errors.ts";
import { stateRoot } from "../core/state-root.ts";
import { statePaths } from "../core/paths.ts";
import { resolveFolder } from "../rpc/find-socket.ts";
import { ensurePrivateFolder } from "../rpc/private-folder.ts";
import { adopted, STARTER_PID } from "./adopted.ts";
import { bootDaemon } from "./boot.ts";
import { openLog } from "./log.ts";
import { makeWorld } from "./wire.ts";

/** The intermediate prints a number and ends; on a busy machine that takes a moment. */
const ADOPTION_LIMIT_MS = 10_000;

/** Runs until somebody asks for the end; resolves with the exit code. 0 also when another daemon is there already. */
export async function runDaemon(env: Record<string, string | undefined>): Promise<number> {
  const root = stateRoot(env);
  if (root === null) throw new Error("HOME is not set, and no absolute state folder is given");
  ensurePrivateFolder(root);
  const stateDir = resolveFolder(root);
  // Not the folder somebody happened to start it in: that one would stay busy as long as the daemon lives.
  process.chdir(stateDir);
  const world = makeWorld(stateDir, () => log);
  const log = openLog(statePaths(stateDir).log, world.clock);
  process.on("uncaughtException", (error) => log.error("uncaught", error));
  process.on("unhandledRejection", (error) => log.error("unhandled rejection", error));
  try {
    const running = await bootDaemon({
      stateDir,
      runtimeDir: env["XDG_RUNTIME_DIR"],
      world,
      log,
      mayServe: () => mayServe(env, log),
    });
    if (running === null) return 0;
    const stop = (signal: string) => (): void => running.daemon.requestStop(signal);
    process.on("SIGTERM", stop("SIGTERM"));
    process.on("SIGINT", stop("SIGINT"));
    log.info(`stopping: ${await running.stopRequested}`);
    await running.stop();
    return 0;
  } catch (error) {
    const hint = error instanceof KikiError && error.hint !== undefined ? ` — ${error.hint}` : "";
    log.error(
      `cannot start: ${errorLine(error)}${hint}`,
      error instanceof KikiError ? undefined : error,
    );
    return 1;
  }
}

/** Nobody's descendant: below a pane, kiki itself might one day stop this process. */
async function mayServe(
  env: Record<string, string | undefined>,
  log: { error(message: string): void },
): Promise<boolean> {
  const free = await adopted(env, ADOPTION_LIMIT_MS);
  if (!free)
    log.error(
      `process ${env[STARTER_PID] ?? ""}, which started this daemon, does not end; leaving`,
    );
  delete process.env[STARTER_PID];
  return free;
}
