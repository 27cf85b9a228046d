/**
 * A daemon dies at each step by which a serial batch is completed, judged, rebound, acknowledged or left for a restart.
 * Its hooks then do what hooks do without one, the next daemon finds the rows, and nothing is believed that was not
 * shown: no tool runs on changed files before the model has got the payload.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { IntentCrashPoint } from "../../src/core/intent.ts";
import { GENERIC_DENY_REASON } from "../../src/core/generic-deny.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import type { SerialCall } from "../fakes/serial-agent.ts";
import { serialFamily, type SerialFamily } from "./serial-rig.ts";

setDefaultTimeout(240_000);
const families: SerialFamily[] = [];
afterAll(async () => {
  for (const f of families) await f.rig.close();
  removeTempDirs();
});

type Step = Extract<IntentCrashPoint, `${string}.before` | `${string}.completed`>;

interface Story {
  name: string;
  /** The agent's calls, one after the other, after the parent has moved. */
  calls: SerialCall[];
  /** Before the nth call: the record hides the blocked call's output, or shows it again. */
  record?: Record<number, "hides" | "shows" | "stop">;
  deaths: [point: Step, nth: number][];
  /** Steps that the crash matrix takes with any harness. */
  common?: [point: Step, nth: number][];
}

const each = (name: string, nth = 1): [Step, number][] => [
  [`intent.${name}.before` as Step, nth],
  [`intent.${name}.completed` as Step, nth],
];

const STORIES: Story[] = [
  {
    name: "the payload arrives",
    calls: [{}, {}],
    deaths: [...each("batch-completed"), ...each("Delivered-Acknowledged")],
    common: [
      ...each("Detected-Reconciling"),
      ...each("Reconciling-Materialized"),
      ...each("Materialized-Delivered"),
    ],
  },
  {
    name: "the payload arrives, the turn ends",
    calls: [{}, {}],
    record: { 1: "stop" },
    deaths: each("batch-completed"),
  },
  {
    name: "the payload is lost once",
    calls: [{ hook: "rejected" }, {}, {}],
    deaths: [...each("batch-completed"), ...each("rebound")],
    common: each("batch-completed", 2),
  },
  {
    name: "the receipt is read later",
    calls: [{}, {}, {}],
    record: { 1: "hides", 2: "shows" },
    deaths: each("batch-completed", 2),
  },
  {
    name: "the payload is lost twice",
    calls: [{ hook: "rejected" }, { hook: "rejected" }, {}],
    deaths: [...each("batch-completed", 2), ...each("restarting")],
    common: each("startup-echoed"),
  },
];

/** Calls an agent needs at most to be told, after whatever happened. */
const MAX_CALLS = 6;

class World {
  readonly f: SerialFamily;
  /** The dead daemon answers nobody. */
  dead = false;
  readonly passed: string[] = [];
  saw = false;
  replaced = 0;
  /** It was told that it is about to be restarted. */
  #leaves = false;

  constructor(f: SerialFamily) {
    this.f = f;
    const { preToolUse, hold, markDelivered, event } = { ...f.daemon };
    const alone = () =>
      f.rig.barrier(f.child)
        ? ({ decision: "deny", output: GENERIC_DENY_REASON } as const)
        : ({ decision: "pass" } as const);
    f.daemon.preToolUse = (raw) => this.#asked(() => preToolUse(raw), alone);
    // Told to hold: without an explicit release it refuses by itself.
    f.daemon.hold = (token) =>
      this.#asked(
        () => hold(token),
        () => ({ decision: "deny", output: GENERIC_DENY_REASON }),
      );
    f.daemon.markDelivered = (...of) => {
      try {
        if (!this.dead) markDelivered(...of);
      } catch {
        // printed all the same
      }
    };
    f.daemon.event = async (raw) => {
      // What nobody takes is spooled; the next daemon reads it first.
      await this.#asked(
        () => event(raw),
        () => this.#spool(raw),
      );
    };
  }

  async #asked<T>(ask: () => Promise<T>, alone: () => T): Promise<T> {
    if (this.dead) return alone();
    try {
      const answer = await ask();
      return this.dead ? alone() : answer;
    } catch (error) {
      if (!this.dead) throw error;
      return alone();
    }
  }

  #spool(raw: unknown): void {
    this.f.rig.agent(this.f.child).spool(raw as never);
  }

  /** The daemon that dies at the nth time it gets there. */
  async arm(point: Step, nth: number): Promise<void> {
    let left = nth;
    await this.f.rig.reboot({
      at: (name) => {
        if (this.dead) throw new Error("dead");
        this.passed.push(name);
        if (name !== point || (left -= 1) !== 0) return;
        this.dead = true;
        throw new Error(`dies at ${name}`);
      },
    });
  }

  async call(spec: SerialCall): Promise<void> {
    const { f } = this;
    const more = () => f.rig.agents.started.length > this.replaced;
    if (this.#leaves) await waitFor(() => this.dead || more(), 20_000, "the agent is replaced");
    if (this.dead) await this.next();
    if (this.#leaves && !more()) await waitFor(more, 20_000, "the next daemon replaces the agent");
    if (more()) await this.takesUp();
    // Its startup prompt may have been what the daemon died of.
    if (this.dead) await this.next();
    const before = f.file("parser.txt");
    const { output, ran } = await f.agent.call(spec);
    const { payload } = f.intent();
    if (ran && before === "two\n" && !this.saw)
      throw new Error("a tool ran on changed files before the model knew");
    if (payload !== null && output.includes(payload)) this.saw = true;
    this.#leaves = output.includes("restarted by kiki");
  }

  async next(): Promise<void> {
    this.dead = false;
    await this.f.rig.reboot();
  }

  async takesUp(): Promise<void> {
    this.replaced = this.f.rig.agents.started.length;
    const { prompt } = await this.f.takesUp(this.replaced);
    if (prompt!.includes(this.f.intent().payload!)) this.saw = true;
    this.#leaves = false;
  }
}

for (const story of STORIES) {
  describe(`serial, a daemon dies: ${story.name}`, () => {
    const deaths = [
      ...story.deaths.map((death) => [test, ...death] as const),
      ...(story.common ?? []).map((death) => [thorough, ...death] as const),
    ];
    for (const [run, point, nth] of deaths) {
      run(
        `${story.name}: at ${point} (${nth}) → told once it is there again, acknowledged by proof alone`,
        async () => {
          const f = await serialFamily();
          families.push(f);
          const w = new World(f);
          await w.arm(point, nth);
          await f.amend("two\n").catch(() => undefined);
          const first = f.agent.nextId;
          for (const [n, spec] of story.calls.entries()) {
            const change = story.record?.[n];
            if (change === "hides") f.records.late.add(first);
            if (change === "shows") f.records.late.clear();
            if (change === "stop") {
              await f.agent.stop();
              await f.agent.prompt("go on");
            }
            await w.call(spec);
          }
          for (let n = 0; n < MAX_CALLS; n += 1) {
            if (f.intent().state === "Acknowledged") break;
            await w.call({});
          }
          if (w.dead) await w.next();
          expect([point, w.passed.includes(point)]).toEqual([point, true]);
          expect(f.intent().state).toBe("Acknowledged");
          expect(w.saw).toBe(true);
          expect(f.file("parser.txt")).toBe("two\n");
          expect(f.intent().softRedeliveryCount).toBeLessThanOrEqual(1);
          expect(f.rig.intents(f.child)).toHaveLength(1);
          expect((await f.agent.call()).ran).toBe(true);
        },
      );
    }
  });
}
