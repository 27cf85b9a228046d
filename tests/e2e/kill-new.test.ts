/**
 * `kill -9` of the daemon at random moments of `kk new`: whole binary, real jj, git and tmux. Every run must end with
 * an Active thread or an honest CreateFailed, and outside the database there must be exactly what the rows say.
 *
 *   KIKI_TEST_SEED=<n>      the same moments again
 *   KIKI_TEST_MOMENTS=20    more of them; the default suite takes a few
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { isAlive } from "../../src/cmd/alive.ts";
import { randomOf, testSeed } from "../support/random.ts";
import { waitFor } from "../support/wait.ts";
import { initialised, type ThreadState, type World } from "../support/world.ts";

const MOMENTS = Number(process.env["KIKI_TEST_MOMENTS"] ?? 2);
const SETTLED_MS = 60_000;
setDefaultTimeout(60_000 + MOMENTS * 60_000);

let w: World;
beforeAll(async () => {
  w = await initialised({ files: { "base.txt": "base\n", ".gitignore": ".env\n" } });
  writeFileSync(join(w.repo.root, ".env"), "KEY=1\n");
  mkdirSync(w.stateDir, { recursive: true });
  // A recipe runs as well, so that its process is among what a daemon may die beside.
  writeFileSync(
    join(w.stateDir, "config.toml"),
    '[setup]\ncopy = [".env"]\nrun = "echo setting up; sleep 0.2"\n',
  );
});
afterAll(() => w.close());

interface Attempt {
  exited: Promise<number>;
  /** Resolves when the question was answered with yes. */
  answered: Promise<void>;
  screen(): string;
}

/** `kk new` on a terminal of its own, answered as soon as it asks. */
function kkNew(name: string): Attempt {
  let screen = "";
  let asked = 0;
  const answered = Promise.withResolvers<void>();
  const decoder = new TextDecoder();
  const child = Bun.spawn(["kk", "new", name, "--detach"], {
    cwd: w.repo.root,
    env: w.env,
    terminal: {
      cols: 120,
      rows: 40,
      data(terminal, data) {
        screen += decoder.decode(data, { stream: true });
        // A daemon that died before it had answered makes kk ask again.
        const questions = screen.split("[y/N]").length - 1;
        if (questions <= asked) return;
        asked = questions;
        terminal.write("y\n");
        answered.resolve();
      },
    },
  });
  const exited = child.exited.then((code) => {
    child.terminal?.close();
    answered.resolve();
    return code;
  });
  return { exited, answered: answered.promise, screen: () => screen };
}

/** Kills the daemon the state folder names; false when none runs at this moment. */
function killDaemon(): boolean {
  try {
    process.kill(w.daemonPid(), "SIGKILL");
    return true;
  } catch {
    return false;
  }
}

/** Every thread whose creation has come to its end. */
async function settled(): Promise<ThreadState[]> {
  return waitFor(
    async () => {
      const threads = await w.threads();
      if (threads.some((t) => t.lifecycle === "Creating")) return null;
      return Promise.all(threads.map((t) => w.state(t.threadId)));
    },
    SETTLED_MS,
    "no thread is Creating",
  );
}

function repoFolder(): string {
  const [id, ...others] = readdirSync(join(w.stateDir, "repos"));
  if (id === undefined || others.length > 0) throw new Error("not exactly one repository");
  return join(w.stateDir, "repos", id);
}

function names(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

/** Environments of processes that name the world: the agents and recipes among them by kiki's own variables. */
function processesWith(variable: RegExp): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid && isAlive(pid))
    .filter((pid) => {
      try {
        const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
        return environment.includes(w.stateDir) && variable.test(environment);
      } catch {
        return false; // ended meanwhile
      }
    });
}

/** What is there of kiki's making, by kind, each sorted. */
async function outside(): Promise<Record<string, string[]>> {
  const lines = (text: string): string[] =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .sort();
  const at = ["--ignore-working-copy"];
  const jj = async (...args: string[]): Promise<string[]> =>
    lines(await w.repo.jj([...args, ...at]));
  const sessions = w.tmux.run("list-sessions", "-F", "#{session_name}").out;
  const worktrees = await w.repo.git(["worktree", "list", "--porcelain"]);
  return {
    records: (await jj("workspace", "list", "-T", 'name ++ "\\n"')).filter((n) => n !== "default"),
    bookmarks: await jj("bookmark", "list", "-T", 'name ++ "\\n"'),
    folders: names(w.dir).filter((name) => name.startsWith("shop-kiki-")),
    sessions: lines(sessions).filter((name) => name.startsWith("kk-")),
    worktrees: lines(worktrees)
      .filter((line) => line.startsWith("worktree ") && line.includes("-kiki-"))
      .map((line) => line.slice(line.lastIndexOf("/") + 1)),
    credentials: names(join(repoFolder(), "credentials")),
    harness: names(join(repoFolder(), "harness")),
  };
}

/** The same, as the rows say it must be. */
function expected(threads: readonly ThreadState[]): Record<string, string[]> {
  const active = threads.filter((t) => t.summary.lifecycle === "Active");
  const of = (value: (t: ThreadState) => string): string[] => active.map(value).sort();
  const folder = (t: ThreadState): string => t.workspacePath.slice(w.dir.length + 1);
  return {
    records: of((t) => t.workspaceName),
    bookmarks: of((t) => t.summary.bookmark!),
    folders: of(folder),
    sessions: of((t) => t.summary.tmuxSession!),
    worktrees: of(folder),
    credentials: of((t) => t.summary.threadId),
    harness: of((t) => t.summary.threadId),
  };
}

/** How long a creation takes here and now, from the answer on. */
async function measure(): Promise<number> {
  const attempt = kkNew("measure");
  await attempt.answered;
  const began = performance.now();
  expect([await attempt.exited, attempt.screen()]).toEqual([0, expect.any(String)]);
  return performance.now() - began;
}

test(`kk new: daemon killed at ${MOMENTS} random moments → Active or CreateFailed each time, nothing else left anywhere`, async () => {
  const seed = testSeed();
  const random = randomOf(seed);
  const length = await measure();
  const outcomes: string[] = [];
  try {
    for (let n = 1; n <= MOMENTS; n += 1) {
      const attempt = kkNew(`run ${n}`);
      // One in five dies while the plan is made or looked at.
      const early = random.chance(0.2);
      const delay = random.below(Math.ceil(early ? length / 4 : length));
      if (!early) await attempt.answered;
      await Bun.sleep(delay);
      const killed = killDaemon();
      await attempt.exited;
      const threads = await settled();
      const made = threads.find((t) => t.summary.name === `run ${n}`);
      const where = `${early ? "before" : "after"} the answer +${delay} ms`;
      const outcome = made?.summary.lifecycle ?? "no thread";
      outcomes.push(`${where}: ${killed ? "" : "(no daemon) "}${outcome}`);
      expect([outcome, ["Active", "CreateFailed"].includes(outcome)]).toEqual([outcome, true]);
      if (outcome === "CreateFailed") expect(made?.operation?.error).toBeTruthy();
      expect(await outside()).toEqual(expected(threads));
      // One agent for each thread, with its wrapper; no recipe.
      const active = threads.filter((t) => t.summary.lifecycle === "Active").length;
      expect(new Set(threads.map((t) => t.incarnation).filter((i) => i !== null)).size).toBe(
        active,
      );
      expect(processesWith(/\0KIKI_SETUP=/)).toEqual([]);
    }
  } finally {
    console.log(`seed ${seed}, a whole creation takes ${Math.round(length)} ms`);
    for (const line of outcomes) console.log(`  ${line}`);
  }
});
