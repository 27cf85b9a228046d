/**
 * Agents that wait for a person, through the whole binary: real jj, real tmux, the scripted agent, and a person who runs
 * `kk repair --apply` on a terminal.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { Database } from "bun:sqlite";
import type { Output } from "../../src/rpc/contract/methods.ts";
import { bash, read, say, touch, wait, write } from "../support/scenario.ts";
import { runInPane } from "../support/tmux.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor, waitForContent } from "../support/wait.ts";

setDefaultTimeout(120_000);
const worlds: World[] = [];
afterAll(async () => {
  for (const w of worlds) await w.close();
});

type Diagnosis = Output<"DiagnoseRepair">["diagnoses"][number];

interface Family {
  w: World;
  child: string;
  /** Of the child's newest incarnation. */
  pid(): number;
  state(): string;
}

/** A child at its second response, and a parent that has moved with `parent`. */
async function family(
  parent: readonly unknown[],
  child: { first: string; later: readonly unknown[][]; resumed?: readonly unknown[] },
): Promise<Family> {
  const w = await initialised({
    colocated: true,
    files: { "base.txt": "base\n", ".gitignore": "*.log\n" },
  });
  worlds.push(w);
  const of = w.scenario("parent", {
    responses: [
      [write("p1", "parser.ts", "v1\n"), bash("p2", "jj describe -m parser")],
      [touch(w.signal("parent-ready")), wait(w.signal("amend")), ...parent],
      [bash("p9", "jj status")],
      [say("done")],
    ],
  });
  const script = w.scenario("child", {
    responses: [
      [bash("c1", child.first), bash("c2", "jj describe -m tests")],
      [touch(w.signal("child-ready")), wait(w.signal("go")), read("c3", "parser.ts")],
      ...child.later,
    ],
    resumed: child.resumed ?? [],
  });
  await w.newThread(["parser", "-m", of]);
  await waitFor(() => existsSync(w.signal("parent-ready")), 60_000, "parent's first revision");
  await w.newThread(["tests", "--follows", "parser", "-m", script]);
  await waitFor(() => existsSync(w.signal("child-ready")), 60_000, "child's first revision");
  w.raise("amend");
  await waitFor(
    async () => (await w.state("tests")).intents.some((i) => i.state === "Detected"),
    60_000,
    "a detected intent",
  );
  w.raise("go");
  const { workspacePath, summary } = await w.state("tests");
  const [repo] = new Database(join(w.stateDir, "state.db"), { readonly: true })
    .query<{ id: string }, []>("SELECT repo_id AS id FROM repos")
    .all();
  const db = new Database(join(w.stateDir, "repos", repo!.id, "state.db"), { readonly: true });
  const newest = "SELECT pid FROM agent_sessions WHERE thread_id = ? ORDER BY rowid DESC LIMIT 1";
  return {
    w,
    child: workspacePath,
    pid: () => db.query<{ pid: number }, [string]>(newest).get(summary.threadId)!.pid,
    state: () => db.query<{ state: string }, []>("SELECT state FROM sync_intents").get()!.state,
  };
}

/** `T`: stopped. */
function stateOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3);
}

/** What `kk repair` offers whose name begins with `kind`, carried out by a person on a terminal of their own. */
async function repair({ w }: Family, kind: string): Promise<string> {
  const { stdout } = await w.kk(["repair", "tests", "--json"]);
  const { diagnoses } = JSON.parse(stdout) as { diagnoses: Diagnosis[] };
  const plan = diagnoses.flatMap((d) => d.plans).find((r) => r.kind.startsWith(kind))!;
  const pane = runInPane({
    socket: w.tmux.socket,
    env: w.env,
    cwd: w.repo.root,
    command: ["kk", "repair", "tests", "--apply", plan.id],
    outside: true,
  });
  await pane.waitForText(/\[y\/N\]/, 60_000);
  pane.type("y");
  pane.enter();
  expect({ code: await pane.exitCode(60_000), text: pane.history() }).toMatchObject({ code: 0 });
  return pane.history();
}

const reaches = (f: Family, state: string) =>
  waitFor(
    () => f.state() === state,
    60_000,
    () => `${state}, not ${f.state()}\n${readFileSync(join(f.w.stateDir, "kkd.log"), "utf8")}`,
  );

test("recovery that only a person can decide → agent stopped and said to be, approved plan, the same process goes on and is told", async () => {
  const f = await family([bash("p4", "printf 'build/\\n' >.gitignore; echo theirs >out.log")], {
    first: "echo mine >out.log",
    later: [[read("c4", "parser.ts")], [bash("c5", "cp out.log seen.txt")], [say("done")]],
  });
  await reaches(f, "RecoveryRequired");
  const pid = f.pid();
  await waitFor(() => stateOf(pid) === "T", 20_000, "the agent stands still");
  const status = (await f.w.kk(["status", "tests", "--no-jj"])).stdout;
  expect(status).toContain("paused until you decide");
  expect(status).toContain("kk repair tests");
  await repair(f, "recovery-drop");
  await reaches(f, "Acknowledged");
  expect(f.pid()).toBe(pid);
  await waitForContent(join(f.child, "seen.txt"), "theirs\n", 60_000);
  expect((await f.w.state("tests")).attention).toEqual([]);
});
