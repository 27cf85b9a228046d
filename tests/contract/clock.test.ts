/** Clock: time a test moves, and the machine's. */
import { expect } from "bun:test";
import { realClock } from "../../src/backends/clock.ts";
import type { Clock } from "../../src/ports/clock.ts";
import { FakeClock } from "../fakes/clock.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { failureOf } from "../support/failure.ts";

interface Subject {
  clock: Clock;
  fake: FakeClock | null;
  /** Lets at least this many milliseconds pass. */
  pass: (ms: number) => Promise<void>;
}

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const fake = new FakeClock();
      return { clock: fake, fake, pass: (ms) => fake.run(ms) };
    },
  },
  {
    name: "real clock",
    make: () => ({ clock: realClock, fake: null, pass: (ms) => Bun.sleep(ms + 5) }),
  },
];

contract("clock", implementations, [
  {
    name: "now → whole milliseconds since the epoch; monotonic → never goes back",
    async run({ clock, pass }) {
      expect(Number.isInteger(clock.now())).toBe(true);
      expect(clock.now()).toBeGreaterThan(Date.UTC(2020, 0));
      const [wall, steady] = [clock.now(), clock.monotonic()];
      await pass(20);
      expect(clock.monotonic() - steady).toBeGreaterThanOrEqual(20);
      expect(clock.now() - wall).toBeGreaterThanOrEqual(19);
    },
  },
  {
    name: "sleepers → wake in the order of their moments, not before; equal moments in the order they began",
    async run({ clock, pass }) {
      const woken: string[] = [];
      const began = clock.monotonic();
      const sleep = async (name: string, ms: number): Promise<void> => {
        await clock.sleep(ms);
        expect(clock.monotonic() - began).toBeGreaterThanOrEqual(ms - 1);
        woken.push(name);
      };
      const all = [sleep("c", 60), sleep("a", 5), sleep("b1", 30), sleep("b2", 30)];
      await pass(70);
      await Promise.all(all);
      expect(woken).toEqual(["a", "b1", "b2", "c"]);
    },
  },
  {
    name: "no time, or less than none → resolves without time passing",
    async run({ clock, pass }) {
      const done = Promise.all([clock.sleep(0), clock.sleep(-5)]);
      await pass(0);
      await done;
    },
  },
  {
    name: "aborted sleep → rejects with the reason, before and after it began",
    async run({ clock }) {
      const reason = new Error("enough");
      expect(await failureOf(clock.sleep(60_000, AbortSignal.abort(reason)))).toBe(reason);
      const later = new AbortController();
      const sleeping = clock.sleep(60_000, later.signal);
      later.abort(reason);
      expect(await failureOf(sleeping)).toBe(reason);
    },
  },
  {
    name: "signal that fires after the sleep is over → nothing happens",
    async run({ clock, pass }) {
      const late = new AbortController();
      const sleeping = clock.sleep(5, late.signal);
      await pass(10);
      await sleeping;
      late.abort(new Error("too late"));
      await pass(5);
    },
  },
  {
    name: "wall clock set a day back or forward → now follows, sleepers and monotonic do not notice",
    only: ["fake"],
    async run({ fake }) {
      const clock = fake!;
      const [wall, steady] = [clock.now(), clock.monotonic()];
      let woken = false;
      const sleeping = clock.sleep(100).then(() => (woken = true));
      clock.jump(-86_400_000);
      expect(clock.now()).toBe(wall - 86_400_000);
      clock.jump(2 * 86_400_000);
      await clock.run(50);
      expect([woken, clock.monotonic() - steady]).toEqual([false, 50]);
      await clock.run(50);
      await sleeping;
      expect(clock.waiting).toBe(false);
    },
  },
  {
    name: "time run in one go → a sleeper that sleeps again wakes at its own moments",
    only: ["fake"],
    async run({ fake }) {
      const clock = fake!;
      const moments: number[] = [];
      const loop = (async () => {
        for (let n = 0; n < 3; n += 1) {
          await clock.sleep(30);
          moments.push(clock.monotonic());
        }
      })();
      expect(clock.nextWake).toBe(30);
      await clock.run(100);
      await loop;
      expect([moments, clock.monotonic()]).toEqual([[30, 60, 90], 100]);
    },
  },
  {
    name: "aborted sleeper → leaves nobody waiting; endless and backward times → thrown",
    only: ["fake"],
    async run({ fake }) {
      const clock = fake!;
      const stop = new AbortController();
      const sleeping = clock.sleep(5, stop.signal).catch(() => "left");
      stop.abort(new Error("stop"));
      expect(await sleeping).toBe("left");
      expect([clock.waiting, clock.nextWake]).toEqual([false, null]);
      expect(() => clock.sleep(Number.POSITIVE_INFINITY)).toThrow("not a time to sleep");
      expect(() => clock.advance(-1)).toThrow("does not go back");
    },
  },
]);
