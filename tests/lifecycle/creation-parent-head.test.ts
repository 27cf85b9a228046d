/** What the creation of a follower writes about the thread it follows, beside a watcher that reads the same repository. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { MAX_LOOKS } from "../../src/lifecycle/creation-jj.ts";
import { setHead } from "../../src/store/edges.ts";
import { discoverOp, markProcessed } from "../../src/store/ops.ts";
import { allThreads, type ThreadRow } from "../../src/store/threads.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { AGREED, inputFor, Rig } from "./rig.ts";

const folder = tempDir("creation-parent-head");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

test("creation: the watcher read a newer head of the parent while the base was pinned → the head does not go back", async () => {
  const parent = await rig.made(inputFor("parser"));
  const input = inputFor("tests", { follows: "parser" });
  const { digest } = await rig.creation.plan(input);
  const workspaces = rig.jj.workspaces.bind(rig.jj);
  const now = 1;
  const known = (opId: string, parents: string[]): void => {
    const row = { description: "", isSnapshot: false, workspaceName: null, token: null };
    discoverOp(rig.db, { opId, parents, ...row }, now);
    markProcessed(rig.db, opId, now);
  };
  let moved: { commit: string; op: string } | null = null;
  rig.jj.workspaces = async (op) => {
    const view = await workspaces(op);
    const making = allThreads(rig.db).find((t) => t.slug === "tests");
    if (moved === null && making !== undefined) {
      known(op, []);
      const commit = rig.jj.amend("kk-parser", { "lexer.ts": "1" });
      moved = { commit, op: rig.jj.head };
      known(moved.op, [op]);
      const head = (await workspaces(moved.op)).find((w) => w.workspace === "kk-parser")!;
      setHead(rig.db, parent.threadId, { commit, change: head.changeId, op: moved.op });
    }
    return view;
  };
  // Before the workspace is made the base is looked at once more, which would hide it.
  rig.crashAt = "Create.workspace.before";
  await rig.creation.create({ ...input, digest }, AGREED);
  await rig.until(() => !rig.alive, "daemon died");
  rig.boot();
  // Synchronously: what it finds, before it goes on.
  const cached = rig.thread(parent.threadId);
  expect(moved).not.toBeNull();
  expect({ commit: cached.head, op: cached.headOp }).toEqual(moved!);
});

/** What is left of a creation that has failed, in kiki and in jj. */
async function leftOf({ threadId, slug }: ThreadRow): Promise<string[]> {
  const workspaces = (await rig.jj.workspaces(rig.jj.head)).map((w) => w.workspace);
  const bookmarks = (await rig.jj.bookmarks(rig.jj.head)).map((b) => b.name);
  const left = [...workspaces, ...bookmarks].filter((one) => one.includes(slug));
  return [rig.thread(threadId).lifecycle, ...left];
}

test("creation: the parent is rewritten between every look and its turn → given up after 20, said, nothing is left", async () => {
  await rig.made(inputFor("parser"));
  const heads = rig.jj.heads.bind(rig.jj);
  let [moves, looks] = [0, 0];
  const existing = rig.jj.existing.bind(rig.jj);
  rig.jj.heads = async () => {
    const step = allThreads(rig.db).find((t) => t.slug === "tests" && t.lifecycle === "Creating");
    if (step !== undefined && step.base !== null)
      rig.jj.amend("kk-parser", { "lexer.ts": `${(moves += 1)}` });
    return heads();
  };
  rig.jj.existing = async (op, commits) => {
    const found = await existing(op, commits);
    if (found.some((one) => one?.hidden)) looks += 1;
    return found;
  };
  const thread = await rig.made(inputFor("tests", { follows: "parser" }));
  rig.jj.heads = heads;
  const error = rig.error(thread.threadId);
  expect(error).toContain("is rewritten faster than a workspace can be made on it");
  expect(error).toContain("run kk new again");
  // At each of its turns, and at each look but the first.
  expect(looks).toBe(2 * MAX_LOOKS - 1);
  expect(await leftOf(thread)).toEqual(["CreateFailed"]);
});

test("creation: the new @ is rewritten before every try to put the bookmark on it → given up after 20, said, nothing is left", async () => {
  const createBookmark = rig.jj.createBookmark.bind(rig.jj);
  let tries = 0;
  rig.jj.createBookmark = (name, commit, token, of) => {
    rig.jj.in("kk-tests").describe(`try ${(tries += 1)}`);
    return createBookmark(name, commit, token, of);
  };
  const thread = await rig.made(inputFor("tests"));
  const error = rig.error(thread.threadId);
  expect(error).toContain("kk-tests@ is rewritten faster than bookmark kk/tests can be put on it");
  expect(error).toContain("run kk new again");
  expect(tries).toBe(MAX_LOOKS);
  expect(await leftOf(thread)).toEqual(["CreateFailed"]);
});
