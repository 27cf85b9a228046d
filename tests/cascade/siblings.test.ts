/** A sibling that waits for the first call of its response: when nothing can be read any more, and beside a barrier. */
import { afterAll, expect, test } from "bun:test";
import { realClock } from "../../src/backends/clock.ts";
import { Boundary } from "../../src/cascade/boundary.ts";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { releaseAfterFirst } from "../../src/cascade/siblings.ts";
import { admit, resolveCall } from "../../src/store/admissions.ts";
import { FakeClock } from "../fakes/clock.ts";
import { removeTempDirs } from "../support/temp.ts";
import { serialFamily, type SerialFamily } from "./serial-rig.ts";

const families: SerialFamily[] = [];
afterAll(async () => {
  for (const f of families) await f.rig.close();
  removeTempDirs();
});

test("sibling waits, its database is gone → logged, nothing thrown: the hook's own limit is its answer", async () => {
  const boundary = new Boundary();
  const call = { agentId: "", ordinal: 1, promptId: null, toolUseId: "call_2", toolName: "Bash" };
  const hold = boundary.add("token", call, 0);
  const said: string[] = [];
  const query = (): never => {
    throw new RangeError("Cannot use a closed database");
  };
  const deps = {
    clock: new FakeClock(),
    settings: { holdMs: 1_000 },
    db: { query },
    log: { error: (line: string) => void said.push(line) },
  } as unknown as CascadeDeps;
  await releaseAfterFirst({
    deps,
    boundary,
    caller: { threadId: "t", incarnation: "i" },
    hold,
    drain: () => Promise.resolve(),
    stopped: () => false,
  });
  expect(said.length).toBeGreaterThan(0);
});

test.each([
  [true, "deny"],
  [false, "pass"],
] as const)(
  "its first call passed and is over, barrier %p → %s: the launcher writes its pass down before it looks for the marker",
  async (barred, expected) => {
    const f = await serialFamily();
    families.push(f);
    if (barred) {
      await f.amend("two\n");
      await f.agent.call({ hook: "dies" });
      expect(f.intent().state).toBe("Materialized");
    }
    const { db } = f.rig;
    const caller = { threadId: f.child.id, incarnation: f.child.incarnation };
    const call = { agentId: "", ordinal: 7, promptId: null, toolName: "Bash" };
    const passed = { admission: "PassThrough", intentId: null, answer: null, now: 2 } as const;
    admit(db, { ...call, ...passed, incarnation: caller.incarnation, toolUseId: "first" });
    resolveCall(db, caller.incarnation, "first", "batch-closed", 3);
    const boundary = new Boundary();
    const hold = boundary.add("token", { ...call, toolUseId: "second" }, 0);
    hold.confirmed = true;
    const deps = {
      db,
      clock: realClock,
      settings: { holdMs: 5_000 },
      harness: () => f.harness.port,
      log: console,
    } as unknown as CascadeDeps;
    const drain = (): Promise<void> => Promise.resolve();
    await releaseAfterFirst({ deps, boundary, caller, hold, drain, stopped: () => false });
    expect((await hold.answer).decision).toBe(expected);
  },
);
