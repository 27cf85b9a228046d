/**
 * Not the daemon, but started like it: waits for its starter's end, takes the lock, clears and binds the socket, and
 * says about itself what a test wants to know. Every line it prints goes to kkd.log.
 */
import { readdirSync, readlinkSync, rmSync } from "node:fs";
import { errorLine } from "../../src/core/errors.ts";
import { statePaths } from "../../src/core/paths.ts";
import { adopted, STARTER_PID } from "../../src/daemon/adopted.ts";
import { takeLock } from "../../src/daemon/lock.ts";
import { bindPrivately, prepareSocket } from "../../src/daemon/socket.ts";

const DRAIN_MS = 400;

const stateDir = process.env["KIKI_PATHS__USER_STATE_DIR"] ?? "";
const starter = Number(process.env[STARTER_PID]);
// Before anything of our own is open.
const descriptors = readdirSync("/proc/self/fd").flatMap((fd) => {
  try {
    return [`${fd} ${readlinkSync(`/proc/self/fd/${fd}`)}`];
  } catch {
    return []; // the listing's own
  }
});

function main(wasAdopted: boolean): void {
  const lock = takeLock(statePaths(stateDir).lock);
  if (lock === null) {
    console.log(`lost ${process.pid}`);
    process.exit(0);
  }
  const socket = prepareSocket({
    stateDir,
    runtimeDir: process.env["XDG_RUNTIME_DIR"],
    uid: process.getuid?.() ?? 0,
    recorded: lock.previous?.socket ?? "",
  });
  const about = {
    pid: process.pid,
    ppid: process.ppid,
    starter,
    wasAdopted,
    descriptors,
    cwd: process.cwd(),
    env: process.env,
    socket,
  };
  let status = 200;
  const fetch = (): Response => Response.json(about, { status });
  bindPrivately(() => Bun.serve({ unix: socket, fetch }));
  // Drains for a while, as the daemon does; then for another while only the lock is left.
  process.on("SIGTERM", () => {
    status = 503;
    setTimeout(() => rmSync(socket), DRAIN_MS);
    setTimeout(() => process.exit(0), 2 * DRAIN_MS);
  });
  lock.record(socket);
  console.log(`serving ${process.pid}`);
}

try {
  main(await adopted(process.env, 5_000));
} catch (error) {
  console.log(errorLine(error));
  process.exit(1);
}
