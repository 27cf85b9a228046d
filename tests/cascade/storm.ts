/**
 * An operations storm on the real jj: writers who never wait for each other, threads that follow, agents that go on
 * working. What must hold afterwards is counted, not assumed.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createFsEvents } from "../../src/backends/fs-events.ts";
import { HOLD_TEXT } from "../../src/cascade/texts.ts";
import { edges } from "../../src/store/edges.ts";
import { intentsOf, unresolvedIntents } from "../../src/store/intents.ts";
import { frontier, unprocessedOps } from "../../src/store/ops.ts";
import { countedJj, type CountedJj } from "../support/counted-jj.ts";
import { randomOf } from "../support/random.ts";
import { waitFor } from "../support/wait.ts";
import { operationGraph } from "./op-graph.ts";
import { makeRig, type Rig, type TestThread } from "./rig.ts";

export interface StormOptions {
  seed: number;
  /** Operations the writers make at least. */
  operations: number;
  threads: number;
  writers: number;
  /** Of the threads, those that follow another one. */
  children: number;
  /** For all intents to be acknowledged once the writers have stopped. */
  settleMs: number;
  say?: (line: string) => void;
}

export interface StormReport {
  operations: number;
  /** Of them, merges of concurrent ones. */
  merges: number;
  /** Of those, merges of more than two: their parents seldom part at one point. */
  widerMerges: number;
  intents: number;
  acknowledged: number;
  superseded: number;
  /** Parent moves that no child was told of: unresolved work, or a child that does not stand where its parent is. */
  lost: string[];
  /** Intents that were materialised more than once, or whose payload an agent was given more than once. */
  duplicates: string[];
  /** Children whose files are not the parent's and their own. */
  wrongTrees: string[];
  /** Operations in the log that a command of kiki's made which only reads. */
  madeByReading: string[];
  payloads: number;
  /** Calls that waited as long as a call may while jj's views did not meet, and were refused without a payload. */
  heldInVain: number;
  /** When something is not right: the operations around it, as text. */
  graph: string[];
  jjProcesses: number;
  writingSeconds: number;
  settlingSeconds: number;
}

interface Child {
  thread: TestThread;
  parent: TestThread;
  /** What its refused calls said. */
  texts: string[];
}

