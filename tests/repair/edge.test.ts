/** `kk repair` of edges that wait for a person, on real jj: what is offered, ids that go stale, what each choice does. */
import { AGREED } from "../lifecycle/rig.ts";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import type { CrashPoints } from "../../src/ports/crash.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { realClock } from "../../src/backends/clock.ts";
import { realIds } from "../../src/backends/ids.ts";
import { REPAIRS } from "../../src/core/plans/repair.ts";
import { planOf } from "../../src/core/plans/template.ts";
import { crashPoints } from "../../src/core/saga.ts";
import { sha256Hex } from "../../src/lifecycle/creation-deps.ts";
import { runSaga } from "../../src/lifecycle/saga-runner.ts";
import { makeEdgeRepairs, type EdgeRepairs } from "../../src/repair/edge-repairs.ts";
import { makeRepairs, type NamedProposal, type Repairs } from "../../src/repair/repairs.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import { approveNextOperation } from "../support/approval.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough, thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { makePair } from "../cascade/pair.ts";
import type { Agent, Rig, TestThread, RigOptions } from "../cascade/rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Desk {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  repairs: Repairs;
  edge: EdgeRepairs;
  amend(): Promise<void>;
}

function deskOf(rig: Rig, crash: CrashPoints = NO_CRASH): Pick<Desk, "repairs" | "edge"> {
  const late: { repairs?: Repairs } = {};
  const edge = makeEdgeRepairs({
    db: rig.db,
    clock: realClock,
    ids: realIds,
    crash,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    troubles: rig.cascade.troubles,
    runSaga: (saga) => runSaga(saga),
    repairHolds: (threadId, id) => late.repairs!.holds(threadId, id),
  });
  const repairs = makeRepairs({ db: rig.db, sha256Hex, repairers: [edge] });
  late.repairs = repairs;
  return { edge, repairs };
}

async function desk(options: RigOptions = {}): Promise<Desk> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return {
    ...pair,
    ...deskOf(pair.rig),
    amend: () => pair.amend("two\n"),
  };
}

const CALLER = { harnessExecutable: null, env: {} };
const intent = (d: Desk) => d.rig.intents(d.child)[0]!;

async function plans(d: Desk): Promise<NamedProposal[]> {
  return (await d.repairs.diagnose(d.child.id)).plans;
}

async function choice(d: Desk, kind: RegExp): Promise<NamedProposal> {
  const all = await plans(d);
  const found = all.find((plan) => kind.test(plan.kind));
  if (found === undefined) throw new Error(`no ${kind} among ${all.map((p) => p.kind).join()}`);
  return found;
}

async function apply(d: Desk, kind: RegExp): Promise<void> {
  const plan = await d.repairs.plan(d.child.id, (await choice(d, kind)).id, CALLER);
  await plan.begin(AGREED);
  await ended(d);
}

async function ended(d: Desk): Promise<void> {
  await waitFor(
    () => latestOperation(d.rig.db, d.child.id)?.state !== "Running",
    20_000,
    "the repair has ended",
  );
}

/** The batch that was blocked is over; at its next call the agent gets the payload. */
async function expectTold(d: Desk): Promise<string> {
  const [told] = await d.agent.batch();
  expect(told!.text).toBe(intent(d).payload);
  expect((await d.agent.call()).text).toBeNull();
  expect(intent(d).state).toBe("Acknowledged");
  expect(d.rig.attention(d.child)).toEqual([]);
  expect(await d.rig.repo.commit("divergent()")).toBe("");
  expect(await plans(d)).toEqual([]);
  return told!.text!;
}

/** The child's revision got content elsewhere while the agent's edits lay unrecorded in its files. */
async function changedElsewhere(d: Desk): Promise<void> {
  d.rig.repo.write("tests.txt", "the agent's\n", d.child.path);
  await d.amend();
  d.rig.repo.write("other.txt", "somebody's\n");
  await d.rig.repo.jj(["squash", "--into", await d.rig.head(d.child), "-m", "mixed"]);
  await d.rig.cascade.refreshToFrontier();
  await d.agent.batch();
  expect(intent(d)).toMatchObject({ state: "RecoveryRequired", recovering: false });
}

