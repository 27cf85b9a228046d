/**
 * A soak: a parent that a person moves, two that follow it, one that follows a follower; agents that work without end; and
 * the daemon, its jj commands and people doing what they do at the worst moment. The whole binary, real jj and tmux.
 */
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { processesMentioning } from "../../../scripts/leftovers.ts";
import { codexLogin } from "../../support/codex-thread.ts";
import {
  homeOf,
  intents,
  newThread,
  onDisk,
  stateOf,
  story,
  type Follower,
  type Home,
  type Thread,
} from "../../support/family.ts";
import { randomOf, type Random } from "../../support/random.ts";
import { waitFor } from "../../support/wait.ts";
import { initialised, type World } from "../../support/world.ts";
import { endless, missing, untold, workScript, type Worker } from "./agents.ts";

export interface SoakOptions {
  seed: number;
  /** What people and accidents do, one after the other. */
  actions: number;
  settleMs: number;
  /** Leaves the world as it is at the end, to be looked at. */
  keep: boolean;
  say: (line: string) => void;
}

export interface SoakReport {
  /** How often each action was done. */
  done: Record<string, number>;
  lines: number;
  /** Lines that are only in bundles a payload names. */
  elsewhere: number;
  intents: number;
  payloads: number;
  restarts: number;
  faults: string[];
}

/** The parent's line and, far enough from it to be merged, the place where a child appends. */
const shared = (version: number): string => `version ${version}\n1\n2\n3\n4\n5\n6\n7\n`;

interface Scene extends Home {
  random: Random;
  parent: Thread;
  followers: (Follower & { follows: Thread; worker: Worker })[];
  version: number;
}

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const w = await initialised({
    dir: realpathSync(mkdtempSync(join(tmpdir(), "kiki-soak-"))),
    colocated: false,
    files: { "base.txt": "base\n", ".gitignore": "build/\n" },
  });
  try {
    const scene = await setUp(w, options);
    const done: Record<string, number> = {};
    for (let n = 0; n < options.actions; n += 1) {
      const [name, act] = pick(scene);
      done[name] = (done[name] ?? 0) + 1;
      await act();
      // The pace of the story, part of its seed: nothing is waited for here.
      await Bun.sleep(scene.random.below(1_500));
      if ((n + 1) % 25 === 0) options.say(`${n + 1} actions`);
    }
    return { ...(await settle(scene, options)), done };
  } finally {
    if (options.keep) options.say(`kept: ${w.dir}`);
    else await w.close();
  }
}

async function setUp(w: World, { seed }: SoakOptions): Promise<Scene> {
  codexLogin(w);
  const home = homeOf(w, w.repo);
  const script = workScript(w);
  const parent = await newThread(home, "parent");
  home.repo.write("shared.txt", shared(0), parent.path);
  await home.repo.jj(["describe", "--quiet", "-m", "first"], parent.path);
  const scene: Scene = { ...home, random: randomOf(seed), parent, followers: [], version: 0 };
  const follow = async (name: string, of: Thread, appendsTo: string, more: string[] = []) => {
    const worker = { name, appendsTo };
    const log = join(w.dir, `${name}.ndjson`);
    const steps = endless(w, script, worker);
    const prompt = w.scenario(name, { log, responses: steps, resumed: steps });
    const args = ["--follows", of.name, ...more, "-m", prompt];
    scene.followers.push({ ...(await newThread(home, name, args)), log, follows: of, worker });
  };
  await follow("one", parent, "shared.txt");
  await follow("two", parent, "shared.txt", ["--harness", "codex"]);
  await follow("far", scene.followers[0]!, "own-far.txt");
  return scene;
}

type Action = [name: string, act: () => Promise<unknown>];

function pick(scene: Scene): Action {
  const { random, repo, w, parent, followers } = scene;
  const someone = random.pick(followers);
  const amend = async (): Promise<void> => {
    scene.version += 1;
    repo.write("shared.txt", shared(scene.version), parent.path);
    await repo.tryJj(["status", "--quiet"], parent.path);
  };
  const inParent: Action[] = [
    ["amend", amend],
    [
      "add",
      async () => {
        await repo.tryJj(["new", "--quiet", "-m", `step ${scene.version}`], parent.path);
        await amend();
      },
    ],
    [
      "describe",
      () => repo.tryJj(["describe", "--quiet", "-m", `p ${random.below(99)}`], parent.path),
    ],
  ];
  const inChild: Action[] = [
    [
      "child-describe",
      () => repo.tryJj(["describe", "--quiet", "-m", `by hand ${random.below(99)}`], someone.path),
    ],
    ["child-log", () => repo.tryJj(["log", "--quiet"], someone.path)],
    ["child-status", () => repo.tryJj(["status", "--quiet"], someone.path)],
    ["child-edit", async () => byHand(scene, someone)],
  ];
  const accidents: Action[] = [
    ["kill-daemon", async () => killDaemon(w)],
    ["stop-daemon", () => w.kk(["daemon", "stop"])],
    ["pause-daemon", () => pauseDaemon(w, random.below(3_000))],
    ["kill-jj", async () => killJj(w)],
    ["kk-ls", () => w.kk(["ls"])],
  ];
  const dice = random.below(10);
  return random.pick(dice < 5 ? inParent : dice < 7 ? inChild : accidents);
}