export async function storm(options: StormOptions): Promise<StormReport> {
  let counted: CountedJj | null = null;
  const rig = await makeRig({
    jjEnv: (repo) => (counted = countedJj(repo.dir, repo.env)).env,
    fsEvents: createFsEvents(),
    settings: { pollMs: 5_000 },
  });
  try {
    return await run(rig, counted!, options);
  } catch (error) {
    const graph = (await operationGraph(rig)).join("\n");
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${graph}`, {
      cause: error,
    });
  } finally {
    await rig.close();
  }
}

async function run(rig: Rig, jj: CountedJj, options: StormOptions): Promise<StormReport> {
  const say = options.say ?? (() => undefined);
  const { parents, children } = await setUp(rig, options);
  watchMaterialisations(rig);
  const start = (await rig.jj.heads())[0]!;
  const known = new Set((await rig.jj.operations(start, 100_000)).map((op) => op.id));
  say(`${parents.length} threads move, ${children.length} follow`);
  jj.reset();

  const clock = performance.now();
  let writing = true;
  const agents = children.map((child, at) => work(rig, child, () => writing, options.settleMs, at));
  const lanes = Array.from({ length: options.writers }, (_, at) =>
    parents.filter((_parent, n) => n % options.writers === at),
  );
  const share = Math.ceil(options.operations / options.writers);
  await Promise.all(lanes.map((lane, at) => write(rig, lane, share, options.seed + at)));
  // Whoever uses jj next merges what ran side by side; until then kiki binds nothing.
  await rig.repo.jj(["log"]);
  writing = false;
  const writingSeconds = (performance.now() - clock) / 1000;
  say(`writers are done after ${writingSeconds.toFixed(1)} s`);
  await Promise.all(agents);
  const settlingSeconds = (performance.now() - clock) / 1000 - writingSeconds;
  const jjProcesses = jj.calls().length;

  const [head] = await rig.cascade.refreshToFrontier();
  const made = (await rig.jj.operations(head!, 100_000)).filter((op) => !known.has(op.id));
  const intents = children.flatMap((c) => intentsOf(rig.db, c.thread.id));
  const own = made.filter((op) => op.args.includes("operation.username=kiki"));
  const told = toldTo(rig, children);
  const report: StormReport = {
    operations: made.length,
    merges: made.filter((op) => op.parents.length > 1).length,
    widerMerges: made.filter((op) => op.parents.length > 2).length,
    intents: intents.length,
    acknowledged: intents.filter((i) => i.state === "Acknowledged").length,
    superseded: intents.filter((i) => i.state === "Superseded").length,
    lost: [...(await lost(rig, children)), ...told.lost],
    duplicates: [...materialisedTwice(rig), ...told.duplicates],
    wrongTrees: (await Promise.all(children.map((c) => wrongTree(rig, c)))).flat(),
    madeByReading: own
      .filter((op) => !op.args.includes("kiki.token="))
      .map((op) => `${op.description}: ${op.args}`),
    payloads: told.payloads,
    heldInVain: told.heldInVain,
    graph: [],
    jjProcesses,
    writingSeconds,
    settlingSeconds,
  };
  const faults = [report.lost, report.duplicates, report.wrongTrees, report.madeByReading].flat();
  return faults.length === 0 ? report : { ...report, graph: await operationGraph(rig) };
}

async function setUp(
  rig: Rig,
  options: StormOptions,
): Promise<{ parents: TestThread[]; children: Child[] }> {
  const parents: TestThread[] = [];
  for (let n = 0; n < options.threads - options.children; n += 1) {
    const thread = await rig.thread(`p${n}`);
    rig.repo.write(`p${n}.txt`, "start\n", thread.path);
    await rig.repo.jj(["status"], thread.path);
    parents.push(thread);
  }
  const children: Child[] = [];
  for (let n = 0; n < options.children; n += 1) {
    const parent = parents[n % parents.length]!;
    const thread = await rig.thread(`c${n}`, parent);
    rig.repo.write(`c${n}.txt`, "mine\n", thread.path);
    await rig.repo.jj(["status"], thread.path);
    children.push({ thread, parent, texts: [] });
  }
  await rig.cascade.refreshToFrontier();
  return { parents, children };
}

/** One person at work in some threads: edits, rewordings, new revisions, bookmarks, as fast as jj allows. */
async function write(
  rig: Rig,
  threads: readonly TestThread[],
  operations: number,
  seed: number,
): Promise<void> {
  const random = randomOf(seed);
  for (let n = 0; n < operations; n += 1) {
    const { path, name } = random.pick(threads);
    const kind = random.below(10);
    if (kind < 5) {
      rig.repo.write(`${name}.txt`, `version ${n}\n`, path);
      await rig.repo.jj(["util", "snapshot"], path);
    } else if (kind < 7) await rig.repo.jj(["describe", "-m", `${name} words ${n}`], path);
    else if (kind < 9) await rig.repo.jj(["new", "-m", `${name} step ${n}`], path);
    else await rig.repo.jj(["bookmark", "create", `mark-${seed}-${n}`, "-r", "@"], path);
  }
}

/** An agent that calls tools all the time, until it has been told everything. */
async function work(
  rig: Rig,
  child: Child,
  writing: () => boolean,
  settleMs: number,
  at: number,
): Promise<void> {
  const agent = rig.agent(child.thread);
  const batch = async (): Promise<void> => {
    const [answer] = await agent.batch();
    if (answer!.text !== null) child.texts.push(answer!.text);
    await Bun.sleep(20 + at * 7);
  };
  while (writing()) await batch();
  await rig.cascade.refreshToFrontier();
  await waitFor(
    async () => {
      await batch();
      return unresolvedIntents(rig.db, child.thread.id).length === 0;
    },
    settleMs,
    () =>
      `${child.thread.name} at rest: ${intentsOf(rig.db, child.thread.id)
        .map((i) => `${i.seq} ${i.state} ${i.reason ?? ""}`)
        .join(", ")}`,
  );
}

/** Counted where it becomes true, in the database itself. */
function watchMaterialisations(rig: Rig): void {
  rig.db.run("CREATE TEMP TABLE materialised (intent_id TEXT)");
  rig.db.run(
    `CREATE TEMP TRIGGER storm_materialised AFTER UPDATE OF state ON main.sync_intents
       WHEN new.state = 'Materialized' AND old.state <> 'Materialized'
     BEGIN INSERT INTO materialised VALUES (new.intent_id); END`,
  );
}

async function lost(rig: Rig, children: readonly Child[]): Promise<string[]> {
  const found: string[] = [];
  if (unprocessedOps(rig.db).length > 0) found.push("operations nobody interpreted");
  if (frontier(rig.db).join() !== (await rig.jj.heads()).join())
    found.push("the frontier is not jj's");
  for (const { thread, parent } of children) {
    const edge = edges(rig.db).find((e) => e.child === thread.id)!;
    const [parentHead, head] = [await rig.head(parent), await rig.head(thread)];
    const [op] = await rig.jj.heads();
    if (edge.lastSynchronized !== parentHead)
      found.push(`${thread.name} was not told of ${parentHead.slice(0, 12)}`);
    if (!(await rig.jj.isAncestor(op!, parentHead, head)))
      found.push(`${thread.name} does not stand on ${parentHead.slice(0, 12)}`);
  }
  return found;
}

function materialisedTwice(rig: Rig): string[] {
  return rig.db
    .query<{ intent_id: string; n: number }, []>(
      "SELECT intent_id, count(*) AS n FROM materialised GROUP BY 1 HAVING n > 1",
    )
    .all()
    .map((r) => `intent ${r.intent_id} was materialised ${r.n} times`);
}

/** Every payload once, and nothing else but the words of a hold that ended first. */
function toldTo(
  rig: Rig,
  children: readonly Child[],
): Pick<StormReport, "lost" | "duplicates" | "payloads" | "heldInVain"> {
  const found = { lost: [] as string[], duplicates: [] as string[], payloads: 0, heldInVain: 0 };
  for (const { thread, texts } of children) {
    const open = texts.filter((text) => text !== HOLD_TEXT);
    found.heldInVain += texts.length - open.length;
    for (const { seq, payload } of intentsOf(rig.db, thread.id)) {
      if (payload === null) continue;
      const times = open.filter((text) => text === payload).length;
      found.payloads += times;
      if (times === 0) found.lost.push(`${thread.name} never got the payload of its intent ${seq}`);
      if (times > 1) found.duplicates.push(`${thread.name} got intent ${seq} ${times} times`);
    }
    const payloads = new Set(intentsOf(rig.db, thread.id).map((intent) => intent.payload));
    for (const text of open.filter((each) => !payloads.has(each)))
      found.duplicates.push(`${thread.name} was told what is no payload: ${text.slice(0, 200)}`);
  }
  return found;
}

async function wrongTree(rig: Rig, { thread, parent }: Child): Promise<string[]> {
  const text = (folder: string, file: string): string | null =>
    existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8") : null;
  const files = [`${parent.name}.txt`, "base.txt"];
  const wrong = files.filter((file) => text(thread.path, file) !== text(parent.path, file));
  if (text(thread.path, `${thread.name}.txt`) !== "mine\n") wrong.push(`${thread.name}.txt`);
  const [op] = await rig.jj.heads();
  const { state } = await rig.jj.probe(thread.path, thread.workspace, op!);
  return [
    ...wrong.map((file) => `${thread.name}: ${file}`),
    ...(state === "FreshClean" ? [] : [`${thread.name} is ${state}`]),
  ];
}