describe("edits that could not be recovered by themselves", () => {
  test("changed elsewhere → land, then one plan per copy; the one with the edits is adopted, the other kept in git", async () => {
    const d = await desk();
    await changedElsewhere(d);
    expect((await plans(d)).map((p) => p.kind)).toEqual(["recovery-land", "recovery-retry"]);
    await apply(d, /^recovery-land$/);
    expect(intent(d)).toMatchObject({ state: "RecoveryRequired", recovering: false });
    const copies = (await plans(d)).filter((p) => p.kind.startsWith("recovery-adopt-"));
    expect(copies).toHaveLength(2);
    expect(d.rig.file(d.child, "other.txt")).toBe("somebody's\n");
    const [edits] = copies.filter((p) => p.title.includes("with the edits"));
    const other = copies.find((p) => p !== edits)!;
    await apply(d, new RegExp(edits!.kind));
    const payload = await expectTold(d);
    expect(d.rig.file(d.child, "tests.txt")).toBe("the agent's\n");
    expect(d.rig.file(d.child, "parser.txt")).toBe("two\n");
    const [chosen] = intent(d).recoveryChoice as { by: string; adopted: string }[];
    expect(chosen).toMatchObject({ by: "person", adopted: await d.rig.head(d.child) });
    expect(payload).toContain(intent(d).recoveryBundle!);
    const kept = other.kind.replace("recovery-adopt-", "");
    const refs = await d.rig.repo.git([
      "--git-dir=.jj/repo/store/git",
      "for-each-ref",
      "--format=%(refname)",
      "refs/kiki",
    ]);
    expect(refs).toContain(`refs/kiki/${intent(d).intentId}-${kept}`);
  });

  test("the copy without the edits is chosen → its files, the edits' revision kept in git and in the bundle", async () => {
    const d = await desk();
    await changedElsewhere(d);
    await apply(d, /^recovery-land$/);
    const at = (await d.rig.head(d.child)).slice(0, 12);
    await apply(d, new RegExp(`^recovery-adopt-${at}$`));
    await expectTold(d);
    expect(d.rig.file(d.child, "tests.txt")).toBeNull();
    expect(d.rig.file(d.child, "other.txt")).toBe("somebody's\n");
    expect(readFileSync(`${intent(d).recoveryBundle}/files/tests.txt`, "utf8")).toBe(
      "the agent's\n",
    );
  });

  thorough(
    "several copies, and edits in the files that none of them has → no copy is offered before jj has recorded those",
    async () => {
      const d = await desk();
      await changedElsewhere(d);
      await apply(d, /^recovery-land$/);
      d.rig.repo.write("second.txt", "later\n", d.child.path);
      d.rig.repo.write("parser.txt", "three\n", d.parent.path);
      await d.rig.repo.jj(["status"], d.parent.path);
      await d.rig.cascade.refreshToFrontier();
      expect((await plans(d)).map((p) => p.kind)).toEqual(["recovery-land", "recovery-retry"]);
      await apply(d, /^recovery-land$/);
      const kept: string[] = [];
      for (const { kind } of (await plans(d)).filter((p) => p.kind.startsWith("recovery-adopt-"))) {
        const copy = kind.replace("recovery-adopt-", "");
        const files = await d.rig.repo.jj(["file", "list", "-r", copy], d.parent.path);
        if (files.split("\n").includes("second.txt")) kept.push(copy);
      }
      expect(kept).toHaveLength(1);
      await apply(d, new RegExp(`^recovery-adopt-${kept[0]}$`));
      await expectTold(d);
      expect(d.rig.file(d.child, "second.txt")).toBe("later\n");
      expect(d.rig.file(d.child, "parser.txt")).toBe("three\n");
    },
  );

  test("edits come after a copy was chosen → the choice is not carried out over them", async () => {
    const d = await desk();
    await changedElsewhere(d);
    await apply(d, /^recovery-land$/);
    const at = (await d.rig.head(d.child)).slice(0, 12);
    const plan = await d.repairs.plan(
      d.child.id,
      (await choice(d, new RegExp(`^recovery-adopt-${at}$`))).id,
      CALLER,
    );
    d.rig.repo.write("second.txt", "later\n", d.child.path);
    d.rig.repo.write("parser.txt", "three\n", d.parent.path);
    await d.rig.repo.jj(["status"], d.parent.path);
    await d.rig.cascade.refreshToFrontier();
    await plan.begin(AGREED).catch(() => undefined);
    await ended(d);
    expect(intent(d)).toMatchObject({ state: "RecoveryRequired", recovering: false });
    expect(d.rig.file(d.child, "second.txt")).toBe("later\n");
  });

  thorough(
    "an ignored file is in the way → dropped as chosen, its bytes in the bundle, the rest recovered",
    async () => {
      const d = await desk();
      d.rig.repo.write("out.log", "the agent's log\n", d.child.path);
      d.rig.repo.write("tests.txt", "the agent's\n", d.child.path);
      d.rig.repo.write(".gitignore", "build/\n", d.parent.path);
      d.rig.repo.write("out.log", "the parent's\n", d.parent.path);
      await d.amend();
      await d.agent.batch();
      await apply(d, /^recovery-drop$/);
      await expectTold(d);
      expect(d.rig.file(d.child, "out.log")).toBe("the parent's\n");
      expect(d.rig.file(d.child, "tests.txt")).toBe("the agent's\n");
      expect(readFileSync(`${intent(d).recoveryBundle}/files/out.log`, "utf8")).toBe(
        "the agent's log\n",
      );
    },
  );

  thorough("a person moves the file away and asks once more → recovered", async () => {
    const d = await desk();
    d.rig.repo.write("out.log", "the agent's log\n", d.child.path);
    d.rig.repo.write("tests.txt", "the agent's\n", d.child.path);
    d.rig.repo.write(".gitignore", "build/\n", d.parent.path);
    d.rig.repo.write("out.log", "the parent's\n", d.parent.path);
    await d.amend();
    await d.agent.batch();
    d.rig.repo.remove("out.log", d.child.path);
    await apply(d, /^recovery-retry$/);
    await expectTold(d);
    expect(d.rig.file(d.child, "tests.txt")).toBe("the agent's\n");
  });

  test("the state changes after an id was shown → the id is stale, and nothing is done", async () => {
    const d = await desk();
    await changedElsewhere(d);
    const { id } = await choice(d, /^recovery-land$/);
    expect((await choice(d, /^recovery-land$/)).id).toBe(id);
    const plan = await d.repairs.plan(d.child.id, id, CALLER);
    d.rig.repo.write("tests.txt", "the agent's, later\n", d.child.path);
    expect(await failureOf(d.repairs.plan(d.child.id, id, CALLER))).toMatchObject({
      code: "repair-stale",
    });
    // Chosen before, begun after: the journal's own look refuses it.
    await plan.begin(AGREED);
    await ended(d);
    expect(latestOperation(d.rig.db, d.child.id)).toMatchObject({
      kind: "Repair",
      state: "Failed",
    });
    expect(intent(d).state).toBe("RecoveryRequired");
    expect(d.rig.file(d.child, "tests.txt")).toBe("the agent's, later\n");
  });

  // The others are on the model of the plans (tests/crash); these two lie around what jj does.
  const around = isThorough ? /recover\.(started|effected)/ : /recover\.effected/;
  test.each(crashPoints(planOf(REPAIRS.recoverEdits)).filter((p) => around.test(p)))(
    "daemon dies at %s → the repair goes on after the next start",
    async (name) => {
      const d = await desk();
      await changedElsewhere(d);
      let dead = false;
      const dying = deskOf(d.rig, {
        at(point) {
          if (point === name) dead = true;
          if (dead) throw new Error("killed");
        },
      });
      Object.assign(d, dying);
      const plan = await d.repairs.plan(
        d.child.id,
        (await choice(d, /^recovery-land$/)).id,
        CALLER,
      );
      await plan.begin(AGREED);
      await waitFor(() => dead, 20_000, "it died");
      await d.edge.stop();
      await d.rig.reboot();
      Object.assign(d, deskOf(d.rig));
      d.edge.resumeAll();
      await ended(d);
      expect(latestOperation(d.rig.db, d.child.id)!.state).toBe("Completed");
      expect((await plans(d)).filter((p) => p.kind.startsWith("recovery-adopt-"))).toHaveLength(2);
    },
  );
});

