/** Several operation heads that nobody merges: kiki does it where it needs one view, and only there. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { HEADS_GRACE_MS, meetHeadsOf, refreshToOneHead } from "../../src/cascade/one-head.ts";
import { fail as failure } from "../../src/core/errors.ts";
import { openRepoDb } from "../../src/store/open.ts";
import { attributionOf } from "../../src/store/ops.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { holdLock } from "../support/hold-lock.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig, TestThread, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** Time passes by sleeping alone; `heads` is what a listing shows then. */
function standIn(heads: (now: number, merges: number) => string[]) {
  let now = 0;
  let ids = 0;
  const merged: { at: number; token: string }[] = [];
  const db = openRepoDb(join(tempDir(), "state.db"));
  const jj = {
    heads: () => Promise.resolve(heads(now, merged.length)),
    mergeHeads(token: string) {
      expect(attributionOf(db, token)).toMatchObject({ live: false });
      merged.push({ at: now, token });
      return Promise.resolve();
    },
  } as unknown as JjRepo;
  const deps = {
    db,
    jj,
    exclusive: <T>(body: (jj: JjRepo) => Promise<T>) => body(jj),
    clock: {
      now: () => now,
      monotonic: () => now,
      sleep: (ms: number) => Promise.resolve(void (now += ms)),
    },
    ids: { uuid: () => `token-${(ids += 1)}` },
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    crash: { at: () => undefined },
  } as unknown as CascadeDeps;
  return { deps, jj, merged, now: () => now };
}

describe("several operation heads", () => {
  test("merged by the next jj command within the grace → kiki makes nothing", async () => {
    const w = standIn((now) => (now < HEADS_GRACE_MS - 100 ? ["a", "b"] : ["c"]));
    expect(await meetHeadsOf(w.deps, w.jj)).toEqual(["c"]);
    expect(w.merged).toEqual([]);
  });

  test("unchanged for the grace → merged once, by an operation with a token that was durable before", async () => {
    const w = standIn((_, merges) => (merges === 0 ? ["a", "b"] : ["c"]));
    expect(await meetHeadsOf(w.deps, w.jj)).toEqual(["c"]);
    expect(w.merged).toEqual([{ at: HEADS_GRACE_MS, token: "token-1" }]);
  });

  test("other ones every time → somebody is at work; merged all the same after three seconds", async () => {
    const w = standIn((now, merges) => (merges === 0 ? [`a${now}`, "b"] : ["c"]));
    expect(await meetHeadsOf(w.deps, w.jj)).toEqual(["c"]);
    expect(w.merged.map((m) => m.at)).toEqual([3_000]);
  });

  test("two merges at the same moment leave heads again → a grace of their own, then merged again", async () => {
    const w = standIn((_, merges) => [["a", "b"], ["c", "d"], ["e"]][merges]!);
    expect(await meetHeadsOf(w.deps, w.jj)).toEqual(["e"]);
    expect(w.merged.map((m) => m.at)).toEqual([HEADS_GRACE_MS, 2 * HEADS_GRACE_MS]);
  });

  test("never merged, whoever tries → several-op-heads with what to do, within half a minute", async () => {
    const w = standIn(() => ["a", "b"]);
    const error: unknown = await refreshToOneHead(w.deps, () => w.jj.heads()).catch(
      (e: unknown) => e,
    );
    expect(error).toMatchObject({
      code: "several-op-heads",
      hint: "run jj log once, then try again",
    });
    expect(w.now()).toBeLessThanOrEqual(30_000);
  });
});

async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return pair;
}

/** Two jj commands at once, of which neither saw the other. */
async function fork(rig: Rig, one: string[], other: string[], at?: TestThread): Promise<string[]> {
  const head = await rig.repo.head();
  for (const command of [one, other])
    await rig.repo.jj([`--at-op=${head}`, ...command], at?.path ?? rig.repo.root);
  const heads = await rig.jj.heads();
  expect(heads).toHaveLength(2);
  return heads;
}

const bookmark = (name: string): string[] => ["bookmark", "create", name, "-r", "root()+"];

