/** Recovery of edits, repairs of edges and deliveries by restart, where one of them meets another, on real jj. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Family {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  /** In order: `hold`, `release` of whoever changes files, and what the neighbour with the agents is asked. */
  asked: string[];
  /** Why nothing may be changed at the next `hold`; null: everybody stands still. */
  moving: string | null;
  amend(): Promise<void>;
}

async function family(): Promise<Family> {
  const f = { asked: [], moving: null } as unknown as Family;
  const standStill: CascadeDeps["standStill"] = {
    hold() {
      f.rig.agents.asked.push("hold");
      return Promise.resolve(
        f.moving === null ? { still: true, open: [] } : { still: false, reason: f.moving },
      );
    },
    pause() {
      f.rig.agents.asked.push("pause");
      return Promise.resolve(null);
    },
    release() {
      f.rig.agents.asked.push("let go");
      return Promise.resolve();
    },
  };
  const pair = await makePair({ standStill: () => standStill });
  rigs.push(pair.rig);
  Object.assign(f, pair, { asked: pair.rig.agents.asked, amend: () => pair.amend("two\n") });
  return f;
}

const intent = (f: Family, n = 0) => f.rig.intents(f.child)[n]!;

/** An ignored file lies where the parent puts one: nothing kiki may decide. */
async function hardPaused(f: Family): Promise<void> {
  f.rig.repo.write("out.log", "the agent's log\n", f.child.path);
  f.rig.repo.write(".gitignore", "build/\n", f.parent.path);
  f.rig.repo.write("out.log", "the parent's\n", f.parent.path);
  await f.amend();
  await f.agent.batch();
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
}

/** A tool of a batch nobody saw begin has run: the next call with work ready demands a restart. */
async function unseen(f: Family): Promise<void> {
  await f.agent.event({
    type: "PostTool",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    toolUseId: "toolu_unseen",
    toolName: "Tool",
    failed: false,
  });
}

describe("a recovery and an agent that is gone", () => {
  test("agent ends during the hard pause, a person repairs → brought up to date and told by a restart", async () => {
    const f = await family();
    await hardPaused(f);
    f.rig.agents.ended({ threadId: f.child.id, incarnation: f.child.incarnation }, "Crashed");
    f.rig.repo.remove("out.log", f.child.path);
    const { intentId } = intent(f);
    await f.rig.cascade.troubles.settle(intentId, { do: "retry" }, "operation");
    const started = await f.rig.replaced(f.child);
    expect(started.prompt!.startsWith(intent(f).payload!)).toBe(true);
    expect(f.rig.file(f.child, "out.log")).toBe("the parent's\n");
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
  });

  test("restart quiesced the agent, the daemon dies during the recovery → the next one goes on with it, and restarts", async () => {
    const f = await family();
    f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
    await unseen(f);
    await f.amend();
    await f.rig.reboot({
      at(point) {
        if (point === "intent.update-stale.before") throw new Error("killed");
      },
    });
    await f.agent.call();
    await waitFor(() => intent(f).recovering, 20_000, "the recovery has begun");
    f.rig.agents.ended({ threadId: f.child.id, incarnation: f.child.incarnation }, "Crashed");
    expect(intent(f).barrier).toBeNull();
    await f.rig.reboot();
    const started = await f.rig.replaced(f.child);
    expect(started.prompt!.startsWith(intent(f).payload!)).toBe(true);
    expect(f.rig.file(f.child, "tests.txt")).toBe("not recorded\n");
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
  });
});

describe("who is stopped for whom", () => {
  test("restart → nobody it stopped goes on before the replacement's row is there, also where files cannot change yet", async () => {
    const f = await family();
    await unseen(f);
    await f.amend();
    f.moving = "a process does not stand still";
    f.rig.agents.after = (what) => {
      if (what === "end") f.moving = null;
    };
    await f.agent.call();
    const { incarnation } = await f.rig.replaced(f.child);
    await waitFor(() => f.asked.at(-1) === "release", 20_000, "the others go on");
    expect(f.asked.indexOf("let go")).toBe(-1);
    expect(f.asked.slice(-3)).toEqual(["hold", `replace ${incarnation}`, "release"]);
  });

  test("repair during the hard pause, not everybody stands still → who was stopped stays stopped; settled → goes on", async () => {
    const f = await family();
    await hardPaused(f);
    const { intentId } = intent(f);
    expect(f.asked).toEqual(["hold", "pause"]);
    f.rig.repo.remove("out.log", f.child.path);
    f.moving = "a process does not stand still";
    const repair = f.rig.cascade.troubles.settle(intentId, { do: "retry" }, "operation");
    await waitFor(() => f.asked.length > 4, 20_000, "it is tried again");
    expect(new Set(f.asked.slice(2))).toEqual(new Set(["hold"]));
    f.moving = null;
    await repair;
    expect(f.asked.at(-1)).toBe("let go");
    expect(intent(f).state).toBe("Reconciling");
  });

  test("the agent's call during a repair → one after the other, the first one's end continues nobody the second counts on", async () => {
    const f = await family();
    await hardPaused(f);
    f.rig.repo.remove("out.log", f.child.path);
    const from = f.asked.length;
    const repair = f.rig.cascade.troubles.settle(intent(f).intentId, { do: "retry" }, "operation");
    await waitFor(() => intent(f).recovering, 20_000, "the repair is at it");
    const [told] = await f.agent.batch();
    await repair;
    expect(told!.text).toBe(intent(f).payload);
    expect(f.asked.slice(from)).toEqual(["hold", "let go", "hold", "let go"]);
  });
});
