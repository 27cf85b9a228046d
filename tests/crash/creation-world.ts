/** The world of the creation crash tests: a rig of fakes with one thread already there, and what must be true of it. */
import { expect } from "bun:test";
import { openAttention } from "../../src/store/attention.ts";
import { threadCredential } from "../../src/store/credentials.ts";
import { latestOperation } from "../../src/store/lifecycle-ops.ts";
import { gateOf, liveSession } from "../../src/store/sessions.ts";
import { childrenOf, threadById } from "../../src/store/threads.ts";
import { inputFor, pathsFor, Rig } from "../lifecycle/rig.ts";

/** Steps whose open gate was not proved, by crash point: nothing may ever be in here. */
export const unproved: string[] = [];

/** A machine with an Active thread `parser`, which the thread under test follows. */
export async function withParent(rig: Rig): Promise<string> {
  const parent = await rig.made(inputFor("parser"));
  expect(parent.lifecycle).toBe("Active");
  rig.files.put("/src/calc/.env", "KEY=1\n");
  rig.setup = { copy: [".env"], run: "make deps", timeoutS: 60, source: "user" };
  rig.jj.made.length = 0;
  rig.tmux.made.length = 0;
  rig.spawned.length = 0;
  rig.crashesSeen.length = 0;
  unproved.length = 0;
  rig.onPoint = (point) => {
    if (!gateIsProved(rig)) unproved.push(point);
  };
  return parent.threadId;
}

/** Whoever may pass a gate finds credential, head, checkpoint and session durable, and the credential's file in place. */
function gateIsProved(rig: Rig): boolean {
  const open = rig.db
    .query<{ threadId: string }, []>(
      "SELECT thread_id AS threadId FROM launch_gates WHERE state IN ('Activated','Claimed')",
    )
    .all();
  return open.every(({ threadId }) => {
    const thread = threadById(rig.db, threadId)!;
    const secret = rig.files.get(pathsFor(threadId).credential)?.trim();
    const row = threadCredential(rig.db, threadId);
    const sha256 = new Bun.CryptoHasher("sha256").update(secret ?? "").digest("hex");
    const durable = [thread.head, thread.checkpoint, thread.tmuxSessionId].every((v) => v !== null);
    return durable && row !== null && row.secretSha256 === sha256;
  });
}

/**
 * Creates, survives as many deaths as there are, and returns the thread once its operation has ended. What each
 * restarted daemon finds is added to `found`.
 */
export async function createThroughCrashes(rig: Rig, found: string[] = []): Promise<string> {
  const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
  const over = (): boolean => {
    if (!rig.alive) {
      rig.boot();
      found.push(rig.thread(threadId).lifecycle);
    }
    return latestOperation(rig.db, threadId)?.state !== "Running";
  };
  await rig.until(over, `operation of ${threadId} ended`);
  return threadId;
}

/** What is there exactly once for a thread that was made. */
export function expectMadeOnce(rig: Rig, threadId: string): void {
  expect(unproved).toEqual([]);
  const thread = rig.thread(threadId);
  expect(thread.lifecycle).toBe("Active");
  expect(rig.jj.made).toEqual(["workspace kk-tests", "bookmark kk/tests"]);
  expect(rig.tmux.made).toEqual(["session kk-aaaaaaaa-tests", "pane of kk-aaaaaaaa-tests"]);
  expect(rig.spawned).toHaveLength(1);
  expect(rig.jj.at("kk-tests")).toBe(thread.head);
  expect(rig.jj.bookmark("kk/tests")).toBe(thread.checkpoint);
  expect(thread.checkpoint).toBe(thread.head);
  expect(thread.base).toBe(rig.jj.at("kk-parser"));
  const session = liveSession(rig.db, threadId)!;
  expect(session.readyAt).not.toBeNull();
  expect(gateOf(rig.db, session.incarnation)?.state).toBe("Exec");
  expect(rig.steps(threadId).every((s) => s.state === "Completed")).toBe(true);
  expect(rig.recipes.commands.map((c) => c.command)).toEqual(["make deps"]);
  expect(rig.files.get("/src/calc-kiki-tests/.env")).toBe("KEY=1\n");
  expect(openAttention(rig.db, threadId)).toEqual([]);
  expect(rig.liveTokens()).toBe(0);
}

/** Nothing outside remains of a thread that could not be made; its row and journal do. */
export function expectUndone(rig: Rig, threadId: string, parent: string): void {
  expect(unproved).toEqual([]);
  const thread = rig.thread(threadId);
  expect(thread.lifecycle).toBe("CreateFailed");
  expect(rig.jj.at("kk-tests")).toBeNull();
  expect(rig.jj.bookmark("kk/tests")).toBeNull();
  expect(rig.files.kindNow("/src/calc-kiki-tests")).toBe("absent");
  expect([...rig.jj.worktrees]).toEqual(["/src/calc-kiki-parser"]);
  expect(rig.tmux.sessions.map((s) => s.name)).toEqual(["kk-aaaaaaaa-parser"]);
  expect(threadCredential(rig.db, threadId)).toBeNull();
  expect(rig.files.get(pathsFor(threadId).credential)).toBeNull();
  expect(rig.files.kindNow(pathsFor(threadId).harness)).toBe("absent");
  expect(liveSession(rig.db, threadId)).toBeNull();
  expect(rig.recipes.alive).toEqual([]);
  expect(rig.recipes.commands.length).toBeLessThanOrEqual(1);
  expect(childrenOf(rig.db, parent)).toEqual([]);
  expect([thread.head, thread.checkpoint, thread.tmuxSessionId]).toEqual([null, null, null]);
  expect(rig.liveTokens()).toBe(0);
}
