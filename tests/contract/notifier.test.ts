/** Notifier. The transports come with notifications; until then the fake stands alone. */
import { expect } from "bun:test";
import type { Notice, Notifier } from "../../src/ports/notifier.ts";
import { FakeNotifier } from "../fakes/notifier.ts";
import { contract, type Implementation } from "../support/contract.ts";
import { failureOf } from "../support/failure.ts";

interface Subject {
  notifier: Notifier;
  fake: FakeNotifier | null;
  /** What the person has on the screen. */
  seen(): { title: string; body: string }[];
}

const implementations: Implementation<Subject>[] = [
  {
    name: "fake",
    make() {
      const fake = new FakeNotifier();
      const seen = () => fake.shown.map(({ title, body }) => ({ title, body }));
      return { notifier: fake, fake, seen };
    },
  },
];

const notice: Notice = {
  eventId: "event-1",
  title: "tests: conflict",
  body: "2 files are in conflict",
  loud: true,
};
const patient = (): AbortSignal => AbortSignal.timeout(10_000);

contract("notifier", implementations, [
  {
    name: "shown → on the screen, once",
    async run(s) {
      expect(await s.notifier.show(notice, patient())).toEqual({ shown: true });
      expect(s.seen()).toEqual([{ title: notice.title, body: notice.body }]);
    },
  },
  {
    name: "shown twice → there twice: showing once is decided elsewhere",
    async run(s) {
      await s.notifier.show(notice, patient());
      await s.notifier.show(notice, patient());
      expect(s.seen()).toHaveLength(2);
    },
  },
  {
    name: "text with markup, options and formats → shown as it is",
    async run(s) {
      const body = `-u <b>x</b> & "q" 'a' $(touch x) #{pid} %H \\n`;
      await s.notifier.show({ ...notice, title: "--help", body }, patient());
      expect(s.seen()).toEqual([{ title: "--help", body }]);
    },
  },
  {
    name: "caller has given up already → not shown, and no rejection",
    async run(s) {
      expect((await s.notifier.show(notice, AbortSignal.abort())).shown).toBe(false);
      expect(s.seen()).toEqual([]);
    },
  },
  {
    name: "desktop that fails → not shown, with the reason; works again afterwards",
    only: ["fake"],
    async run(s) {
      s.fake!.state = { fails: "no session bus" };
      expect(await s.notifier.show(notice, patient())).toEqual({
        shown: false,
        reason: "no session bus",
      });
      s.fake!.state = "works";
      expect((await s.notifier.show(notice, patient())).shown).toBe(true);
    },
  },
  {
    name: "desktop that hangs, or shows and does not say so → over as soon as the caller gives up",
    only: ["fake"],
    async run(s) {
      for (const [hang, seen] of [
        [() => (s.fake!.state = "hangs"), 0],
        [() => Object.assign(s.fake!, { state: "works", losesAnswer: true }), 1],
      ] as const) {
        hang();
        const patience = new AbortController();
        const showing = s.notifier.show(notice, patience.signal);
        patience.abort();
        expect((await showing).shown).toBe(false);
        expect(s.seen()).toHaveLength(seen);
      }
    },
  },
  {
    name: "text of several lines, or without a subject → a mistake of the caller",
    only: ["fake"],
    async run(s) {
      for (const bad of [{ title: "a\nb" }, { body: "x".repeat(201) }, { title: "" }]) {
        const shown = s.notifier.show({ ...notice, ...bad }, patient());
        expect(await failureOf(shown)).toBeInstanceOf(Error);
      }
    },
  },
]);
