/** Repair of creations that failed: what is shown, made once more, given up; stale ids; daemons that die meanwhile. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { short } from "../../src/core/ids.ts";
import { REPAIRS } from "../../src/core/plans/repair.ts";
import { planOf } from "../../src/core/plans/template.ts";
import { crashPoints } from "../../src/core/saga.ts";
import type { RepairCaller } from "../../src/repair/repairs.ts";
import { openAttention } from "../../src/store/attention.ts";
import { threadCredential } from "../../src/store/credentials.ts";
import { latestOperation, latestOperationOf } from "../../src/store/lifecycle-ops.ts";
import { allThreads } from "../../src/store/threads.ts";
import { AGREED, inputFor, pathsFor, Rig } from "../lifecycle/rig.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";

const folder = tempDir("creation-repair");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

const CALLER: RepairCaller = {
  harnessExecutable: "/opt/new/claude",
  env: { PATH: "/usr/bin", HOME: "/home/ana", ANTHROPIC_API_KEY: "sk-2", KIKI_THREAD_ID: "other" },
};

/** A thread whose agent ended at once. With `stuck`, its tmux session could not be killed, so undoing stopped there. */
async function failed(stuck = false): Promise<string> {
  rig = new Rig(folder);
  rig.agent = "exit-1";
  if (stuck) rig.tmux.lost.set("killSession", "not-done");
  const { threadId } = await rig.made(inputFor("parser"));
  expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
  rig.agent = "ready";
  return threadId;
}

async function choice(threadId: string, kind: string): Promise<string> {
  const { plans } = await rig.repairs.diagnose(threadId);
  const found = plans.find((plan) => plan.kind === kind);
  if (found === undefined) throw new Error(`no ${kind} among ${plans.map((p) => p.kind).join()}`);
  return found.id;
}

async function apply(threadId: string, kind: string): Promise<void> {
  const plan = await rig.repairs.plan(threadId, await choice(threadId, kind), CALLER);
  await plan.begin(AGREED);
}

/** Until nothing runs any more, whatever dies on the way. */
async function settled(threadId: string): Promise<void> {
  await rig.until(() => {
    if (!rig.alive) rig.boot();
    return latestOperation(rig.db, threadId)?.state !== "Running";
  }, "everything ended");
}

function expectNothingLeft(threadId: string): void {
  const paths = pathsFor(threadId);
  expect(rig.jj.at("kk-parser")).toBeNull();
  expect(rig.jj.bookmark("kk/parser")).toBeNull();
  expect(rig.files.kindNow("/src/calc-kiki-parser")).toBe("absent");
  expect(rig.tmux.sessions).toEqual([]);
  expect(threadCredential(rig.db, threadId)).toBeNull();
  expect(rig.files.below(paths.root).filter((file) => file.includes(threadId))).toEqual([]);
  expect(rig.liveTokens()).toBe(0);
}

function expectActive(threadId: string): void {
  expect(rig.thread(threadId).lifecycle).toBe("Active");
  expect(rig.jj.at("kk-parser")).toBe(rig.thread(threadId).head);
  expect(rig.jj.bookmark("kk/parser")).toBe(rig.thread(threadId).checkpoint);
  expect(rig.tmux.sessions.map((s) => s.name)).toEqual(["kk-aaaaaaaa-parser"]);
  expect(openAttention(rig.db, threadId)).toEqual([]);
  // Nothing of the person's environment is kept beside the thread's own file.
  const kept = rig.files.below(pathsFor(threadId).root).filter((file) => file.includes("retry"));
  expect(kept).toEqual([]);
}

describe("diagnosis", () => {
  test("diagnose: creation undone completely → recorded, observed, two plans; looking changes nothing", async () => {
    const threadId = await failed();
    const before = rig.jj.head;
    const found = await rig.repairs.diagnose(threadId);
    expect(found.needsRepair).toBe(true);
    expect(found.authority.map((f) => [f.name, f.ok])).toEqual([
      ["lifecycle", false],
      ["failed because", null],
      ["left to undo", true],
    ]);
    expect(found.observed.map((f) => `${f.name}: ${f.value}`)).toEqual([
      "jj workspace: none",
      "folder: none",
      "bookmark: none",
      "tmux session: none",
      "credential: none",
      "processes: none",
    ]);
    expect(found.plans.map((plan) => plan.kind)).toEqual(["creation-retry", "creation-cleanup"]);
    expect(await rig.repairs.diagnose(threadId)).toEqual(found);
    expect(rig.jj.head).toBe(before);
  });

  test("diagnose: an Active thread → nothing to repair", async () => {
    rig = new Rig(folder);
    const { threadId } = await rig.made(inputFor("parser"));
    expect(await rig.repairs.diagnose(threadId)).toMatchObject({ needsRepair: false, plans: [] });
  });

  test("diagnose: something of a person's is in the way → no retry, and why; cleaning up says what stays", async () => {
    const threadId = await failed();
    rig.files.put("/src/calc-kiki-parser/notes.txt", "mine");
    const { notes, plans } = await rig.repairs.diagnose(threadId);
    expect(notes).toEqual([
      "it cannot be made once more: /src/calc-kiki-parser is there and not kiki's alone; move it away first",
    ]);
    expect(plans.map((plan) => plan.kind)).toEqual(["creation-cleanup"]);
    expect(plans[0]!.changes.at(-1)).toBe("/src/calc-kiki-parser stays: it is not kiki's alone");
  });

  test("id: state changed since → stale, refused by name; changed back → the same id again", async () => {
    const threadId = await failed();
    const id = await choice(threadId, "creation-cleanup");
    rig.files.put("/src/calc-kiki-parser/notes.txt", "mine");
    expect(await choice(threadId, "creation-cleanup")).not.toBe(id);
    expect(await failureOf(rig.repairs.plan(threadId, id, CALLER))).toMatchObject({
      code: "repair-stale",
      kind: "needsRepair",
    });
    await rig.files.removeTree("/src/calc-kiki-parser");
    expect(await choice(threadId, "creation-cleanup")).toBe(id);
  });

  test("id: another thread's → refused", async () => {
    const threadId = await failed();
    const other = await rig.made(inputFor("other"));
    const id = await choice(threadId, "creation-cleanup");
    expect(await failureOf(rig.repairs.plan(other.threadId, id, CALLER))).toMatchObject({
      code: "repair-stale",
    });
  });
});

