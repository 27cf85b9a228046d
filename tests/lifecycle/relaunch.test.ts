/** Stopping, ending and starting an agent anew: processes, gate and rows, with the cascade's part as a stand-in. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { liveSession, sessionById, sessionsOf } from "../../src/store/sessions.ts";
import { heldBy } from "../../src/store/stopped-processes.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, pathsFor, Rig } from "./rig.ts";

const folder = tempDir("relaunch");
const INTENT = "intent-1";
let rig: Rig;
let thread: string;

beforeEach(async () => {
  rig = new Rig(folder);
  rig.processes.add(process.pid);
  thread = (await rig.made(inputFor("parser"))).threadId;
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

const agents = () => rig.creation.agents;
const live = () => liveSession(rig.db, thread)!;
const mark = () => [`KIKI_INCARNATION=${live().incarnation}`];
const held = () => heldBy(rig.db, { kind: "intent", id: INTENT });
/** Time passes while it is waited for. */
async function inTime<T>(work: Promise<T>, stepMs = 5): Promise<T> {
  const ticking = setInterval(() => rig.clock.advance(stepMs), 0);
  return work.finally(() => clearInterval(ticking));
}

/** What the wrapper reports of a process it has started. */
function processOf(incarnation: string): void {
  const { pid, startTime } = rig.processes.start(incarnation);
  rig.db.run("UPDATE agent_sessions SET pid = ?, start_time = ? WHERE agent_session_id = ?", [
    pid,
    startTime,
    incarnation,
  ]);
}

const plainly = () => agents().replace(thread, { words: null }, () => () => undefined);

test("stop → the harness and what it started stand still, the wrapper never; release → as they were found", async () => {
  const harness = live().pid!;
  rig.processes.get(harness).env = mark();
  const server = rig.processes.spawn({ parent: harness, session: 77 });
  const paused = rig.processes.spawn({ parent: harness, state: "stopped" });
  const stranger = rig.processes.spawn();
  expect(await inTime(agents().stop(thread, INTENT))).toBeNull();
  const states = () => [harness, server.pid, paused.pid].map((pid) => rig.processes.get(pid).state);
  expect(states()).toEqual(["stopped", "stopped", "stopped"]);
  expect(stranger.state).toBe("running");
  expect(rig.processes.signals.some(({ pid }) => pid === rig.tmux.panes[0]!.pid)).toBe(false);
  expect(new Set(held().map((row) => row.pid))).toEqual(new Set([harness, server.pid, paused.pid]));
  await inTime(agents().release(INTENT));
  expect(states()).toEqual(["running", "running", "stopped"]);
  expect(held()).toEqual([]);
});

test("end → exactly the harness is killed; children that the orphaned group's hangup continued are stopped again", async () => {
  const harness = live().pid!;
  rig.processes.get(harness).env = mark();
  const child = rig.processes.spawn({ parent: harness });
  await inTime(agents().stop(thread, INTENT));
  rig.processes.beforeSignal = (pid, signal) => {
    if (pid === harness && signal === "SIGKILL") child.state = "running";
  };
  expect(await inTime(agents().end(live().incarnation))).toBeNull();
  expect(rig.processes.identify(harness)).toBeNull();
  expect(child.state).toBe("running");
  expect(await inTime(agents().stop(thread, INTENT))).toBeNull();
  expect(child.state).toBe("stopped");
  const killed = rig.processes.signals.filter(({ signal }) => signal === "SIGKILL");
  expect(killed.map(({ pid }) => pid)).toEqual([harness]);
});

test("end, another process has the number now → nobody is signalled", async () => {
  const { pid, incarnation } = live();
  rig.processes.reuse(pid!);
  expect(await agents().end(incarnation)).toBeNull();
  expect(rig.processes.signals).toEqual([]);
});

test("a jj of the agent does not end → not stopped, said which, and everybody goes on", async () => {
  const harness = live().pid!;
  rig.processes.get(harness).env = mark();
  rig.processes.spawn({ parent: harness, name: "jj", argv: ["jj", "git", "fetch"] });
  const why = await inTime(agents().stop(thread, INTENT), 50);
  expect(why).toContain("jj (");
  expect(rig.processes.get(harness).state).toBe("running");
  expect(held()).toEqual([]);
});

