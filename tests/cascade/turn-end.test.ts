/** What an agent's turn end does: its edits are recorded for its followers, and nothing else happens. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { JjOperation } from "../../src/ports/jj.ts";
import { liveAttributions } from "../../src/store/ops.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Agent, Rig, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return pair;
}

function stop(agent: Agent, agentId: string | null = null): Promise<void> {
  return agent.event({
    type: "TurnStopped",
    sessionId: agent.session,
    agentId,
    promptId: agent.prompt,
  });
}

/** Everything the stop set off is over; what happened to the operation log since. */
async function settledSince(rig: Rig, before: string): Promise<JjOperation[]> {
  await rig.cascade.stop();
  const all = await rig.jj.operations(await rig.repo.head(), 50);
  return all.slice(
    0,
    all.findIndex((op) => op.id === before),
  );
}

describe.each([{ colocated: false }, { colocated: true }])(
  "turn end on real jj, colocated $colocated",
  (kind) => {
    test("edits nobody recorded → one attributed snapshot, the follower's intent is there without any jj command", async () => {
      const { rig, parent, child } = await family(kind);
      const agent = rig.agent(parent);
      await agent.batch();
      const before = await rig.repo.head();
      rig.repo.write("parser.txt", "two\n", parent.path);
      await stop(agent);
      await waitFor(() => rig.intents(child).length === 1, 20_000, "the child's intent");
      expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([
        ["NativeRewrite", "Detected"],
      ]);
      expect(rig.intents(child)[0]!.toBase).toBe(await rig.head(parent));
      const made = await settledSince(rig, before);
      expect(made.map((op) => op.isSnapshot)).toEqual([true]);
      expect(made[0]!.args).toContain("kiki.token=");
      expect(liveAttributions(rig.db)).toEqual([]);
      const row = rig.db
        .query("SELECT thread_head_commit_id AS head FROM threads WHERE thread_id = ?")
        .get(parent.id);
      expect(row).toEqual({ head: await rig.head(parent) });

      await rig.reboot();
      expect((await rig.agent(child).batch())[0]!.text).toContain("+two");
      expect(rig.file(child, "parser.txt")).toBe("two\n");
    });
  },
);

test("agent that only knows git commits in its workspace → imported at the turn's end, the follower hears of it", async () => {
  const { rig, parent, child } = await family({ colocated: true });
  rig.repo.write("lexer.txt", "lexer\n", parent.path);
  await rig.repo.git(["add", "-A"], parent.path);
  await rig.repo.git(
    ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "by git"],
    parent.path,
  );
  await stop(rig.agent(parent));
  await waitFor(() => rig.intents(child).length === 1, 20_000, "the child's intent");
  const [answer] = await rig.agent(child).batch();
  expect(answer!.text).toContain("by git");
  expect(rig.file(child, "lexer.txt")).toBe("lexer\n");
});

test("snapshot is `never` → the edits stay as they are", async () => {
  const { rig, parent, child } = await family({ settings: { snapshot: "never" } });
  const before = await rig.repo.head();
  rig.repo.write("parser.txt", "two\n", parent.path);
  await stop(rig.agent(parent));
  expect(await settledSince(rig, before)).toEqual([]);
  expect(rig.intents(child)).toEqual([]);
});

test("nothing was edited → no operation", async () => {
  const { rig, parent } = await family();
  const before = await rig.repo.head();
  await stop(rig.agent(parent));
  expect(await settledSince(rig, before)).toEqual([]);
});

test("a sub-agent's call is still running, or only a sub-agent stopped → no snapshot", async () => {
  const { rig, parent } = await family();
  const agent = rig.agent(parent);
  const before = await rig.repo.head();
  rig.repo.write("parser.txt", "two\n", parent.path);
  await stop(agent, "helper-2");
  expect((await agent.call(agent.newId(), "helper-1")).text).toBeNull();
  await stop(agent);
  expect(await settledSince(rig, before)).toEqual([]);
});

