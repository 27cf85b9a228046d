/** What the simulation found first: hooks, batches and operations that go on while a boundary is being settled. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { GENERIC_DENY_REASON } from "../../src/core/generic-deny.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import type { Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
afterAll(removeTempDirs);

interface Pair {
  rig: Rig;
  child: TestThread;
  amend: (text: string) => Promise<void>;
}

async function pair(wrapJj: (jj: JjRepo) => JjRepo = (jj) => jj): Promise<Pair> {
  const { rig, parent, child } = await makePair({ wrapJj, before: {} });
  return {
    rig,
    child,
    async amend(text) {
      rig.repo.write("parser.txt", text, parent.path);
      await rig.repo.jj(["status"], parent.path);
    },
  };
}

test("hook of a held call died, its batch closed, the next one is held while kiki still reads → nothing is bound to the old batch", async () => {
  let slow: Promise<void> | null = null;
  const reading = Promise.withResolvers<void>();
  const reads = (jj: JjRepo): JjRepo => ({
    ...jj,
    async heads() {
      if (slow !== null) {
        reading.resolve();
        await slow;
      }
      return jj.heads();
    },
  });
  const { rig, child, amend } = await pair(reads);
  await amend("two\n");
  await rig.cascade.refreshToFrontier();
  const agent = rig.agent(child);
  const { promise, resolve } = Promise.withResolvers<void>();
  slow = promise;

  const first = await agent.ask("toolu_a");
  if (first.decision !== "hold") throw new Error(`not held: ${first.decision}`);
  const connection = new AbortController();
  const denied = agent.confirm(first.token, connection.signal);
  await reading.promise;
  connection.abort();
  await denied;
  agent.passUnseen("toolu_a");
  await agent.close([{ toolUseId: "toolu_a", text: null }]);
  agent.prompt = "prompt-2";
  const second = await agent.ask("toolu_b");
  if (second.decision !== "hold") throw new Error(`not held: ${second.decision}`);
  const answer = agent.confirm(second.token);
  slow = null;
  resolve();
  expect((await answer).decision).toBe("pass");
  expect(rig.intents(child)[0]).toMatchObject({ state: "Detected", barrier: null });
  await agent.close([{ toolUseId: "toolu_b", text: null }]);

  const told = await agent.call();
  expect(told.text).toContain("parser");
  await agent.close([told]);
  await agent.call();
  expect(rig.intents(child)[0]!.state).toBe("Acknowledged");
  expect(rig.attention(child)).toEqual([]);
  await rig.close();
});

test("a hook recorded its pass in a blocked batch and has not seen the marker yet, daemon boots → boot goes on, the call counts as refused", async () => {
  const { rig, child, amend } = await pair();
  await amend("two\n");
  await rig.cascade.refreshToFrontier();
  const agent = rig.agent(child);
  const told = await agent.call();
  expect(rig.barrier(child)).toBe(true);
  agent.passUnseen("toolu_late");
  await rig.reboot();
  await agent.close([told, { toolUseId: "toolu_late", text: GENERIC_DENY_REASON }]);
  expect(rig.intents(child)[0]).toMatchObject({ receipt: "matching" });
  await agent.call();
  expect(rig.intents(child)[0]!.state).toBe("Acknowledged");
  await rig.close();
});

test("parent moves twice under a reconciliation, daemon dies before it reads that → operations older than the new anchor are read all the same", async () => {
  const { rig, child, amend } = await pair();
  await amend("two\n");
  await rig.cascade.refreshToFrontier();
  const agent = rig.agent(child);
  let looks = 0;
  const heads = rig.jj.heads.bind(rig.jj);
  // Between the last complete reading, which lists the heads once, and the pinned view: nobody interprets these two.
  rig.jj.heads = async () => {
    if (rig.intents(child)[0]?.state === "Reconciling") looks += 1;
    if (looks === 2) {
      looks += 1;
      await amend("three\n");
      await amend("four\n");
    }
    return heads();
  };
  const told = await agent.call();
  await agent.close([told]);
  await rig.reboot();
  const [head] = await rig.jj.heads();
  expect(await rig.cascade.refreshToFrontier()).toEqual([head!]);
  for (let n = 0; n < 4; n += 1) await agent.batch();
  expect(rig.file(child, "parser.txt")).toBe("four\n");
  expect(
    rig.intents(child).every((i) => i.state === "Acknowledged" || i.state === "Superseded"),
  ).toBe(true);
  await rig.close();
});
