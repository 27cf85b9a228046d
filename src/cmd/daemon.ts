/** `kk daemon status|stop|restart|logs`. They work against a daemon of any version, and without one. */
import { readFileSync } from "node:fs";
import { defineCommand } from "citty";
import { fail } from "../core/errors.ts";
import { statePaths } from "../core/paths.ts";
import { VERSION } from "../version.ts";
import { runningDaemon, stateDir, stopDaemon, type DaemonStatus } from "./connect.ts";
import { print, printJson } from "./out.ts";
import { startDaemon } from "./start-daemon.ts";

const json = { type: "boolean", description: "Print as JSON" } as const;

const status = defineCommand({
  meta: { name: "status", description: "Show the running daemon; does not start one" },
  args: { json },
  async run({ args }) {
    const dir = stateDir();
    const daemon = await runningDaemon(dir);
    if (daemon === null) throw notRunning(dir);
    if (args.json) return printJson(daemon);
    print(describe(daemon));
  },
});

const stop = defineCommand({
  meta: { name: "stop", description: "Drain running work and stop the daemon" },
  async run() {
    const dir = stateDir();
    const daemon = await runningDaemon(dir);
    if (daemon === null) return print("no daemon is running");
    await stopDaemon(dir, daemon, "kk daemon stop");
    print(`daemon ${daemon.pid} stopped`);
  },
});

const restart = defineCommand({
  meta: { name: "restart", description: "Stop the daemon and start this program's own" },
  async run() {
    const dir = stateDir();
    const before = await runningDaemon(dir);
    if (before !== null) await stopDaemon(dir, before, "kk daemon restart");
    await startDaemon({ stateDir: dir });
    const after = await runningDaemon(dir);
    if (after === null) throw notRunning(dir);
    print(`daemon ${after.pid} (${after.version}) started`);
  },
});

const DEFAULT_LINES = 100;
const MAX_LINES = 100_000;

const logs = defineCommand({
  meta: { name: "logs", description: "Show the end of the daemon's log" },
  args: {
    lines: {
      type: "string",
      alias: "n",
      valueHint: "count",
      description: `How many lines (default ${DEFAULT_LINES})`,
    },
  },
  run({ args }) {
    const wanted = Number(args.lines ?? DEFAULT_LINES);
    if (!Number.isInteger(wanted) || wanted < 1 || wanted > MAX_LINES) {
      const text = JSON.stringify(args.lines);
      throw fail(
        "usage",
        "usage",
        `--lines needs a number from 1 to ${MAX_LINES}, not ${text}`,
        "kk help daemon logs",
      );
    }
    const file = statePaths(stateDir()).log;
    const lines = `${read(`${file}.1`)}${read(file)}`.trimEnd().split("\n");
    const text = lines.slice(-wanted).join("\n");
    if (text === "") {
      throw fail("notFound", "no-log", `there is no log at ${file} yet`, "kk ls starts the daemon");
    }
    print(text);
  },
});

export const daemonCommand = defineCommand({
  meta: { name: "daemon", description: "The background process that owns all state" },
  subCommands: { status, stop, restart, logs },
});

function describe(daemon: DaemonStatus): string {
  const watching = daemon.watching.map(({ repoId, events, reason, degraded }) => {
    const how = `${events ? "events" : "polling"}${reason === null ? "" : ` (${reason})`}`;
    return `  watching  ${repoId}: ${how}${degraded === undefined ? "" : `; degraded: ${degraded}`}`;
  });
  const client = daemon.version === VERSION ? "" : ` (this kk is ${VERSION})`;
  return [
    `kkd ${daemon.version} (${daemon.build})${client}`,
    `  pid       ${daemon.pid}`,
    `  started   ${daemon.startedAt}`,
    `  state     ${daemon.stateDir}`,
    `  socket    ${daemon.socket}`,
    `  repos     ${daemon.repos}`,
    ...watching,
  ].join("\n");
}

function notRunning(dir: string): Error {
  return fail(
    "daemonUnavailable",
    "daemon-not-running",
    `no daemon is running on ${dir}`,
    "any command that needs it starts it; kk daemon logs shows its last words",
  );
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
