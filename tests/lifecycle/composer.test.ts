/** A harness that names its conversations itself, and reports them with the first prompt only (Codex). */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { liveSession, sessionById } from "../../src/store/sessions.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, Rig } from "./rig.ts";

let rig: Rig;
const folder = tempDir("composer");
beforeEach(() => {
  rig = new Rig(folder);
  rig.harness.naming = "harness";
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

const silent = { harness: "codex", prompt: null };
const codex = () => inputFor("t", silent);

/** Lets the clock run until the condition holds; a creation polls the pane once a second. */
async function inTime(condition: () => boolean, seconds = 70): Promise<boolean> {
  for (let i = 0; i < seconds * 2 && !condition(); i += 1) {
    rig.clock.advance(500);
    for (let j = 0; j < 20; j += 1) await Bun.sleep(0);
  }
  return condition();
}

test("start without a prompt: its process with the secret, its composer → Active, no session yet", async () => {
  rig.agent = "composer";
  const { threadId } = await rig.create(codex());
  expect(await inTime(() => rig.thread(threadId).lifecycle === "Active")).toBe(true);
  const session = liveSession(rig.db, threadId)!;
  expect(session).toMatchObject({ harnessSessionId: null, sessionStartedAt: null });
  expect(session.readyAt).not.toBeNull();
  expect(rig.harness.requests.at(-1)).toMatchObject({ sessionId: null, resume: false });
  // The first prompt brings the session, and with it its name.
  await rig.creation.sessionStarted(session.incarnation, "01a2");
  expect(liveSession(rig.db, threadId)).toMatchObject({
    harnessSessionId: "01a2",
    readyAt: session.readyAt,
  });
});

test("start with a prompt: its composer alone → not ready; its session → Active, under its name", async () => {
  rig.agent = "composer";
  const { threadId } = await rig.create(inputFor("t", { harness: "codex" }));
  expect(await inTime(() => rig.thread(threadId).lifecycle !== "Creating", 20)).toBe(false);
  const { incarnation } = liveSession(rig.db, threadId)!;
  await rig.creation.sessionStarted(incarnation, "01a2");
  expect(await inTime(() => rig.thread(threadId).lifecycle === "Active")).toBe(true);
  expect(liveSession(rig.db, threadId)?.harnessSessionId).toBe("01a2");
});

test.each([
  ["another environment", { env: ["KIKI_INCARNATION_SECRET=another"] }],
  ["another program", { argv: ["/usr/bin/vim"] }],
])("composer in the pane, but %s in the process → not ready", async (_what, found) => {
  rig.agent = "silent";
  const { threadId } = await rig.create(codex());
  expect(await inTime(() => (liveSession(rig.db, threadId)?.pid ?? null) !== null)).toBe(true);
  const { pid, incarnation } = liveSession(rig.db, threadId)!;
  const launch = rig.harness.requests.at(-1)!;
  Object.assign(rig.processes.get(pid!), {
    argv: ["/usr/bin/claude"],
    env: [`KIKI_INCARNATION_SECRET=${launch.incarnationSecret}`],
    ...found,
  });
  for (const pane of rig.tmux.panes) pane.text = "COMPOSER";
  expect(await inTime(() => sessionById(rig.db, incarnation)?.readyAt !== null, 30)).toBe(false);
});

test("a dialog above the composer → asked for, not ready", async () => {
  rig.agent = "composer";
  rig.composer = "Do you trust this folder? COMPOSER";
  const { threadId } = await rig.create(codex());
  await inTime(() => openAttention(rig.db, threadId).length > 0, 20);
  expect(openAttention(rig.db, threadId).map(({ kind }) => kind)).toEqual(["startup-dialog"]);
  expect(liveSession(rig.db, threadId)?.readyAt ?? null).toBeNull();
  expect(rig.thread(threadId).lifecycle).toBe("Creating");
});

test("conversation that was spoken in → taken up again by the name the harness gave it", async () => {
  rig.agent = "composer";
  const { threadId } = await rig.create(codex());
  await inTime(() => rig.thread(threadId).lifecycle === "Active");
  const first = liveSession(rig.db, threadId)!;
  const { agents } = rig.creation;
  await agents.replace(threadId, { words: null }, () => () => undefined);
  // Nobody has said anything: there is nothing to take up.
  expect(rig.harness.requests.at(-1)).toMatchObject({ resume: false, sessionId: null });
  const second = liveSession(rig.db, threadId)!;
  expect(second.incarnation).not.toBe(first.incarnation);
  await rig.creation.sessionStarted(second.incarnation, "01a2");
  rig.db.run("UPDATE agent_sessions SET prompts = 1 WHERE agent_session_id = ?", [
    second.incarnation,
  ]);
  await agents.replace(threadId, { words: null }, () => () => undefined);
  expect(rig.harness.requests.at(-1)).toMatchObject({
    resume: true,
    sessionId: "01a2",
    prompt: null,
  });
});

test("launch that gives a capability up → the incarnation has it not", async () => {
  rig.agent = "composer";
  const prepare = rig.harness.prepare.bind(rig.harness);
  rig.harness.prepare = async (request) => ({
    ...(await prepare(request)),
    proofs: [
      {
        name: "boundary-setting",
        takes: ["parallel_batch_boundary"],
        outcome: "not-tried",
        reason: "not wanted",
      },
    ],
  });
  const { threadId } = await rig.create(codex());
  await inTime(() => rig.thread(threadId).lifecycle === "Active");
  expect(liveSession(rig.db, threadId)?.capabilities).toMatchObject({
    parallel_batch_boundary: false,
    restart_startup_delivery: true,
  });
});