test("replace → old incarnation retired, new settings and gate, the claim in the same transaction; started in the same pane, ready by its handshake", async () => {
  const before = live();
  rig.harness.sources = [];
  let inside: unknown = null;
  let committed = false;
  const incarnation = await agents().replace(thread, { words: null }, (made) => {
    inside = [
      rig.db.inTransaction,
      sessionById(rig.db, before.incarnation)!.retiredAt !== null,
      live().incarnation === made.incarnation,
    ];
    return () => void (committed = !rig.db.inTransaction);
  });
  expect(inside).toEqual([true, true, true]);
  expect(committed).toBe(true);
  expect(await rig.files.readText(`${pathsFor(thread).harness}/settings.json`)).toBe(
    `settings of ${incarnation}`,
  );
  expect(live()).toMatchObject({ incarnation, readyAt: null });
  expect(live().secretSha256).not.toBe(before.secretSha256);
  const asked = agents().settled(incarnation);
  const session = live();
  processOf(incarnation);
  await rig.creation.sessionStarted(incarnation, session.harnessSessionId!);
  expect(await asked).toBe("ready");
});

test("conversation that was spoken in → taken up again by its id; one that never was → a new one", async () => {
  const first = live();
  await plainly();
  expect(rig.harness.requests.at(-1)).toMatchObject({ resume: false, prompt: "write the lexer" });
  rig.db.run("UPDATE agent_sessions SET prompts = 1 WHERE agent_session_id = ?", [
    first.incarnation,
  ]);
  await plainly();
  expect(rig.harness.requests.at(-1)).toMatchObject({
    resume: true,
    sessionId: first.harnessSessionId,
    prompt: null,
  });
});

test("conversation whose record is gone → a new one, told what it is started for and what it was first asked", async () => {
  const first = live();
  rig.db.run("UPDATE agent_sessions SET prompts = 1 WHERE agent_session_id = ?", [
    first.incarnation,
  ]);
  rig.harness.gone.add(first.harnessSessionId!);
  await plainly();
  const [plain] = rig.harness.requests.slice(-1);
  expect(plain!.resume).toBe(false);
  // Not as if nothing of it were done.
  expect(plain!.prompt).toMatch(
    /^\[kiki\] Your earlier conversation could not .*\n\nwrite the lexer$/,
  );
  const told = {
    intentId: INTENT,
    epoch: 1,
    payloadSha256: "00",
    prompt: (_id: string, begunWith: string | null) => `${begunWith ?? "resumed"}: told`,
  };
  // Prepared, and then refused: there is no such intent here.
  await failureOf(agents().replace(thread, told, () => () => undefined));
  expect(rig.harness.requests.at(-1)).toMatchObject({ prompt: "write the lexer: told" });
  expect(plain!.sessionId).not.toBe(first.harnessSessionId);
});

test("somebody else hooks by now → refused before anything is started; the live incarnation stays", async () => {
  const before = live();
  rig.harness.sources = [
    { scope: "managed", path: "/etc/managed.json", text: `{"hooks":{"PreToolUse":[]}}` },
  ];
  expect(await failureOf(plainly())).toMatchObject({ code: "hooks-not-exclusive" });
  expect(live().incarnation).toBe(before.incarnation);
  expect(sessionsOf(rig.db, thread)).toHaveLength(1);
});

test("pane gone → refused, nothing minted", async () => {
  rig.tmux.personKills(rig.tmux.sessions[0]!.id);
  expect(await failureOf(plainly())).toMatchObject({ code: "agent-pane-gone" });
  expect(sessionsOf(rig.db, thread)).toHaveLength(1);
});

test("a crash is said loudly, until there is an agent again; an end that is kiki's own is not said", async () => {
  const crashed = live();
  rig.creation.harnessExited(crashed.incarnation, 1, null);
  const said = () => openAttention(rig.db, thread).map((a) => a.kind);
  expect(said()).toEqual(["agent-crashed"]);
  const incarnation = await plainly();
  processOf(incarnation);
  await rig.creation.sessionStarted(incarnation, crashed.harnessSessionId!);
  expect(said()).toEqual([]);
  await inTime(agents().end(incarnation));
  rig.creation.harnessExited(incarnation, null, 9);
  expect(said()).toEqual([]);
});

test("replacement never reports → ended, and retired with the reason", async () => {
  const incarnation = await plainly();
  expect(await inTime(agents().settled(incarnation), 1_000)).toBe("ended");
  expect(sessionById(rig.db, incarnation)).toMatchObject({
    status: "Crashed",
    lastEvent: "it did not report its start",
  });
});
