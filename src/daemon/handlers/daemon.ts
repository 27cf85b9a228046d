/** The daemon about itself. */
import type { DaemonCaller } from "../attempts.ts";
import { problemLine } from "../../core/config/problem.ts";
import { errorLine, KikiError } from "../../core/errors.ts";
import type { Output } from "../../rpc/contract/methods.ts";
import type { DoctorLine } from "../../rpc/contract/types.ts";
import type { Handlers } from "../../rpc/server.ts";
import { watchedThreads } from "../../store/edges.ts";
import { listRepos } from "../../store/repos.ts";
import { BUILD, VERSION } from "../../version.ts";
import { isoTime } from "../views.ts";
import type { Daemon } from "../runtime.ts";
import { harnessLine } from "../harness-line.ts";

type DaemonMethod = "DaemonStatus" | "DaemonShutdown" | "Doctor";

export function daemonHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, DaemonMethod> {
  return {
    DaemonStatus: () => ({
      version: VERSION,
      build: BUILD,
      pid: process.pid,
      startedAt: isoTime(daemon.startedAt),
      stateDir: daemon.stateDir,
      socket: daemon.socket,
      repos: daemon.repos.size + daemon.broken.size,
      watching: watching(daemon),
    }),
    DaemonShutdown({ reason, pid }) {
      // Somebody else has replaced that daemon meanwhile: this one is not meant.
      const stopping = pid === undefined || pid === process.pid;
      if (stopping) daemon.requestStop(reason);
      return { pid: process.pid, stopping };
    },
    async Doctor({ harnesses = [] }) {
      const lines = [
        ...harnesses.map((found) => harnessLine(daemon, found)),
        ...(await toolLines(daemon)),
        ...repoLines(daemon),
        ...(await settingLines(daemon)),
        configLine(daemon),
      ];
      return { lines };
    },
  };
}

function watching(daemon: Daemon): Output<"DaemonStatus">["watching"] {
  const open = [...daemon.repos.values()].map((repo) => {
    const { events, reason, degraded } = repo.cascade.watching();
    return { repoId: repo.repoId, events, reason, ...(degraded === null ? {} : { degraded }) };
  });
  const broken = [...daemon.broken].map(([repoId, { error }]) => ({
    repoId,
    events: false,
    reason: error.message,
  }));
  return [...open, ...broken];
}

/** Tools on the daemon's PATH, which may be another than the person's. */
async function toolLines(daemon: Daemon): Promise<DoctorLine[]> {
  const { jj, tmux } = daemon.world;
  const [versions, terminal] = await Promise.all([
    line("daemon: jj and git", async () => {
      const found = await jj.checkVersions();
      return `jj ${found.jj}, git ${found.git}`;
    }),
    line("daemon: tmux", () => tmux(null).checkVersion()),
  ]);
  return [versions, terminal];
}

async function line(name: string, check: () => Promise<string>): Promise<DoctorLine> {
  try {
    return { name, ok: true, detail: await check(), fix: null };
  } catch (error) {
    const fix = error instanceof KikiError ? (error.hint ?? null) : null;
    return { name, ok: false, detail: errorLine(error), fix };
  }
}

/** Configuration of the user and of every repository. */
function configLine(daemon: Daemon): DoctorLine {
  const { config } = daemon.world;
  const places = [{ repo: null }, ...listRepos(daemon.userDb).map((repo) => ({ repo }))];
  const found = places.flatMap((place) => config.at(place).problems);
  const ok = !found.some((problem) => problem.severity === "error");
  const [first, ...more] = new Set(found.map(problemLine));
  const name = "configuration";
  if (first === undefined)
    return { name, ok: true, detail: "nothing to complain about", fix: null };
  const detail = more.length === 0 ? first : `${first} (and ${more.length} more)`;
  return { name, ok, detail, fix: ok ? null : "kk config show lists every problem" };
}

/**
 * A setting of jj's under which an agent's own command does what kiki must do at a boundary (facts of jj, 0.46): said for
 * the repository and for every thread, because each workspace may have its own. No line where all is well.
 */
async function settingLines(daemon: Daemon): Promise<DoctorLine[]> {
  const lines: DoctorLine[] = [];
  for (const { db, row } of daemon.repos.values()) {
    const folders = [row.repoRoot, ...watchedThreads(db).map((thread) => thread.workspacePath)];
    const found = await Promise.all(
      // A folder that is away has a line of its own elsewhere.
      folders.map((folder) => daemon.world.jj.autoUpdateStale(folder).catch(() => null)),
    );
    const where = [...new Set(found.filter((path) => path !== null))];
    if (where.length === 0) continue;
    const files = where.map((path) => path || "its environment").join(", ");
    lines.push({
      name: `jj of ${row.repoRoot}`,
      ok: false,
      detail: `snapshot.auto-update-stale is on in ${files}: any jj command may change an agent's files behind kiki's back`,
      fix: `set snapshot.auto-update-stale = false in ${files}`,
    });
  }
  return lines;
}

function repoLines(daemon: Daemon): DoctorLine[] {
  return listRepos(daemon.userDb).map((row) => {
    const name = `repo ${row.repoRoot}`;
    const broken = daemon.broken.get(row.repoId)?.error;
    if (broken !== undefined) {
      return { name, ok: false, detail: broken.message, fix: broken.hint ?? null };
    }
    const state = daemon.repos.get(row.repoId)?.cascade.watching();
    const how = state?.events === true ? "watched by events" : "polled";
    const reason = state?.reason == null ? "" : ` (${state.reason})`;
    if (state?.degraded != null) {
      return {
        name,
        ok: false,
        detail: `degraded: ${state.degraded} (${how})`,
        fix: `run jj op log in ${row.repoRoot} to see what jj does; kiki reads on by itself, and agents are told late until then`,
      };
    }
    // Polling is slower and complete all the same: nothing has to be mended for kiki to work.
    return { name, ok: true, detail: `${how}${reason}`, fix: null };
  });
}
