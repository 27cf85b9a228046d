import { expect, test } from "bun:test";
import { Wake } from "../../src/cascade/wake.ts";
import { DEFAULT_SETTINGS } from "../../src/cascade/deps.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { FakeClock } from "../fakes/clock.ts";
import { FakeFsEvents } from "../fakes/fs-events.ts";

const HEADS = "/repo/.jj/repo/op_heads/heads";

/** Every promise that can settle without time passing has settled. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((go) => setImmediate(go));
}

function setUp(read: () => Promise<boolean> | boolean = () => false) {
  const clock = new FakeClock();
  const events = new FakeFsEvents();
  const seen = { readings: 0, running: 0, most: 0, at: [] as number[] };
  const wake = new Wake(
    {
      clock,
      fsEvents: events,
      jj: { headsFolder: HEADS } as JjRepo,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      settings: DEFAULT_SETTINGS,
    },
    async () => {
      seen.readings += 1;
      seen.at.push(clock.monotonic());
      seen.running += 1;
      seen.most = Math.max(seen.most, seen.running);
      try {
        return await read();
      } finally {
        seen.running -= 1;
      }
    },
  );
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0;) {
      const step = Math.min(left, clock.nextWake ?? left, 50);
      clock.advance(step);
      left -= Math.max(step, 1);
      await settled();
    }
  };
  const change = (): Promise<void> => {
    events.changed(`${HEADS}/op`);
    return settled();
  };
  return { wake, clock, events, seen, pass, change };
}

test("wake: one change → one reading, after the debounce", async () => {
  const { wake, seen, pass, change } = setUp();
  await wake.start();
  await change();
  await pass(200);
  expect(seen.readings).toBe(0);
  await pass(100);
  expect(seen.at).toEqual([250]);
  await wake.stop();
});

test("wake: changes that never pause → read every debounce all the same, not once per change", async () => {
  const { wake, seen, pass, change } = setUp();
  await wake.start();
  for (let n = 0; n < 80; n += 1) {
    await change();
    await pass(50);
  }
  // Four seconds: one reading per 250 ms and the event that opens the next burst.
  expect(seen.readings).toBeGreaterThanOrEqual(12);
  expect(seen.readings).toBeLessThanOrEqual(16);
  await wake.stop();
});

test("wake: a reading that takes long while changes go on → one at a time, one more afterwards, none queued up", async () => {
  let finish = (): void => undefined;
  const { wake, seen, pass, change } = setUp(
    () => new Promise((done) => (finish = () => done(true))),
  );
  await wake.start();
  for (let n = 0; n < 60; n += 1) {
    await change();
    await pass(50);
  }
  await pass(300);
  expect(seen).toMatchObject({ readings: 1, most: 1 });
  finish();
  await settled();
  expect(seen).toMatchObject({ readings: 2, most: 1 });
  finish();
  await pass(250);
  expect(seen.readings).toBe(2);
  await wake.stop();
});

test("wake: no watch left → polled more often, the reason is said; events again later → no reason any more", async () => {
  const { wake, events, seen, pass } = setUp();
  events.exhausted = "inotify: no instance left";
  await wake.start();
  expect(wake.state).toMatchObject({ events: false, reason: "inotify: no instance left" });
  await pass(5_000);
  expect(seen.readings).toBe(5);
  events.exhausted = null;
  await pass(30_000);
  expect(wake.state).toMatchObject({ events: true, reason: null });
  expect(events.watched).toEqual([HEADS]);
  await wake.stop();
  expect(events.watched).toEqual([]);
});

test("wake: the watcher breaks while it runs → read at once, polled with the reason, then watched anew", async () => {
  const { wake, events, seen, pass } = setUp();
  await wake.start();
  events.fail("events were dropped");
  expect(wake.state).toMatchObject({ events: false, reason: "events were dropped" });
  await pass(300);
  expect(seen.readings).toBe(1);
  await pass(40_000);
  expect(wake.state).toMatchObject({ events: true, reason: null });
  await wake.stop();
});

test("wake: events stop coming without a word → found by polling; told as lost at the second time, not at the first", async () => {
  const news = [true, true, true, false];
  const { wake, events, pass, change } = setUp(() => news.shift() ?? false);
  await wake.start();
  await pass(5_000);
  expect(wake.state).toMatchObject({ events: true, reason: null });
  // An event comes after all: the poll had only been faster.
  await change();
  await pass(5_000);
  expect(wake.state.events).toBe(true);
  await pass(5_000);
  expect(wake.state.events).toBe(true);
  news.push(true, true);
  await pass(10_000);
  expect(wake.state).toMatchObject({
    events: false,
    reason: "operations appeared that no file event told of",
  });
  expect(events.watched).toEqual([HEADS]);
  await wake.stop();
});

test("wake: nothing moves → polled every five seconds, nothing else", async () => {
  const { wake, seen, pass } = setUp();
  await wake.start();
  await pass(60_000);
  expect(seen.readings).toBe(12);
  await wake.stop();
});

test("wake: stopped in a burst → no reading any more", async () => {
  const { wake, seen, pass, change } = setUp();
  await wake.start();
  await change();
  await settled();
  await wake.stop();
  await pass(10_000);
  expect(seen.readings).toBe(0);
});

test("wake: a reading takes long → degraded with how long, while it does; polls do not pile up behind it", async () => {
  let done: (news: boolean) => void = () => undefined;
  const { wake, seen, pass, change } = setUp(() => new Promise((answer) => (done = answer)));
  await wake.start();
  expect(wake.state.degraded).toBeNull();
  await change();
  await pass(5_000);
  expect(wake.state.degraded).toBeNull();
  await pass(25_000);
  expect(wake.state.degraded).toBe("jj has not shown its newest operations for 29 s");
  expect(seen).toMatchObject({ readings: 1, most: 1 });
  done(true);
  await settled();
  // One more, because polls came meanwhile.
  expect(seen.readings).toBe(2);
  expect(wake.state.degraded).toBeNull();
  done(false);
  await settled();
  await wake.stop();
});

test("wake: a reading fails → degraded with the reason, until one succeeds", async () => {
  let broken = true;
  const { wake, pass, change } = setUp(() => {
    if (broken) throw new Error("jj could not read operations: it did not finish in time");
    return false;
  });
  await wake.start();
  await change();
  await pass(300);
  expect(wake.state).toEqual({
    events: true,
    reason: null,
    degraded:
      "jj's operations cannot be read: jj could not read operations: it did not finish in time",
  });
  broken = false;
  await pass(5_000);
  expect(wake.state.degraded).toBeNull();
  await wake.stop();
});