/** The person edits a file of a child's workspace, and jj is not told. */
function byHand(scene: Scene, of: Thread): void {
  const { w } = scene;
  const journal = join(w.dir, `person-${of.name}.journal`);
  const n = existsSync(journal) ? readFileSync(journal, "utf8").split("\n").length : 1;
  appendFileSync(join(of.path, "person.txt"), `person-${of.name} ${n}\n`);
  appendFileSync(journal, `person.txt ${n}\n`);
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has ended
  }
}

function daemon(w: World): number | null {
  try {
    return w.daemonPid();
  } catch {
    return null; // stopped, and nobody has started another yet
  }
}

function killDaemon(w: World): void {
  const pid = daemon(w);
  if (pid !== null) signal(pid, "SIGKILL");
}

async function pauseDaemon(w: World, ms: number): Promise<void> {
  const pid = daemon(w);
  if (pid === null) return;
  signal(pid, "SIGSTOP");
  await Bun.sleep(ms);
  signal(pid, "SIGCONT");
}

/** Every jj command of kiki's that runs just now. */
function killJj(w: World): void {
  for (const { pid, what } of processesMentioning(w.dir))
    if (pid !== undefined && what.includes("kiki.token=")) signal(pid, "SIGKILL");
}

/** Every commit, who stands where, and the operations that led to it. */
async function graph({ repo }: Scene): Promise<string> {
  const shape =
    'separate(" ", change_id.short(6), commit_id.short(8), working_copies, if(divergent, "divergent"), if(conflict, "conflict"), description.first_line()) ++ "\\n"';
  const op =
    'separate(" ", id.short(8), description.first_line(), time.start().format("%T%.3f"), time.end().format("%T%.3f"), tags) ++ "\\n"';
  const log = await repo.jj(["log", "--ignore-working-copy", "-r", "all()", "-T", shape]);
  const ops = await repo.jj(["op", "log", "--ignore-working-copy", "-n", "400", "-T", op]);
  return `${log}\n${ops}`;
}

async function settle(scene: Scene, options: SoakOptions): Promise<Omit<SoakReport, "done">> {
  const { w, followers, parent } = scene;
  const faults: string[] = [];
  writeFileSync(join(w.dir, "calm"), "");
  await scene.repo.tryJj(["status", "--quiet"], parent.path);
  const rest = async (): Promise<string[]> => {
    const open: string[] = [];
    for (const of of followers) {
      const { summary, issues, attention } = await stateOf(scene, of);
      const rows = intents(scene, of);
      const unresolved = rows.filter((r) => !["Acknowledged", "Superseded"].includes(r.state));
      const shows = onDisk(of, "shared.txt")?.split("\n")[0];
      if (
        unresolved.length > 0 ||
        summary.cascade !== "in sync" ||
        issues.length > 0 ||
        attention.length > 0 ||
        shows !== `version ${scene.version}`
      )
        open.push(
          `${of.name}: ${summary.cascade}, ${shows}, ${unresolved.map((r) => `${r.state} ${r.reason ?? ""}`).join("; ")}; ${JSON.stringify({ issues, attention })}`,
        );
    }
    return open;
  };
  let open: string[] = [];
  await waitFor(async () => (open = await rest()).length === 0, options.settleMs, "at rest").catch(
    async () =>
      faults.push(...open.map((line) => `not at rest: ${line}`), story(scene), await graph(scene)),
  );
  w.raise("enough");
  for (const of of followers)
    await waitFor(() => existsSync(w.signal(`${of.name}-done`)), 60_000, `${of.name} done`).catch(
      (error: unknown) => faults.push(String(error)),
    );
  let [lines, elsewhere] = [0, 0];
  for (const of of followers) {
    const rows = intents(scene, of);
    for (const name of [of.name, `person-${of.name}`]) {
      const found = missing(w, name, of.path, rows);
      lines += found.total;
      elsewhere += found.elsewhere;
      faults.push(...found.lost.map((line) => `lost: ${of.name}: ${line}`));
    }
    faults.push(...untold(of.log).map((line) => `${of.name}: ${line}`));
  }
  const all = followers.flatMap((of) => intents(scene, of));
  return {
    lines,
    elsewhere,
    intents: all.length,
    payloads: all.filter((row) => row.payload !== null).length,
    restarts: all.filter((row) => row.mode === "RestartStartup").length,
    faults,
  };
}
