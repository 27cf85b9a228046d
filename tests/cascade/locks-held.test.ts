/** A lock of jj's or git's that somebody holds while kiki brings a child along: for a moment, for ever, or left by the dead. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { holdLock } from "../support/hold-lock.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

/** The parent is a revision ahead, and the child has an edit to be recorded: snapshot, rebase and files are to be done. */
async function pair(): Promise<Pair> {
  const made = await makePair({ stoppedCommandMs: 2_500 });
  const { rig, parent, child } = made;
  rigs.push(rig);
  await rig.repo.jj(["new", "-m", "lexer"], parent.path);
  rig.repo.write("lexer.txt", "lexer\n", parent.path);
  await rig.repo.jj(["status"], parent.path);
  rig.repo.write("own.txt", "own\n", child.path);
  await rig.cascade.refreshToFrontier();
  return made;
}

/** How a lock is held: jj's is an flock of the file, git's is the file. */
interface Kind {
  path: string;
  hold: (file: string) => Promise<() => Promise<void>>;
}
const flock: Kind["hold"] = async (file) => {
  const held = await holdLock(file);
  return () => held.release();
};
const asFile: Kind["hold"] = (file) => {
  writeFileSync(file, "");
  return Promise.resolve(async () => rmSync(file));
};
const KINDS: Record<string, Kind> = {
  "jj's lock on its operation heads": { path: ".jj/repo/op_heads/heads/lock", hold: flock },
  "git's packed-refs.lock": { path: ".jj/repo/store/git/packed-refs.lock", hold: asFile },
};

async function expectTold({ rig, parent, child }: Pair, text: string | null): Promise<void> {
  const [intent, ...more] = rig.intents(child);
  expect(more).toEqual([]);
  expect(intent).toMatchObject({ state: "Delivered", payload: text });
  expect(text).toContain("A lexer.txt");
  expect(rig.file(child, "lexer.txt")).toBe("lexer\n");
  expect(rig.file(child, "own.txt")).toBe("own\n");
  expect(await rig.repo.commit("kk-tests@-")).toBe(await rig.head(parent));
  expect(await rig.repo.commit("divergent()")).toBe("");
  expect(rig.attention(child)).toEqual([]);
}

for (const [what, { path, hold }] of Object.entries(KINDS)) {
  describe(what, () => {
    test("held for a moment → waited for, told in the same call", async () => {
      const p = await pair();
      const release = await hold(join(p.rig.repo.root, path));
      const call = p.rig.agent(p.child).call();
      let answered = false;
      void call.then(() => (answered = true));
      const tokens = (): readonly string[] =>
        (p.rig.intents(p.child)[0]!.plan as { tokens: string[] } | null)?.tokens ?? [];
      // Durable right before the command that needs the lock, which then cannot have come to its end.
      await waitFor(() => tokens().length > 0, 20_000, "a command is begun");
      expect(answered).toBe(false);
      await release();
      await expectTold(p, (await call).text);
    });

    test("held for ever → given up, refused, what was to be done is durable, no file changed, the lock is still there; released → told", async () => {
      const p = await pair();
      const { rig, child } = p;
      const file = join(rig.repo.root, path);
      const release = await hold(file);
      const [refused] = await rig.agent(child).batch();
      expect(refused!.text).toContain("did not run");
      expect(rig.intents(child).map((i) => [i.state, i.payload])).toEqual([["Reconciling", null]]);
      expect(rig.barrier(child)).toBe(true);
      expect(rig.file(child, "lexer.txt")).toBeNull();
      expect(rig.file(child, "own.txt")).toBe("own\n");
      expect(existsSync(file)).toBe(true);
      await release();
      const [answer] = await rig.agent(child).batch();
      await expectTold(p, answer!.text);
    });
  });
}

test("a dead process has left the file of jj's lock behind → it is no lock, told in the same call, the file stays", async () => {
  const p = await pair();
  const file = join(p.rig.repo.root, ".jj/repo/op_heads/heads/lock");
  writeFileSync(file, "");
  await expectTold(p, (await p.rig.agent(p.child).batch())[0]!.text);
});

test("a dead git has left packed-refs.lock behind → refused twice, then a person hears of the file; kiki never removes it", async () => {
  const p = await pair();
  const file = join(p.rig.repo.root, ".jj/repo/store/git/packed-refs.lock");
  writeFileSync(file, "");
  for (let n = 0; n < 2; n += 1)
    expect((await p.rig.agent(p.child).batch())[0]!.text).toContain("did not run");
  expect(p.rig.attention(p.child)).toHaveLength(1);
  expect(p.rig.attention(p.child)[0]).toContain("packed-refs.lock");
  expect(existsSync(file)).toBe(true);
});
