/**
 * Edits that jj's stale recovery recorded beside the visible history, and what somebody does before kiki has looked: on
 * real jj. The agent goes on where they are within its reach, and nowhere else.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Pair {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  /** Before and after jj's next update of the child's files, once. */
  next: { before?: () => Promise<void>; after?: () => Promise<void> };
  amend(text: string): Promise<void>;
}

async function pair(options: { colocated?: boolean } = {}): Promise<Pair> {
  const next: Pair["next"] = {};
  const once = async (when: "before" | "after"): Promise<void> => {
    const run = next[when];
    delete next[when];
    await run?.();
  };
  const made = await makePair({
    ...options,
    before: { "parser.txt": "one\n1\n2\n3\n" },
    wrapJj: (jj) => ({
      ...jj,
      async updateStale(path, token) {
        await once("before");
        await jj.updateStale(path, token);
        await once("after");
      },
    }),
  });
  rigs.push(made.rig);
  return { ...made, next };
}

const intent = (p: Pair) => p.rig.intents(p.child)[0]!;

/** The divergent copy that is in no workspace, as a person sees it. */
async function copyBeside(p: Pair): Promise<string> {
  return p.rig.repo.commit("divergent() ~ working_copies()");
}

function gitRefs(p: Pair): Promise<string> {
  const store = "--git-dir=.jj/repo/store/git";
  return p.rig.repo.git([store, "for-each-ref", "--format=%(objectname) %(refname)", "refs/kiki"]);
}

async function expectForAPerson(p: Pair, record: () => string): Promise<void> {
  const [answer] = await p.agent.batch();
  expect(answer!.text).toContain("waits for a person");
  expect(intent(p)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(p.rig.attention(p.child)).toHaveLength(1);
  expect(p.rig.attention(p.child)[0]).toContain(record().slice(0, 12));
  // However jj collects its operations later.
  const ref = `refs/kiki/${intent(p).intentId}-${record().slice(0, 12)}`;
  expect(await gitRefs(p)).toContain(`${record()} ${ref}`);
}

/** jj's record of the edits: the oldest version of the copy that has them. */
async function recordOf(p: Pair, copy: string, file: string): Promise<string> {
  const log = await p.rig.repo.jj(
    ["evolog", "--no-graph", "-r", copy, "-T", 'commit.commit_id() ++ "\n"'],
    p.parent.path,
  );
  for (const id of log.trim().split("\n").toReversed()) {
    const files = await p.rig.repo.jj(["file", "list", "-r", id], p.parent.path);
    if (files.split("\n").includes(file)) return id;
  }
  throw new Error(`no version of ${copy} has ${file}`);
}

test("edit lands in the update, its copy is abandoned before the look → for a person, jj's record named", async () => {
  const p = await pair();
  await p.amend("two\n1\n2\n3\n");
  let record = "";
  p.next.before = async () => p.rig.repo.write("late.txt", "late\n", p.child.path);
  p.next.after = async () => {
    const copy = await copyBeside(p);
    record = await recordOf(p, copy, "late.txt");
    await p.rig.repo.jj(["abandon", copy], p.parent.path);
  };
  await expectForAPerson(p, () => record);
});

test("recovery's copy is abandoned, then other edits come and are recovered → the first ones are not forgotten", async () => {
  const p = await pair();
  p.rig.repo.write("first.txt", "first\n", p.child.path);
  await p.amend("two\n1\n2\n3\n");
  let record = "";
  p.next.after = async () => {
    const copy = await copyBeside(p);
    record = await recordOf(p, copy, "first.txt");
    await p.rig.repo.jj(["abandon", copy], p.parent.path);
    p.rig.repo.write("second.txt", "second\n", p.child.path);
    p.rig.repo.write("parser.txt", "three\n1\n2\n3\n", p.parent.path);
    await p.rig.repo.jj(["status"], p.parent.path);
  };
  await expectForAPerson(p, () => record);
  expect(await p.rig.repo.jj(["file", "show", "-r", record, "first.txt"], p.parent.path)).toBe(
    "first\n",
  );
});

test("recovery's copy is squashed into the one on disk → its edits are there, and the agent goes on", async () => {
  const p = await pair();
  p.rig.repo.write("first.txt", "first\n", p.child.path);
  await p.amend("two\n1\n2\n3\n");
  p.next.after = async () => {
    const copy = await copyBeside(p);
    const into = await p.rig.head(p.child);
    await p.rig.repo.jj(["squash", "-u", "--from", copy, "--into", into], p.child.path);
  };
  await p.agent.batch();
  expect(intent(p).state).toBe("Delivered");
  expect(p.rig.file(p.child, "first.txt")).toBe("first\n");
  expect(p.rig.file(p.child, "parser.txt")).toStartWith("two\n");
  expect(p.rig.attention(p.child)).toEqual([]);
});

test("two copies, the agent commits with git, the parent moves again → HEAD put back, the edits not left behind", async () => {
  const p = await pair({ colocated: true });
  p.rig.repo.write("tests.txt", "edited\n", p.child.path);
  await p.amend("two\n1\n2\n3\n");
  let own = "";
  p.next.after = async () => {
    await p.rig.repo.git(["commit", "-q", "--allow-empty", "-m", "the agent's"], p.child.path);
    own = (await p.rig.repo.git(["rev-parse", "HEAD"], p.child.path)).trim();
    p.rig.repo.write("parser.txt", "three\n1\n2\n3\n", p.parent.path);
    await p.rig.repo.jj(["status"], p.parent.path);
  };
  await p.agent.batch();
  expect(intent(p).state).toBe("Delivered");
  expect(p.rig.file(p.child, "tests.txt")).toBe("edited\n");
  expect(p.rig.file(p.child, "parser.txt")).toStartWith("three\n");
  expect(await p.rig.repo.commit("divergent()")).toBe("");
  const ref = `refs/kiki/${intent(p).intentId}`;
  expect((await p.rig.repo.git(["rev-parse", ref])).trim()).toBe(own);
});
