/**
 * Reading what happened: a daemon that comes back to many operations (linear in their number, few jj processes each),
 * and one operation of somebody else's until its intent is durable, against two bare jj reads.
 */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../src/backends/jj/backend.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { makeRig, type Rig, type TestThread } from "../../tests/cascade/rig.ts";
import { countedJj, type CountedJj } from "../../tests/support/counted-jj.ts";
import { randomOf } from "../../tests/support/random.ts";
import { removeTempDirs } from "../../tests/support/temp.ts";
import { floorRow, percentile, ratioRow, type Row } from "./stats.ts";

const OPERATIONS = 1_000;
const WORKSPACES = 20;
const FOLLOWERS = 5;
/** How far behind a database is, as shares of all operations. */
const SHARES = [1, 0.5, 0.25];
const CATCH_UPS = 3;
const MAX_SAMPLES = 40;
/** Per operation, compared with a quarter as many: what is linear stays at 1. */
const LINEAR = { median: 1.5 };
const ONE_TARGET = { median: 2 };

export async function catchupBench(options: { samples: number }): Promise<Row[]> {
  let counted: CountedJj | null = null;
  const rig = await makeRig({
    jjEnv: (repo) => (counted = countedJj(repo.dir, repo.env)).env,
  });
  try {
    const threads = await population(rig);
    const one = await oneOperation(rig, threads[0]!, Math.min(options.samples, MAX_SAMPLES));
    return [...one, ...(await catchUps(rig, counted!, threads))];
  } finally {
    await rig.close();
    removeTempDirs();
  }
}

async function population(rig: Rig): Promise<TestThread[]> {
  const parents: TestThread[] = [];
  for (let n = 0; n < WORKSPACES - FOLLOWERS; n += 1) parents.push(await rig.thread(`p${n}`));
  for (let n = 0; n < FOLLOWERS; n += 1) await rig.thread(`c${n}`, parents[n]);
  await rig.cascade.refreshToFrontier();
  return parents;
}

async function oneOperation(rig: Rig, parent: TestThread, samples: number): Promise<Row[]> {
  // Without the counting shell in front.
  const plain = createJj({ env: rig.repo.env }).open(rig.jj.location, join(rig.repo.dir, "unused"));
  const [reads, whole]: [number[], number[]] = [[], []];
  for (let n = 0; n < samples; n += 1) {
    await rig.repo.jj(["describe", "-m", `one ${n}`], parent.path);
    const [op] = await plain.heads();
    const began = performance.now();
    await plain.operations(op!, 64);
    await plain.commits(op!, "working_copies()");
    const read = performance.now();
    await rig.cascade.refreshToFrontier();
    reads.push(read - began);
    whole.push(performance.now() - read);
  }
  const floor = floorRow("2 jj reads (op log, log)", reads);
  return [floor, ratioRow("one operation → intent, after the debounce", whole, floor, ONE_TARGET)];
}

async function catchUps(
  rig: Rig,
  counted: CountedJj,
  threads: readonly TestThread[],
): Promise<Row[]> {
  const behind = new Map<number, string>();
  const random = randomOf(1);
  const starts = new Map(SHARES.map((share) => [OPERATIONS - OPERATIONS * share, share]));
  for (let n = 0; n < OPERATIONS; n += 1) {
    const share = starts.get(n);
    if (share !== undefined) {
      await rig.cascade.refreshToFrontier();
      const copy = join(rig.stateDir, `behind-${share}.db`);
      rig.db.query("VACUUM INTO $copy").run({ copy });
      behind.set(share, copy);
    }
    const { path } = random.pick(threads);
    // One operation each; two of three move a thread that a third of the others' followers stand on.
    if (random.below(3) === 0) await rig.repo.jj(["bookmark", "create", `m${n}`, "-r", "@"], path);
    else await rig.repo.jj(["describe", "-m", `words ${n}`], path);
  }
  const rows: Row[] = [];
  let smallest: Row | null = null;
  for (const share of [...SHARES].reverse()) {
    const count = OPERATIONS * share;
    const times: number[] = [];
    const processes: number[] = [];
    for (let n = 0; n < CATCH_UPS; n += 1) {
      const file = join(rig.stateDir, `run-${share}-${n}.db`);
      copyFileSync(behind.get(share)!, file);
      const db = openRepoDb(file);
      const cascade = rig.cascadeOn(db);
      counted.reset();
      const began = performance.now();
      await cascade.refreshToFrontier();
      times.push((performance.now() - began) / count);
      processes.push(counted.calls().length / count);
      db.close();
    }
    const each = percentile(processes, 0.5).toFixed(2);
    const what = `catch-up of ${count} operations, each (${each} jj processes)`;
    const row: Row =
      smallest === null ? floorRow(what, times) : ratioRow(what, times, smallest, LINEAR);
    smallest ??= row;
    rows.push(row);
  }
  return rows;
}