describe("several operation heads, real jj", () => {
  test("the one view somebody asks for → jj's merge with kiki's token, read as anybody's; files and locks of others untouched", async () => {
    const { rig, parent } = await family();
    rig.repo.write("parser.txt", "not recorded\n", parent.path);
    const lock = await holdLock(join(parent.path, ".jj/working_copy/working_copy.lock"));
    const heads = await fork(rig, bookmark("x"), bookmark("y"));
    const op = await rig.cascade.refreshToOneHead();
    await lock.release();
    expect(await rig.jj.heads()).toEqual([op]);
    const [merge] = await rig.jj.operations(op, 1);
    expect([...merge!.parents].sort()).toEqual(heads);
    const row = rig.db
      .query<{ token: string; processed: number | null }, [string]>(
        "SELECT attribution_token AS token, processed_at AS processed FROM op_history WHERE op_id = ?",
      )
      .get(op)!;
    expect(merge!.args).toContain(row.token);
    expect(row.processed).not.toBeNull();
    expect(attributionOf(rig.db, row.token)).toMatchObject({
      live: false,
      ownerId: "merged-heads",
    });
    expect(rig.file(parent, "parser.txt")).toBe("not recorded\n");
    expect(await rig.jj.bookmarks(op)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ name: "x" }),
        expect.objectContaining({ name: "y" }),
      ]),
    );
  });

  test("jj commands of five more at the same moment → one head in the end, everybody answered", async () => {
    const { rig } = await family();
    await fork(rig, bookmark("x"), bookmark("y"));
    // jj 0.46 refuses at times where commands of one workspace merge heads beside each other: none looks at files here.
    const others = [1, 2, 3, 4, 5].map((n) =>
      rig.repo.jj(["--ignore-working-copy", ...bookmark(`z${n}`)]),
    );
    const asked = [1, 2, 3].map(() => rig.cascade.refreshToOneHead());
    await Promise.all([...others, ...asked]);
    const op = await rig.cascade.refreshToOneHead();
    const names = (await rig.jj.bookmarks(op)).map((b) => b.name);
    expect(names).toEqual(expect.arrayContaining(["x", "y", "z1", "z2", "z3", "z4", "z5"]));
  });

  test("a boundary with work → merged, told at this very boundary", async () => {
    const f = await family();
    await f.amend("two\n");
    await fork(f.rig, bookmark("x"), bookmark("y"));
    const [answer] = await f.agent.batch();
    const [intent] = f.rig.intents(f.child);
    expect(answer!.text).toBe(intent!.payload);
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
    expect(f.rig.attention(f.child)).toEqual([]);
    expect(await f.rig.jj.heads()).toHaveLength(1);
  });

  test("a boundary without work → nobody waits and nothing is merged", async () => {
    const f = await family();
    const heads = await fork(f.rig, bookmark("x"), bookmark("y"));
    expect((await f.agent.batch())[0]!.text).toBeNull();
    await f.rig.cascade.refreshToFrontier();
    expect(await f.rig.jj.heads()).toEqual(heads);
  });

  test("both heads moved the parent → merged, does not fit together: loud, no file changed, the call passes", async () => {
    const f = await family();
    await f.amend("two\n");
    await fork(f.rig, ["new", "-m", "one way"], ["new", "-m", "another way"], f.parent);
    const [answer] = await f.agent.batch();
    expect(answer!.text).toBeNull();
    expect(f.rig.intents(f.child).map((i) => i.state)).toEqual(["TopologyDiverged"]);
    expect(f.rig.attention(f.child)[0]).toContain("moved in a way kiki does not follow");
    expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
    expect(await f.rig.jj.heads()).toHaveLength(1);
  });

  test("jj's own lock on the heads is never let go → not bound, the call passes; told once it is", async () => {
    const f = await family({
      wrapJj: (jj) => {
        let times = 0;
        return {
          ...jj,
          mergeHeads: (token) =>
            (times += 1) === 1
              ? Promise.reject(failure("failed", "jj-locked", "another process holds it"))
              : jj.mergeHeads(token),
        };
      },
    });
    await f.amend("two\n");
    await fork(f.rig, bookmark("x"), bookmark("y"));
    expect((await f.agent.batch())[0]!.text).toBeNull();
    expect(f.rig.intents(f.child)[0]!.state).toBe("Detected");
    expect((await f.agent.batch())[0]!.text).toBe(f.rig.intents(f.child)[0]!.payload);
  });

  for (const point of ["intent.merge-heads.before", "intent.merge-heads.effected"] as const) {
    const at = point.endsWith("effected") ? test : thorough;
    at(`daemon dies at ${point} → the next one tells the agent, nothing twice`, async () => {
      const f = await family();
      await f.amend("two\n");
      let armed = true;
      await f.rig.reboot({
        at(name) {
          if (!armed || name !== point) return;
          armed = false;
          throw new Error("crash");
        },
      });
      await fork(f.rig, bookmark("x"), bookmark("y"));
      expect((await f.agent.batch())[0]!.text).toBeNull();
      expect(armed).toBe(false);
      await f.rig.reboot();
      const [answer] = await f.agent.batch();
      expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
      expect(f.rig.intents(f.child)).toHaveLength(1);
      const merges = (await f.rig.jj.operations((await f.rig.jj.heads())[0]!, 50)).filter(
        (op) => op.parents.length > 1,
      );
      expect(merges).toHaveLength(1);
    });
  }

  test("heads part in the middle of a parent advance → merged, rebased once, told", async () => {
    let armed = true;
    const f = await family({
      wrapJj: (jj) => ({
        ...jj,
        async stageRebase(input) {
          if (armed) await fork(f.rig, bookmark("x"), bookmark("y"));
          armed = false;
          return jj.stageRebase(input);
        },
      }),
    });
    await f.rig.repo.jj(["new", "-m", "lexer"], f.parent.path);
    f.rig.repo.write("lexer.txt", "lexer\n", f.parent.path);
    await f.rig.repo.jj(["status"], f.parent.path);
    await f.rig.cascade.refreshToFrontier();
    const [answer] = await f.agent.batch();
    expect(armed).toBe(false);
    expect(answer!.text).toBe(f.rig.intents(f.child)[0]!.payload);
    expect(f.rig.file(f.child, "lexer.txt")).toBe("lexer\n");
  });
});
