/** What must be durable before an agent can start, and what alone makes a thread Active. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { CREATE_PLAN } from "../../src/core/plans/agent.ts";
import { crashPoints } from "../../src/core/saga.ts";
import { threadCredential } from "../../src/store/credentials.ts";
import { liveSession, openGate } from "../../src/store/sessions.ts";
import { failureOf } from "../support/failure.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { inputFor, pathsFor, Rig } from "./rig.ts";

const folder = tempDir("launch-order");
let rig: Rig;
afterEach(() => rig.close());
afterAll(removeTempDirs);

describe("launch gate", () => {
  test("gate: at every moment before its own transaction → closed, also to the pane that waits; after it, everything it needs is durable", async () => {
    rig = new Rig(folder);
    const open: string[] = [];
    let opened: Record<string, boolean> = {};
    rig.onPoint = (name) => {
      const threadId = rig.db
        .query<{ id: string }, []>("SELECT thread_id AS id FROM threads")
        .get()!.id;
      if (openGate(rig.db, threadId) === null) return;
      open.push(name);
      if (name !== "Create.gate.completed") return;
      const thread = rig.thread(threadId);
      const paths = pathsFor(threadId);
      const launch = JSON.parse(rig.files.get(`${paths.harness}/launch.json`)!) as {
        files: Record<string, string>;
      };
      opened = {
        credential: threadCredential(rig.db, threadId) !== null,
        credentialFile: rig.files.get(paths.credential) !== null,
        hooks: Object.keys(launch.files).every((file) => rig.files.get(file) !== null),
        head: thread.head !== null && rig.jj.at(thread.workspaceName) === thread.head,
        checkpoint: rig.jj.bookmark(thread.bookmark) === thread.checkpoint,
        session: rig.tmux.sessions.some((s) => s.id === thread.tmuxSessionId),
        creating: thread.lifecycle === "Creating",
      };
    };
    await rig.made(inputFor("parser"));
    const points = crashPoints(CREATE_PLAN);
    const before = points.slice(0, points.indexOf("Create.gate.completed"));
    expect(before.filter((point) => open.includes(point))).toEqual([]);
    expect(opened).toEqual({
      credential: true,
      credentialFile: true,
      hooks: true,
      head: true,
      checkpoint: true,
      session: true,
      creating: true,
    });
  });

  for (const [what, damage] of [
    [
      "head and checkpoint",
      "UPDATE threads SET thread_head_commit_id = NULL, thread_head_change_id = NULL, thread_head_op_id = NULL, checkpoint_commit_id = NULL",
    ],
    ["checkpoint", "UPDATE threads SET checkpoint_commit_id = NULL"],
    ["tmux session", "UPDATE threads SET tmux_session_id = NULL"],
    ["credential", "UPDATE credentials SET revoked_at = 1"],
  ] as const) {
    test(`gate: ${what} missing when it would open → CreateFailed, nothing was started`, async () => {
      rig = new Rig(folder);
      rig.onPoint = (name) => {
        if (name === "Create.gate.before") rig.db.run(damage);
      };
      const thread = await rig.made(inputFor("parser"));
      expect(thread.lifecycle).toBe("CreateFailed");
      expect(rig.error(thread.threadId)).toContain(
        "a launch gate needs credential, head, checkpoint and tmux session",
      );
      expect(rig.spawned).toEqual([]);
    });
  }

  test("gate: a generated file changed before it opens → CreateFailed, the file is named, nothing was started", async () => {
    rig = new Rig(folder);
    let changed = "";
    rig.onPoint = (name) => {
      if (name !== "Create.gate.before") return;
      changed = rig.files.below("/state").find((file) => file.endsWith("settings.json"))!;
      rig.files.put(changed, "{}");
    };
    const thread = await rig.made(inputFor("parser"));
    expect(thread.lifecycle).toBe("CreateFailed");
    expect(rig.error(thread.threadId)).toContain(`${changed} was changed after kiki had proved it`);
    expect(rig.spawned).toEqual([]);
  });
});

describe("ready handshake", () => {
  /** A thread whose agent runs and says nothing. */
  async function silent(): Promise<{ threadId: string; incarnation: string }> {
    rig = new Rig(folder);
    rig.agent = "silent";
    const { threadId } = await rig.create(inputFor("parser"));
    await rig.until(() => liveSession(rig.db, threadId)?.pid != null, "process reported");
    return { threadId, incarnation: liveSession(rig.db, threadId)!.incarnation };
  }

  test("ready: another incarnation's handshake → refused or without effect; the matching one → Active", async () => {
    const { threadId, incarnation } = await silent();
    expect(await failureOf(rig.creation.sessionStarted("nobody", "x"))).toMatchObject({
      code: "unknown-incarnation",
    });
    rig.agent = "ready";
    const other = await rig.made(inputFor("other"));
    const { incarnation: foreign } = liveSession(rig.db, other.threadId)!;
    await rig.creation.sessionStarted(foreign, "x");
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    await rig.creation.sessionStarted(incarnation, "conversation");
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Active");
  });

  test("ready: a hook outlives the harness whose session was killed → its handshake does not count, CreateFailed", async () => {
    const { threadId, incarnation } = await silent();
    rig.processes.add(process.pid);
    rig.tmux.personKills(rig.tmux.sessions[0]!.id);
    await rig.creation.sessionStarted(incarnation, "conversation");
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    const ticking = setInterval(() => rig.clock.advance(100), 0);
    await rig.ended(threadId).finally(() => clearInterval(ticking));
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.tmux.sessions).toEqual([]);
  });

  test("ready: settings changed since they were proved → the handshake does not count, CreateFailed", async () => {
    const { threadId, incarnation } = await silent();
    const file = rig.files.below("/state").find((path) => path.endsWith("settings.json"))!;
    rig.files.put(file, "{}");
    await rig.creation.sessionStarted(incarnation, "conversation");
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.error(threadId)).toContain("was changed after kiki had proved it");
  });

  test("ready: process reported, again and again → still Creating: exec'd is not ready", async () => {
    const { threadId, incarnation } = await silent();
    const { pid, startTime } = liveSession(rig.db, threadId)!;
    for (let n = 0; n < 3; n += 1) rig.creation.harnessStarted(incarnation, pid!, startTime!);
    expect([rig.thread(threadId).lifecycle, rig.creation.isReady(incarnation)]).toEqual([
      "Creating",
      false,
    ]);
  });
});