describe("retry", () => {
  test("retry: same id, same name, fresh journal → Active, with this terminal's program and environment", async () => {
    const threadId = await failed();
    const first = latestOperation(rig.db, threadId)!.operationId;
    await apply(threadId, "creation-retry");
    await settled(threadId);
    expectActive(threadId);
    expect(allThreads(rig.db).map((t) => [t.threadId, t.name])).toEqual([[threadId, "parser"]]);
    const again = latestOperationOf(rig.db, threadId, "Create")!;
    expect(again.operationId).not.toBe(first);
    expect(again.state).toBe("Completed");
    const request = rig.harness.requests.at(-1)!;
    expect(request).toMatchObject({ prompt: "write the lexer", executable: "/opt/new/claude" });
    expect(request.env).toEqual({
      PATH: "/usr/bin",
      HOME: "/home/ana",
      ANTHROPIC_API_KEY: "sk-2",
    });
  });

  test("retry: base moved meanwhile → the plan shows the new one, and it is used", async () => {
    const threadId = await failed();
    const before = await choice(threadId, "creation-retry");
    rig.jj.amend("default", { "a.txt": "1" });
    const moved = rig.jj.at("default")!;
    const id = await choice(threadId, "creation-retry");
    expect(id).not.toBe(before);
    const plan = await rig.repairs.plan(threadId, id, CALLER);
    expect(plan.textFor(80)).toContain('Make thread "parser" once more');
    expect(plan.textFor(80)).toContain(short(moved));
    await plan.begin(AGREED);
    await settled(threadId);
    expect(rig.thread(threadId).base).toBe(moved);
  });

  test("retry: followed parent is gone → not offered, and why", async () => {
    rig = new Rig(folder);
    await rig.made(inputFor("base"));
    rig.agent = "exit-1";
    const { threadId } = await rig.made(inputFor("parser", { follows: "base" }));
    rig.db.run("UPDATE threads SET lifecycle = 'ClosePreflight' WHERE name = 'base'");
    const { notes, plans } = await rig.repairs.diagnose(threadId);
    expect(notes[0]).toContain('it followed "base", which is ClosePreflight now');
    expect(plans.map((plan) => plan.kind)).toEqual(["creation-cleanup"]);
  });

  test("retry: undoing had stopped half-way → first undone to its end, then made", async () => {
    const threadId = await failed(true);
    expect(rig.tmux.sessions).toHaveLength(1);
    const { authority, plans } = await rig.repairs.diagnose(threadId);
    expect(authority.at(-1)).toMatchObject({ name: "left to undo", ok: false });
    expect(plans[0]!.changes[0]).toStartWith("undo what is left: session, ");
    await apply(threadId, "creation-retry");
    await settled(threadId);
    expectActive(threadId);
  });

  test("retry: fails again → CreateFailed with the new error, repairable again, nothing left", async () => {
    const threadId = await failed();
    rig.agent = "exit-1";
    await apply(threadId, "creation-retry");
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    rig.agent = "ready";
    await apply(threadId, "creation-retry");
    await settled(threadId);
    expectActive(threadId);
  });

  test("retry: late handshake of the incarnation that failed → does not make it Active", async () => {
    const threadId = await failed();
    const old = rig.spawned[0]!;
    rig.agent = "silent";
    await apply(threadId, "creation-retry");
    await rig.until(() => rig.spawned.length === 2, "the new agent");
    await rig.creation.sessionStarted(old, "late");
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    await rig.creation.sessionStarted(rig.spawned[1]!, "conversation");
    await settled(threadId);
    expectActive(threadId);
  });
});

