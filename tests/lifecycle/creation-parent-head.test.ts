/** What the creation of a follower writes about the thread it follows, beside a watcher that reads the same repository. */
import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { setHead } from "../../src/store/edges.ts";
import { discoverOp, markProcessed } from "../../src/store/ops.ts";
import { allThreads } from "../../src/store/threads.ts";
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