describe("a transition that cannot be followed", () => {
  async function diverged(d: Desk): Promise<void> {
    await d.rig.repo.jj(["edit", "@-"], d.parent.path);
    await d.rig.cascade.refreshToFrontier();
  }

  test("offered: giving it up, and following from the parent's place where the child stands on it; without an approval nothing is done", async () => {
    const d = await desk();
    await diverged(d);
    const open = d.rig.intents(d.child).find((i) => i.state === "TopologyDiverged");
    expect(open).toBeDefined();
    const kinds = (await plans(d)).map((p) => p.kind);
    expect(kinds).toContain("transition-discard");
    expect(kinds).toContain("transition-reanchor");
    await apply(d, /^transition-reanchor$/);
    expect(latestOperation(d.rig.db, d.child.id)).toMatchObject({ state: "Failed" });
    expect(latestOperation(d.rig.db, d.child.id)!.error).toContain("approval");
    expect(d.rig.intents(d.child).some((i) => i.state === "TopologyDiverged")).toBe(true);
  });

  test("re-anchored under an approval → the edge follows from there, the intent is given up", async () => {
    const d = await desk();
    await diverged(d);
    const found = d.rig.intents(d.child).find((i) => i.state === "TopologyDiverged")!;
    const { id } = await choice(d, /^transition-reanchor$/);
    const plan = await d.repairs.plan(d.child.id, id, CALLER);
    // What the claim of an approval leaves behind, in the transaction of the journal.
    approveNextOperation(d.rig.db);
    await plan.begin(AGREED);
    await ended(d);
    expect(latestOperation(d.rig.db, d.child.id)).toMatchObject({ state: "Completed" });
    const now = d.rig.intents(d.child).find((i) => i.intentId === found.intentId)!;
    expect(now.state).toBe("Acknowledged");
    const edge = d.rig.db
      .query<{ at: string }, [string]>(
        "SELECT last_synchronized_parent_commit_id AS at FROM thread_links WHERE child_thread_id = ?",
      )
      .get(d.child.id);
    expect(edge!.at).toBe(await d.rig.head(d.parent));
    expect(d.rig.attention(d.child)).toEqual([]);
    expect(existsSync(d.child.path)).toBe(true);
  });
});
