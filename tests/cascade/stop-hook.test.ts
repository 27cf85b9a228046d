/**
 * What the stop hook of Claude Code does (harness chapter: it is installed because each of these is tested): `finished`,
 * open passed ordinals closed, the turn's edits recorded. It never blocks the stop, completes a bound batch or
 * acknowledges.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { agentDisplay } from "../../src/core/lifecycle.ts";
import { openCalls } from "../../src/store/admissions.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Agent, Rig } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function family(): Promise<Pair> {
  const pair = await makePair();
  rigs.push(pair.rig);
  return pair;
}

function stop(agent: Agent, agentId: string | null = null): Promise<void> {
  const { session, prompt } = agent;
  return agent.event({ type: "TurnStopped", sessionId: session, agentId, promptId: prompt });
}

/** What a person sees of the agent. */
function shown({ rig, child }: Pair): string {
  const row = rig.db
    .query<{ status: "Running" | "Quiescent"; completed: number }, [string]>(
      `SELECT status, last_turn_completed AS completed FROM agent_sessions
       WHERE thread_id = ? AND retired_at IS NULL`,
    )
    .get(child.id)!;
  const more = { lastTurnCompleted: row.completed === 1, unacknowledgedAttention: false };
  return agentDisplay(row.status, more);
}

const open = (f: Pair) => openCalls(f.rig.db, f.child.incarnation).map((c) => c.toolUseId);

test("stop after a turn → finished; the next call → working; a stop of a sub-agent → still working", async () => {
  const f = await family();
  await f.agent.batch();
  expect(shown(f)).toBe("working");
  await stop(f.agent);
  expect(shown(f)).toBe("finished");
  await f.agent.call();
  expect(shown(f)).toBe("working");
  await stop(f.agent, "helper");
  expect(shown(f)).toBe("working");
});

test("stop with a passed batch open → its calls are resolved, and the next batch can be bound", async () => {
  const f = await family();
  await Promise.all([f.agent.call(), f.agent.call()]);
  expect(open(f)).toHaveLength(2);
  await stop(f.agent);
  expect(open(f)).toEqual([]);
  await f.amend("two\n");
  expect((await f.agent.call()).text).toContain("[kiki]");
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
});

test("stop of a sub-agent → only that agent's passed batch is closed", async () => {
  const f = await family();
  const mine = await f.agent.call();
  await f.agent.call(undefined, "helper");
  await stop(f.agent, "helper");
  expect(open(f)).toEqual([mine.toolUseId]);
});

test("stop with unrecorded edits → recorded once, for whoever follows", async () => {
  const f = await family();
  const follower = await f.rig.thread("docs", f.child);
  await f.rig.cascade.refreshToFrontier();
  await f.agent.batch();
  f.rig.repo.write("new.txt", "by the agent\n", f.child.path);
  await stop(f.agent);
  await waitFor(() => f.rig.intents(follower).length === 1, 20_000, "the follower's intent");
});

test("stop with a bound batch open → that batch is over and not complete, nothing is acknowledged", async () => {
  const f = await family();
  await f.amend("two\n");
  const told = await f.agent.call();
  const [before] = f.rig.intents(f.child);
  expect([told.text, before!.state]).toEqual([before!.payload, "Delivered"]);
  await stop(f.agent);
  const [after] = f.rig.intents(f.child);
  expect(after).toMatchObject({ state: "Delivered", batchCompletedAt: null, receipt: null });
  expect(open(f)).toEqual([]);
  expect(f.rig.barrier(f.child)).toBe(true);
});

test("stop after the closing event of a bound batch → complete as before, acknowledged by a later call alone", async () => {
  const f = await family();
  await f.amend("two\n");
  const told = await f.agent.call();
  await f.agent.close([told]);
  const [complete] = f.rig.intents(f.child);
  await stop(f.agent);
  const [after] = f.rig.intents(f.child);
  expect(after).toMatchObject({
    state: "Delivered",
    receipt: "matching",
    batchCompletedAt: complete!.batchCompletedAt,
  });
  expect((await f.agent.call()).text).toBeNull();
  expect(f.rig.intents(f.child)[0]!.state).toBe("Acknowledged");
});