describe("clean-up", () => {
  test("clean-up: nothing left → tombstone; the name is free at once, whole and unchanged", async () => {
    const threadId = await failed();
    await apply(threadId, "creation-cleanup");
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Destroyed");
    expectNothingLeft(threadId);
    expect(openAttention(rig.db, threadId)).toEqual([]);
    const again = await rig.made(inputFor("parser"));
    expect([again.name, again.slug, again.lifecycle]).toEqual(["parser", "parser", "Active"]);
    expect(again.threadId).not.toBe(threadId);
  });

  test("clean-up: undoing had stopped half-way → undone to its end first", async () => {
    const threadId = await failed(true);
    await apply(threadId, "creation-cleanup");
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Destroyed");
    expectNothingLeft(threadId);
  });

  test("clean-up: it still cannot be undone → repair fails, thread stays CreateFailed, nothing claimed; later it works", async () => {
    const threadId = await failed(true);
    rig.tmux.lost.set("killSession", "not-done");
    await apply(threadId, "creation-cleanup");
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(latestOperation(rig.db, threadId)).toMatchObject({ kind: "Repair", state: "Failed" });
    expect(openAttention(rig.db, threadId).map((a) => a.kind)).toContain("repair-failed");
    await apply(threadId, "creation-cleanup");
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Destroyed");
    expectNothingLeft(threadId);
  });

  test("clean-up: state changes between the plan and its start → repair fails as stale, nothing removed", async () => {
    const threadId = await failed();
    const id = await choice(threadId, "creation-cleanup");
    const plan = await rig.repairs.plan(threadId, id, CALLER);
    rig.files.put("/src/calc-kiki-parser/notes.txt", "mine");
    await plan.begin(AGREED);
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.error(threadId)).toContain("not the state the repair was made for");
    expect(rig.files.get("/src/calc-kiki-parser/notes.txt")).toBe("mine");
  });

  test("clean-up: two at once → one runs, the other is refused", async () => {
    const threadId = await failed(true);
    const id = await choice(threadId, "creation-cleanup");
    const plans = await Promise.all([
      rig.repairs.plan(threadId, id, CALLER),
      rig.repairs.plan(threadId, id, CALLER),
    ]);
    await plans[0].begin(AGREED);
    expect(await failureOf(plans[1].begin(AGREED))).toMatchObject({ code: "repair-stale" });
    await settled(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Destroyed");
  });
});

describe("daemon dies during a repair", () => {
  for (const [kind, template] of [
    ["creation-retry", "retryCreation"],
    ["creation-cleanup", "cleanUpCreation"],
  ] as const) {
    for (const point of crashPoints(planOf(REPAIRS[template]!))) {
      test(`${kind}: daemon dies at ${point} → goes on after restart to its end`, async () => {
        const threadId = await failed(true);
        rig.crashAt = point;
        await apply(threadId, kind);
        await settled(threadId);
        expect(rig.crashAt).toBeNull();
        if (kind === "creation-retry") expectActive(threadId);
        else {
          expect(rig.thread(threadId).lifecycle).toBe("Destroyed");
          expectNothingLeft(threadId);
        }
      });
    }
  }
});

describe("beginning", () => {
  const kept = (threadId: string): (string | null)[] =>
    rig.files
      .below(pathsFor(threadId).root)
      .filter((file) => file.includes("retry"))
      .map((file) => rig.files.get(file));

  test("retry: approval cannot be spent any more → that error, nothing of the person's environment kept", async () => {
    const threadId = await failed();
    const plan = await rig.repairs.plan(threadId, await choice(threadId, "creation-retry"), CALLER);
    const expired = () => {
      throw new Error("expired");
    };
    expect(String(await failureOf(plan.begin(expired)))).toContain("expired");
    expect(kept(threadId)).toEqual([]);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
  });

  test("retry: the same one begun twice at once, from two terminals → the first one's environment counts", async () => {
    const threadId = await failed();
    const id = await choice(threadId, "creation-retry");
    const other = { ...CALLER, env: { PATH: "/other" } };
    const plans = [
      await rig.repairs.plan(threadId, id, CALLER),
      await rig.repairs.plan(threadId, id, other),
    ];
    const begun = await Promise.allSettled(plans.map((plan) => plan.begin(AGREED)));
    expect(begun.map((end) => end.status)).toEqual(["fulfilled", "rejected"]);
    await settled(threadId);
    expect(rig.files.get(`${pathsFor(threadId).harness}/env.json`)).toContain("sk-2");
    expectActive(threadId);
  });
});

describe("folders of creations that never began", () => {
  test("boot: an environment file without a row → removed; those of threads → stay", async () => {
    rig = new Rig(folder);
    const { threadId } = await rig.made(inputFor("parser"));
    const orphan = pathsFor("12345678-1234-4123-8123-123456789abc").harness;
    rig.files.put(`${orphan}/env.json`, "{}");
    const stash = `${pathsFor(threadId).harness}.retry.json`;
    rig.files.put(stash, "{}");
    rig.kill();
    rig.boot();
    await rig.until(() => rig.files.kindNow(orphan) === "absent", "the orphan is gone");
    await rig.until(() => rig.files.get(stash) === null, "what a repair had kept aside is gone");
    expect(rig.files.get(`${pathsFor(threadId).harness}/env.json`)).not.toBeNull();
  });
});
