/**
 * Worked scenarios 10 and 12: a parent that moves more often than its child's agent calls tools, and one that moves before
 * every call. The whole binary, real jj and tmux, the scripted agent. `KIKI_TEST_TURNS=50` plays that many turns.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  acknowledged,
  amend,
  commitOf,
  detected,
  expectAtRest,
  expectTold,
  expectFiles,
  family,
  homeOf,
  inDb,
  intents,
  onDisk,
  reached,
  resultOf,
  stateOf,
  untilRun,
  type Family,
} from "../../support/family.ts";
import { bash, moments, read, touch, wait, write } from "../../support/scenario.ts";
import { isThorough } from "../../support/thorough.ts";
import { initialised, type World } from "../../support/world.ts";

const TURNS = Number(process.env["KIKI_TEST_TURNS"] ?? 6);
const STORM = 30;
/** Every so many turns the parent does not amend but adds a revision. */
const ADDS_EVERY = 4;
setDefaultTimeout(180_000 + TURNS * 20_000);
let w: World;
let f: Family;

const callsOf = (turn: number) => ({ [`t${turn}`]: "Read", [`r${turn}`]: "Bash" });

describe.skipIf(!isThorough)("a busy parent", () => {
  beforeAll(async () => {
    w = await initialised();
    const turn = (n: number) => [
      touch(w.signal(`turn-${n}`)),
      wait(w.signal(`moved-${n}`)),
      read(`t${n}`, "busy.ts"),
      // Recorded by nobody: the agent never runs jj again.
      bash(`r${n}`, `echo ${n} >>ran.txt`),
    ];
    f = await family(homeOf(w, w.repo), "busy", {
      before: [[write("c1", "own.ts", "mine\n"), bash("c2", "jj describe -m tests")]],
      after: [
        [read("a1", "busy.ts"), bash("a2", "touch ran-a2")],
        untilRun(read("again", "busy.ts")),
        ...Array.from({ length: TURNS }, (_, n) => turn(n + 1)),
        // The parent is at rest: one boundary more settles what the last turn was let pass with.
        [read("last", "busy.ts")],
        untilRun(read("again-last", "busy.ts")),
      ],
    });
  });
  afterAll(() => w.close());

  test(`scenario 10: the parent moves ${STORM} times between two calls → one intent with every move, told once`, async () => {
    for (let n = 1; n <= STORM; n += 1) await amend(f, { "busy.ts": `storm ${n}\n` });
    const { id } = await detected(f);
    expect(intents(f, f.child).map((row) => row.state)).toEqual(["Detected"]);
    const triggers = () =>
      inDb(f, (db) =>
        db
          .query<{ n: number }, [string]>(
            "SELECT count(DISTINCT op_id) AS n FROM sync_intent_triggers WHERE intent_id = ?",
          )
          .get(id),
      );
    expect(triggers()).toEqual({ n: STORM });
    expect((await stateOf(f, f.child)).summary.cascade).toBe("pending");
    f.go();
    await reached(f, "turn-1");
    const [intent] = await acknowledged(f, f.child, 1);
    expectTold(f.child, intent!, { a1: "Read", a2: "Bash" });
    expect(intent!.payload).toContain(`Covers:   ${STORM} moves of the parent`);
    expect(intent!.to).toBe(await commitOf(f, f.parent));
    await expectFiles(f, f.child, {
      "busy.ts": `storm ${STORM}\n`,
      "own.ts": "mine\n",
      "ran-a2": null,
    });
    await expectAtRest(f, f.child);
  });

  test(`scenario 12: the parent moves before every one of ${TURNS} turns → never more than two blocked in a row, every revision told in the end`, async () => {
    const revisions: string[] = [];
    for (let n = 1; n <= TURNS; n += 1) {
      await reached(f, `turn-${n}`);
      if (n % ADDS_EVERY === 0) {
        revisions.push(`revision of turn ${n}`);
        await f.repo.jj(["new", "--quiet", "-m", revisions.at(-1)!], f.parent.path);
      }
      await amend(f, { "busy.ts": `turn ${n}\n`, [`of-${n}.ts`]: `${n}\n` });
      await detected(f);
      w.raise(`moved-${n}`);
    }
    await reached(f, "busy-done");
    const all = moments(f.child.log);
    const passed = Array.from({ length: TURNS }, (_, n) => n + 1).filter(
      (n) => !resultOf(all, `t${n}`)!.includes("did not run"),
    );
    // Two blocked, one passed: new work never waits longer than it must, and never starves the agent.
    const blocked = TURNS - passed.length;
    const runs = [0, ...passed, TURNS + 1].map((n, at, list) => n - (list[at - 1] ?? n) - 1);
    expect(Math.max(...runs)).toBeLessThanOrEqual(2);
    // Beyond that only a call that could not be asked about in time, which the hook then wrote down.
    const log = join(f.state, "errors", `${f.child.id}.log`);
    if (!existsSync(log)) expect(blocked).toBe(TURNS - Math.floor(TURNS / 3));
    // What ran is what was let through, and what was not told ran.
    expect(onDisk(f.child, "ran.txt")).toBe(passed.map((n) => `${n}\n`).join(""));
    const rows = intents(f, f.child);
    expect(rows.filter((row) => !["Acknowledged", "Superseded"].includes(row.state))).toEqual([]);
    const payloads = rows.slice(1).flatMap((row) => (row.state === "Acknowledged" ? [row] : []));
    // Each turn's calls got the payload that was made for it, or ran.
    const settled = new Set<string>();
    for (const row of payloads) {
      const turn = [...Array(TURNS).keys()].find((n) =>
        resultOf(all, `t${n + 1}`)!.endsWith(row.payload!),
      );
      if (turn !== undefined) expectTold(f.child, row, callsOf(turn + 1));
      settled.add(row.payload!);
    }
    expect(settled.size).toBe(payloads.length);
    const told = payloads.map((row) => row.payload).join("\n");
    for (const revision of revisions) expect(told).toContain(revision);
    expect(payloads.at(-1)!.to).toBe(await commitOf(f, f.parent));
    await expectFiles(f, f.child, {
      "busy.ts": `turn ${TURNS}\n`,
      "own.ts": "mine\n",
      ...Object.fromEntries(
        Array.from({ length: TURNS }, (_, n) => [`of-${n + 1}.ts`, `${n + 1}\n`]),
      ),
    });
    await expectAtRest(f, f.child);
    console.info(`${TURNS} turns, ${passed.length} passed, ${payloads.length} payloads`);
  });
});
