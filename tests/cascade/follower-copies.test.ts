/**
 * jj's stale recovery records a child's edits beside what was recorded meanwhile, and shows the revisions of whoever
 * follows the child twice. Who follows works on while kiki puts that in order; real jj.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const DIES = "the daemon dies";

interface Three extends Pair {
  docs: TestThread;
  /** Runs right after the next stale recovery of jj's in the child, before kiki looks. */
  afterNextUpdate(act: () => Promise<void>): void;
}

/** `docs` follows the child, which has edits nobody recorded; the parent has moved. */
async function three(): Promise<Three> {
  let act: (() => Promise<void>) | null = null;
  let child = "";
  const pair = await makePair({
    before: { "parser.txt": "one\n1\n2\n3\n4\n5\n" },
    wrapJj: (jj: JjRepo) => ({
      ...jj,
      async updateStale(path, token) {
        await jj.updateStale(path, token);
        const now = path === child ? act : null;
        if (now === null) return;
        act = null;
        await now();
      },
    }),
  });
  rigs.push(pair.rig);
  const { rig } = pair;
  child = pair.child.path;
  const docs = await rig.thread("docs", pair.child);
  rig.repo.write("docs.txt", "docs\n", docs.path);
  await rig.repo.jj(["status"], docs.path);
  // The operation the child's files are from knows of `docs`: what is recorded on it moves that along.
  rig.repo.write("early.txt", "recorded\n", pair.child.path);
  await rig.repo.jj(["status"], pair.child.path);
  await rig.cascade.refreshToFrontier();
  for (let n = 0; n < 2; n += 1) await rig.agent(docs).batch();
  rig.repo.write("tests.txt", "not recorded\n", pair.child.path);
  await pair.amend("two\n1\n2\n3\n4\n5\n");
  return {
    ...pair,
    docs,
    afterNextUpdate: (next) => void (act = next),
  };
}

async function expectAllInOrder(
  { rig, child, docs, agent }: Three,
  first = "two\n",
): Promise<void> {
  for (let n = 0; n < 3; n += 1) await agent.batch();
  for (let n = 0; n < 4; n += 1) await rig.agent(docs).batch();
  for (const thread of [child, docs]) {
    expect(rig.attention(thread).filter((said) => !said.includes(DIES))).toEqual([]);
    const states = new Set(rig.intents(thread).map((i) => i.state));
    expect(states.difference(new Set(["Acknowledged", "Superseded"]))).toEqual(new Set());
    expect(rig.file(thread, "tests.txt")).toBe("not recorded\n");
    expect(rig.file(thread, "parser.txt")).toStartWith(first);
  }
  expect(await rig.repo.commit("divergent()")).toBe("");
  expect(await rig.repo.commit(`${await rig.head(docs)}-`)).toBe(await rig.head(child));
}

test("who follows records an edit between jj's stale recovery and kiki's look → its older copy goes, its edit stays", async () => {
  const t = await three();
  t.afterNextUpdate(async () => {
    await t.rig.repo.jj(["workspace", "update-stale"], t.docs.path);
    t.rig.repo.write("docs.txt", "docs, and more\n", t.docs.path);
    await t.rig.repo.jj(["describe", "-m", "docs"], t.docs.path);
  });
  await expectAllInOrder(t);
  expect(t.rig.file(t.docs, "docs.txt")).toBe("docs, and more\n");
});

thorough(
  "who follows was brought up to date and has recorded an edit before the child's boundary → its edit stays in its files",
  async () => {
    const t = await three();
    for (let n = 0; n < 2; n += 1) await t.rig.agent(t.docs).batch();
    t.rig.repo.write("docs.txt", "docs, and more\n", t.docs.path);
    await t.rig.repo.jj(["describe", "-m", "docs"], t.docs.path);
    await expectAllInOrder(t);
    expect(t.rig.file(t.docs, "docs.txt")).toBe("docs, and more\n");
  },
);

thorough(
  "who follows has an edit nobody recorded, and so has the child → both are brought along",
  async () => {
    const t = await three();
    t.rig.repo.write("docs.txt", "docs, and more\n", t.docs.path);
    await expectAllInOrder(t);
    expect(t.rig.file(t.docs, "docs.txt")).toBe("docs, and more\n");
  },
);

thorough(
  "who follows records an edit while its own second copy is there, and again after it → both edits stay",
  async () => {
    const t = await three();
    t.afterNextUpdate(async () => {
      await t.rig.repo.jj(["workspace", "update-stale"], t.docs.path);
      for (const word of ["first", "second"]) {
        t.rig.repo.write(`${word}.txt`, `${word}\n`, t.docs.path);
        await t.rig.repo.jj(["describe", "-m", word], t.docs.path);
      }
      await t.rig.repo.jj(["new", "-m", "third"], t.docs.path);
      t.rig.repo.write("third.txt", "third\n", t.docs.path);
      await t.rig.repo.jj(["status"], t.docs.path);
    });
    for (let n = 0; n < 3; n += 1) await t.agent.batch();
    for (let n = 0; n < 4; n += 1) await t.rig.agent(t.docs).batch();
    expect([t.rig.attention(t.child), t.rig.attention(t.docs)]).toEqual([[], []]);
    for (const word of ["first", "second", "third"])
      expect(t.rig.file(t.docs, `${word}.txt`)).toBe(`${word}\n`);
    expect(t.rig.file(t.docs, "tests.txt")).toBe("not recorded\n");
    expect(await t.rig.repo.commit("divergent()")).toBe("");
  },
);

