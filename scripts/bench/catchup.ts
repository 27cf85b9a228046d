/**
 * Reading what happened: a daemon that comes back to many operations (linear in their number, few jj processes each),
 * and one operation of somebody else's until its intent is durable, against two bare jj reads.
 */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { createJj } from "../../src/backends/jj/backend.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { makeRig, type Rig, type TestThread } from "../../tests/cascade/rig.ts";
import { countedJj } from "../../tests/support/counted-jj.ts";
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
  const rig = await makeRig();
  try {
    const threads = await population(rig);
    const one = await oneOperation(rig, threads[0]!, Math.min(options.samples, MAX_SAMPLES));
    return [...one, ...(await catchUps(rig, threads))];
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
  // An opened repository of its own: kiki's keeps what it was told of commits.
  const bare = createJj({ env: rig.repo.env }).open(rig.jj.location, join(rig.repo.dir, "unused"));
  const [reads, whole]: [number[], number[]] = [[], []];
  for (let n = 0; n < samples; n += 1) {
    await rig.repo.jj(["describe", "-m", `one ${n}`], parent.path);
    const [op] = await rig.jj.heads();
    const began = performance.now();
    await bare.operations(op!, 64);
    await bare.commits(op!, "working_copies()");
    const read = performance.now();
    await rig.cascade.refreshToFrontier();
    reads.push(read - began);
    whole.push(performance.now() - read);
  }
  const floor = floorRow("2 jj reads (op log, log)", reads);
  return [floor, ratioRow("one operation → intent, after the debounce", whole, floor, ONE_TARGET)];
}

async function catchUps(rig: Rig, threads: readonly TestThread[]): Promise<Row[]> {
  const counted = countedJj(rig.repo.dir, rig.repo.env);
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
    const at = `${random.pick(threads).workspace}@`;
    // One operation each; two of three move a thread that a third of the others' followers stand on. No file is looked
    // at: it takes jj half as long.
    const what =
      random.below(3) === 0
        ? ["bookmark", "create", `m${n}`, "-r", at]
        : ["describe", "-m", `words ${n}`, "-r", at];
    await rig.repo.jj(["--ignore-working-copy", ...what]);
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
      // A daemon that has just started: nothing is known of any commit.
      const jj = createJj({ env: counted.env }).open({ ...rig.jj.location }, rig.stateDir);
      const cascade = rig.cascadeOn(db, jj);
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
