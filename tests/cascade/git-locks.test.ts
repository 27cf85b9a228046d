/** A child whose git is at work, or was ended at it, while its parent moves: on real jj and git. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { removeTempDirs } from "../support/temp.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface LockedPair extends Pair {
  lock: string;
}

/** A colocated child with an own file recorded. */
async function lockedPair(): Promise<LockedPair> {
  const pair = await makePair({
    colocated: true,
    settings: { drainMs: 200 },
    own: { "own.txt": "own\n" },
  });
  const { rig, child } = pair;
  rigs.push(rig);
  const gitDir = await rig.repo.git(["rev-parse", "--absolute-git-dir"], child.path);
  const lock = `${gitDir.trim()}/index.lock`;
  return { ...pair, lock };
}

const intent = (p: LockedPair) => p.rig.intents(p.child)[0]!;

async function changeOf(p: LockedPair): Promise<string> {
  const [op] = await p.rig.jj.heads();
  return (await p.rig.jj.workspaces(op!)).find((w) => w.workspace === "kk-tests")!.changeId;
}

async function expectDelivered(p: LockedPair, changeId: string): Promise<void> {
  const [answer] = await p.agent.batch();
  expect(answer!.text).toBe(intent(p).payload);
  expect(p.rig.file(p.child, "parser.txt")).toBe("two\n");
  expect(p.rig.file(p.child, "own.txt")).toBe("own\n");
  await p.rig.repo.jj(["status"], p.child.path);
  expect(await changeOf(p)).toBe(changeId);
  const head = await p.rig.repo.git(["rev-parse", "HEAD"], p.child.path);
  expect(head.trim()).toBe(await p.rig.head(p.parent));
}

test("git's index lock is left over in the child → refused, nothing moved, lock still there; removed → delivered", async () => {
  const p = await lockedPair();
  const changeId = await changeOf(p);
  await p.amend("two\n");
  writeFileSync(p.lock, "");
  const [refused] = await p.agent.batch();
  expect(refused!.text).toContain("did not run");
  expect(p.rig.file(p.child, "parser.txt")).toBe("one\n");
  expect(existsSync(p.lock)).toBe(true);
  expect(await changeOf(p)).toBe(changeId);
  rmSync(p.lock);
  await expectDelivered(p, changeId);
  expect(p.rig.attention(p.child)).toEqual([]);
});

test("a jj that moved HEAD was killed before it had touched a file → HEAD put back, then forward with the files", async () => {
  const p = await lockedPair();
  const changeId = await changeOf(p);
  await p.amend("two\n");
  const to = await p.rig.head(p.parent);
  await p.rig.repo.git(["update-ref", "--no-deref", "HEAD", to], p.child.path);
  await expectDelivered(p, changeId);
  expect(p.rig.attention(p.child)).toEqual([]);
});

test("the lock is there the second time as well → a person hears of the file, before the agent is ended to be told", async () => {
  const p = await lockedPair();
  await p.amend("two\n");
  writeFileSync(p.lock, "");
  for (let n = 0; n < 2; n += 1) await p.agent.batch();
  expect(p.rig.agents.asked).toEqual([]);
  expect(p.rig.attention(p.child)).toHaveLength(1);
  expect(p.rig.attention(p.child)[0]).toContain(p.lock.slice(p.lock.indexOf("/worktrees/")));
  rmSync(p.lock);
  await p.agent.batch();
  const started = await p.rig.replaced(p.child);
  expect(started.prompt).toStartWith(intent(p).payload!);
  expect(p.rig.file(p.child, "parser.txt")).toBe("two\n");
  expect(p.rig.file(p.child, "own.txt")).toBe("own\n");
});

test("boundaries that could not be bound, then one that is and meets the lock → that is its first time, nobody is called", async () => {
  const p = await lockedPair();
  const flying = await p.agent.call(undefined, "agent-7");
  await p.amend("two\n");
  for (let n = 0; n < 2; n += 1) expect((await p.agent.batch())[0]!.text).toBeNull();
  await p.agent.close([flying], "agent-7");
  writeFileSync(p.lock, "");
  expect((await p.agent.batch())[0]!.text).toContain("did not run");
  expect(intent(p).state).toBe("Reconciling");
  expect(p.rig.attention(p.child)).toEqual([]);
});