thorough(
  "the parent moves once more while jj shows the child and who follows it twice → nobody is called diverged",
  async () => {
    const t = await three();
    t.afterNextUpdate(async () => {
      await t.rig.repo.jj(["workspace", "update-stale"], t.docs.path);
      t.rig.repo.write("docs.txt", "docs, and more\n", t.docs.path);
      await t.rig.repo.jj(["describe", "-m", "docs"], t.docs.path);
      await t.amend("two, again\n1\n2\n3\n4\n5\n");
      expect(t.rig.attention(t.docs)).toEqual([]);
    });
    await expectAllInOrder(t, "two, again\n");
    expect(t.rig.file(t.docs, "docs.txt")).toBe("docs, and more\n");
  },
);

thorough(
  "the daemon dies while it recovers who follows, and the child is to be rebased first at the next start → not given up",
  async () => {
    const t = await three();
    for (let n = 0; n < 2; n += 1) await t.agent.batch();
    // Who follows has files of an older operation and an edit nobody recorded.
    t.rig.repo.write("docs.txt", "docs, and more\n", t.docs.path);
    await t.advance("lexer.txt");
    const points = ["intent.Detected-Reconciling.completed", "intent.update-stale.effected"];
    await t.rig.reboot({
      at(name) {
        if (name !== points[0]) return;
        points.shift();
        throw new Error(`${DIES} at ${name}`);
      },
    });
    await t.agent.batch();
    await t.rig.agent(t.docs).batch();
    expect(points).toEqual([]);
    await t.rig.reboot();
    await expectAllInOrder(t);
    expect(t.rig.file(t.docs, "docs.txt")).toBe("docs, and more\n");
    expect(t.rig.file(t.child, "lexer.txt")).toBe("lexer.txt\n");
    expect(t.rig.file(t.docs, "lexer.txt")).toBe("lexer.txt\n");
  },
);

/** A pair whose next rebase somebody comes before, right when it is to be published. */
async function published(): Promise<
  Pair & { beforeNextPublish(act: () => Promise<unknown>): void }
> {
  let race: (() => Promise<unknown>) | null = null;
  const pair = await makePair({
    own: { "tests.txt": "tests\n" },
    wrapJj: (jj: JjRepo) => ({
      ...jj,
      async integrate(op, token) {
        const now = race;
        race = null;
        await now?.();
        return jj.integrate(op, token);
      },
    }),
  });
  rigs.push(pair.rig);
  return { ...pair, beforeNextPublish: (act) => void (race = act) };
}

test("the child's agent describes its revision while kiki publishes a rebase of it → its words stay, nobody has to choose", async () => {
  const pair = await published();
  const { rig, child, agent } = pair;
  await pair.advance("lexer.txt");
  pair.beforeNextPublish(() => rig.repo.jj(["describe", "-m", "by hand"], child.path));
  for (let n = 0; n < 4; n += 1) await agent.batch();
  expect(rig.attention(child)).toEqual([]);
  expect(rig.intents(child).map((i) => i.state)).toEqual(["Acknowledged"]);
  expect(rig.file(child, "lexer.txt")).toBe("lexer.txt\n");
  expect(rig.file(child, "tests.txt")).toBe("tests\n");
  expect(await rig.repo.commit("divergent()")).toBe("");
  const words = await rig.repo.jj([
    "log",
    "--no-graph",
    "-r",
    await rig.head(child),
    "-T",
    "description",
  ]);
  expect(words).toBe("by hand\n");
});

thorough(
  "who follows describes its revision while kiki publishes a rebase of the child, and the parent moves on → both follow, its words stay",
  async () => {
    const pair = await published();
    const { rig, child, agent } = pair;
    const docs = await rig.thread("docs", child);
    rig.repo.write("docs.txt", "docs\n", docs.path);
    await rig.repo.jj(["status"], docs.path);
    await pair.advance("lexer.txt");
    pair.beforeNextPublish(() => rig.repo.jj(["describe", "-m", "by hand"], docs.path));
    for (let n = 0; n < 2; n += 1) await agent.batch();
    await pair.advance("later.txt");
    for (let n = 0; n < 2; n += 1) await agent.batch();
    for (let n = 0; n < 4; n += 1) await rig.agent(docs).batch();
    expect([rig.attention(child), rig.attention(docs)]).toEqual([[], []]);
    for (const file of ["lexer.txt", "later.txt"])
      expect([rig.file(child, file), rig.file(docs, file)]).toEqual([`${file}\n`, `${file}\n`]);
    expect(await rig.repo.commit("divergent()")).toBe("");
    const at = await rig.head(docs);
    expect(await rig.repo.jj(["log", "--no-graph", "-r", at, "-T", "description"])).toBe(
      "by hand\n",
    );
    expect(await rig.repo.commit(`${at}-`)).toBe(await rig.head(child));
  },
);
