/**
 * `kk repair --apply` of what a cascade leaves to a person, through the whole binary: real jj, real tmux, the scripted
 * agent, and a person who says yes on a terminal. Afterwards the agent goes on.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Output } from "../../src/rpc/contract/methods.ts";
import {
  acknowledged,
  amend,
  commitOf,
  detected,
  expectAtRest,
  homeOf,
  inDb,
  intents,
  newFollower,
  newThread,
  onDisk,
  reached,
  story,
  type Family,
  type Follower,
  type Home,
  type Thread,
} from "../support/family.ts";
import { bash, moments, read, say, touch, wait } from "../support/scenario.ts";
import { initialised, type World } from "../support/world.ts";
import { waitFor } from "../support/wait.ts";

setDefaultTimeout(120_000);
let w: World;
let home: Home;
let parent: Thread;

beforeAll(async () => {
  w = await initialised({ colocated: true });
  mkdirSync(w.stateDir, { recursive: true });
  // One replacement of an agent that could not be told, instead of three.
  writeFileSync(join(w.stateDir, "config.toml"), "[cascade]\nattempts = 1\n");
  home = homeOf(w, w.repo);
  parent = await newThread(home, "parser");
  w.repo.write("parser.ts", "v1\n", parent.path);
  await w.repo.jj(["describe", "--quiet", "-m", "parser"], parent.path);
});
afterAll(() => w.close());

type Diagnosis = Output<"DiagnoseRepair">["diagnoses"][number];

/** What `kk repair` offers of this kind, carried out by a person on a terminal of their own. */
async function repair({ name }: Thread, kind: string): Promise<string> {
  const { stdout } = await w.kk(["repair", name, "--json"]);
  const { diagnoses } = JSON.parse(stdout) as { diagnoses: Diagnosis[] };
  const plan = diagnoses.flatMap((d) => d.plans).find((p) => p.kind === kind);
  expect([kind, plan === undefined ? stdout : "offered"]).toEqual([kind, "offered"]);
  const { code, screen } = await w.kkOnTerminal(["repair", name, "--apply", plan!.id], "y");
  expect([code, code === 0 ? "" : screen]).toEqual([0, ""]);
  return screen;
}

const familyOf = (child: Follower): Family => ({
  ...home,
  parent,
  child,
  go: () => w.raise(`${child.name}-go`),
});

/** Pid of the newest incarnation that has not been retired. */
function agent(of: Thread): number | null {
  return inDb(
    home,
    (db) =>
      db
        .query<{ pid: number }, [string]>(
          "SELECT pid FROM agent_sessions WHERE thread_id = ? AND retired_at IS NULL",
        )
        .get(of.id)?.pid ?? null,
  );
}

function sessions(of: Thread): number {
  return inDb(
    home,
    (db) =>
      db
        .query<{ n: number }, [string]>(
          "SELECT count(*) AS n FROM agent_sessions WHERE thread_id = ?",
        )
        .get(of.id)!.n,
  );
}

/** A follower that was told, died of it, and whose one replacement died as well. */
async function exhausted(name: string, version: string): Promise<Follower> {
  const child = await newFollower(
    home,
    name,
    "parser",
    [
      [touch(w.signal(`${name}-ready`)), wait(w.signal(`${name}-go`)), read("a1", "parser.ts")],
      [touch(w.signal(`${name}-told`)), wait(w.signal("never")), say("never said")],
    ],
    [
      [touch(w.signal(`${name}-again`)), wait(w.signal(`${name}-alive`)), read("r1", "parser.ts")],
      [bash("r2", "cp parser.ts seen.txt"), bash("r3", "jj status")],
      [say("done")],
    ],
  );
  await reached(home, `${name}-ready`);
  await amend({ ...home, parent }, { "parser.ts": version });
  const f = familyOf(child);
  await detected(f);
  f.go();
  await reached(home, `${name}-told`);
  process.kill(agent(child)!, "SIGKILL");
  await reached(home, `${name}-again`);
  const second = await waitFor(() => sessions(child) === 2 && agent(child), 30_000, "replaced");
  process.kill(second, "SIGKILL");
  await waitFor(
    async () => (await w.kk(["repair", name])).code === 6,
    30_000,
    () => `exhausted\n${story(home)}`,
  );
  expect((await w.kk(["status", name, "--no-jj"])).stdout).toContain(`kk repair ${name}`);
  w.raise(`${name}-alive`);
  return child;
}

test("exhausted delivery, retry-delivery approved → one more agent, told by its first input, acknowledges and works on", async () => {
  const child = await exhausted("retried", "v2\n");
  const [intent] = intents(home, child);
  await repair(child, "retry-delivery");
  await acknowledged(home, child, 1);
  const prompts = (moments(child.log) as { kind: string; prompt?: string }[]).filter(
    (m) => m.kind === "prompt",
  );
  expect(prompts.at(-1)!.prompt).toStartWith(intent!.payload!);
  await waitFor(() => onDisk(child, "seen.txt") === "v2\n", 30_000, "the agent goes on");
  expect(sessions(child)).toBe(3);
  await waitFor(
    async () => (await w.state("retried")).summary.agent === "finished",
    30_000,
    "its turn ended",
  );
  await expectAtRest(home, child);
});

test("exhausted delivery, discard-delivery approved → acknowledged without proof, and an agent that is there again and works", async () => {
  const child = await exhausted("discarded", "v3\n");
  await repair(child, "discard-delivery");
  const [intent] = await acknowledged(home, child, 1);
  expect(intent!.receipt).not.toBe("matching");
  const row = inDb(home, (db) =>
    db
      .query<{ resolution: string | null }, [string]>(
        "SELECT discard_approval_id AS resolution FROM sync_intents WHERE intent_id = ?",
      )
      .get(intent!.id),
  );
  expect(row!.resolution).not.toBeNull();
  await waitFor(
    () => agent(child) !== null,
    30_000,
    () => `an agent\n${story(home)}`,
  );
});

test("parent went back: diverged, transition-discard approved → calls pass all the time; what the parent does next is told", async () => {
  const child = await newFollower(home, "diverged", "parser", [
    [touch(w.signal("diverged-ready")), wait(w.signal("diverged-go")), bash("d1", "touch ran-d1")],
    [touch(w.signal("passed")), wait(w.signal("more")), read("d2", "parser.ts")],
    [bash("d3", "cp parser.ts seen.txt"), bash("d4", "jj status")],
    [say("done")],
  ]);
  await reached(home, "diverged-ready");
  const f = familyOf(child);
  const stood = await commitOf(home, parent);
  await w.repo.jj(["edit", "--quiet", `${stood}-`, "--ignore-immutable"], parent.path);
  await waitFor(
    () => intents(home, child).some((i) => i.state === "TopologyDiverged"),
    30_000,
    () => `diverged\n${story(home)}`,
  );
  f.go();
  await reached(home, "passed");
  expect(onDisk(child, "ran-d1")).toBe("");
  await repair(child, "transition-discard");
  await w.repo.jj(["edit", "--quiet", stood], parent.path);
  await amend(f, { "parser.ts": "v4\n" });
  await detected(f);
  w.raise("more");
  await waitFor(
    () => onDisk(child, "seen.txt") === "v4\n",
    60_000,
    () => story(home),
  );
  expect((await w.kk(["repair", "diverged"])).code).toBe(0);
});