test("workspace is stale → no snapshot, no file changes; the work waits for the boundary", async () => {
  const { rig, parent, child } = await family();
  rig.repo.write("parser.txt", "two\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
  rig.repo.write("tests.txt", "unrecorded\n", child.path);
  const before = await rig.repo.head();
  await stop(rig.agent(child));
  expect(await settledSince(rig, before)).toEqual([]);
  expect(rig.file(child, "parser.txt")).toBe("one\n");
  expect(rig.file(child, "tests.txt")).toBe("unrecorded\n");
});

test("batch is bound when the turn stops → not completed, not acknowledged, nothing recorded", async () => {
  const { rig, parent, child } = await family();
  rig.repo.write("parser.txt", "two\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  await rig.cascade.refreshToFrontier();
  const agent = rig.agent(child);
  const answer = await agent.call();
  expect(answer.text).not.toBeNull();
  rig.repo.write("tests.txt", "after the payload\n", child.path);
  const before = await rig.repo.head();
  await stop(agent);
  expect(await settledSince(rig, before)).toEqual([]);
  expect(rig.intents(child)[0]).toMatchObject({
    state: "Delivered",
    batchCompletedAt: null,
    receipt: null,
  });
  expect(rig.barrier(child)).toBe(true);
});

test("call that passed → its batch ends with the turn, so the next one is a batch of its own; the agent counts as finished", async () => {
  const { rig, parent } = await family();
  const agent = rig.agent(parent);
  await agent.call();
  await stop(agent);
  const rows = rig.db.query("SELECT batch_end, resolution FROM tool_admissions").all();
  expect(rows).toEqual([{ batch_end: "ended", resolution: "batch-ended" }]);
  const session = rig.db
    .query("SELECT status, last_turn_completed AS done FROM agent_sessions WHERE thread_id = ?")
    .get(parent.id);
  expect(session).toEqual({ status: "Quiescent", done: 1 });
});

test("jj takes its time → the stop is answered at once, the next call is answered too", async () => {
  const gate = Promise.withResolvers<void>();
  let began = false;
  const { rig, parent, child } = await family({
    wrapJj: (jj) => ({
      ...jj,
      async snapshot(root, token) {
        began = true;
        await gate.promise;
        await jj.snapshot(root, token);
      },
    }),
  });
  const agent = rig.agent(parent);
  rig.repo.write("parser.txt", "two\n", parent.path);
  await stop(agent);
  await waitFor(() => began, 10_000, "the snapshot");
  agent.prompt = "prompt-2";
  expect((await agent.batch())[0]!.text).toBeNull();
  expect(rig.intents(child)).toEqual([]);
  gate.resolve();
  await waitFor(() => rig.intents(child).length === 1, 20_000, "the child's intent");
});

test("daemon dies after jj recorded and before it is written down → the next one records what followers missed", async () => {
  let snapshots = 0;
  const { rig, parent, child } = await family({
    wrapJj: (jj) => ({
      ...jj,
      async snapshot(root, token) {
        await jj.snapshot(root, token);
        snapshots += 1;
        await new Promise(() => undefined); // the answer never arrives
      },
    }),
  });
  rig.repo.write("parser.txt", "two\n", parent.path);
  await stop(rig.agent(parent));
  await waitFor(() => snapshots === 1, 20_000, "the snapshot");
  // Read as its handler's own, which owes the meaning.
  await rig.cascade.refreshToFrontier();
  expect(rig.intents(child)).toEqual([]);
  expect(liveAttributions(rig.db)).toMatchObject([{ handler: "snapshot" }]);
  rig.cascade = rig.cascadeOn(rig.db);
  await rig.cascade.start();
  expect(rig.intents(child).map((i) => [i.kind, i.state])).toEqual([["NativeRewrite", "Detected"]]);
  expect(liveAttributions(rig.db)).toEqual([]);
});
