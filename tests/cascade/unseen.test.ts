/**
 * Edits that are hard to see, on real jj: what is behind a symlink that took a folder's place, what left a file's size and
 * time alone, what lies in somebody else's repository.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { join } from "node:path";
import { fail } from "../../src/core/errors.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

interface Family {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  move(files: Record<string, string>): Promise<void>;
}

async function family(over: (jj: JjRepo) => Partial<JjRepo> = () => ({})): Promise<Family> {
  const { rig, parent, child, agent } = await makePair({
    wrapJj: (jj) => ({ ...jj, ...over(jj) }),
    before: { "a.txt": "1\n2\n3\n", "d/x": "1\n2\n3\n", "d/y": "1\n2\n3\n" },
    own: { "own.txt": "own\n" },
  });
  rigs.push(rig);
  return {
    rig,
    parent,
    child,
    agent,
    async move(files) {
      for (const [path, text] of Object.entries(files)) rig.repo.write(path, text, parent.path);
      await rig.repo.jj(["status"], parent.path);
      await rig.cascade.refreshToFrontier();
    },
  };
}

const intent = (f: Family) => f.rig.intents(f.child)[0]!;

test("a folder is replaced by a symlink to another one, and edited there → brought along, nothing behind the symlink is touched", async () => {
  const f = await family();
  const outside = join(f.rig.repo.dir, "outside");
  mkdirSync(outside);
  f.rig.repo.write("x", "1\n2\n3\nmine\n", outside);
  f.rig.repo.write("y", "1\n2\n3\n", outside);
  rmSync(join(f.child.path, "d"), { recursive: true });
  symlinkSync("../outside", join(f.child.path, "d"));
  await f.move({ "a.txt": "one\n2\n3\n" });
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(readlinkSync(join(f.child.path, "d"))).toBe("../outside");
  expect(readFileSync(join(outside, "x"), "utf8")).toBe("1\n2\n3\nmine\n");
  expect(f.rig.file(f.child, "a.txt")).toBe("one\n2\n3\n");
  expect(f.rig.attention(f.child)).toEqual([]);
  const files = join(intent(f).recoveryBundle!, "files");
  expect(lstatSync(join(files, "d")).isSymbolicLink()).toBe(true);
});

test.each(["rewrite", "advance"])(
  "an edit that keeps a file's size and time, parent changes the file, %s → loud, copied, not overwritten",
  async (how) => {
    const f = await family();
    const path = join(f.child.path, "a.txt");
    const { atime, mtime } = lstatSync(path);
    // Whole milliseconds: what jj compares.
    const then = new Date(Math.floor(mtime.getTime()));
    f.rig.repo.write("a.txt", "4\n5\n6\n", f.child.path);
    utimesSync(path, atime, then);
    if (how === "advance") await f.rig.repo.jj(["new", "-m", "step"], f.parent.path);
    await f.move({ "a.txt": "one\n2\n3\n" });
    const [answer] = await f.agent.batch();
    expect(answer!.text).toContain("waits for a person");
    expect(f.rig.file(f.child, "a.txt")).toBe("4\n5\n6\n");
    expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
    expect(f.rig.attention(f.child).join()).toContain("a.txt was edited, and has the size");
    const copy = readFileSync(join(intent(f).recoveryBundle!, "files/a.txt"), "utf8");
    expect(copy).toBe("4\n5\n6\n");
  },
);

test("the parent adds a file where the child has a repository of its own → loud: jj would record that it is gone", async () => {
  const f = await family();
  mkdirSync(join(f.child.path, "vendor"));
  await f.rig.repo.git(["init", "-q"], join(f.child.path, "vendor"));
  f.rig.repo.write("vendor/mine", "mine\n", f.child.path);
  await f.move({ "vendor/lib": "lib\n" });
  const [answer] = await f.agent.batch();
  expect(answer!.text).toContain("waits for a person");
  expect(f.rig.attention(f.child).join()).toContain("vendor/lib is in the way");
  expect(f.rig.file(f.child, "vendor/mine")).toBe("mine\n");
  expect(f.rig.file(f.child, "vendor/lib")).toBeNull();
});

test("jj takes too long to show what changed → told without it", async () => {
  const late = (): Promise<never> =>
    Promise.reject(fail("failed", "jj-timeout", "jj could not show a diff: it did not finish"));
  const f = await family(() => ({ diff: late }));
  await f.move({ "a.txt": "one\n2\n3\n" });
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(answer!.text).toContain("it took jj too long");
});

test("a folder takes a file's place in the parent → told", async () => {
  const f = await family();
  f.rig.repo.remove("a.txt", f.parent.path);
  await f.move({ "a.txt/in/deep": "new\n" });
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.rig.file(f.child, "a.txt/in/deep")).toBe("new\n");
});
