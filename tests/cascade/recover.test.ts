/**
 * Edits that an agent made without jj while its parent moved, on real jj: recovered quietly where every byte is proved,
 * loud everywhere else.
 */
import { isThorough, thorough } from "../support/thorough.ts";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair({
    ...options,
    before: { "parser.txt": "one\n1\n2\n3\n4\n5\n" },
  });
  rigs.push(pair.rig);
  return pair;
}

const intent = (f: Pair, n = 0) => f.rig.intents(f.child)[n]!;

function withJj(over: (jj: JjRepo) => Partial<JjRepo>): { wrapJj(jj: JjRepo): JjRepo } {
  return { wrapJj: (jj) => ({ ...jj, ...over(jj) }) };
}

/** Delivered within the call that was held, and acknowledged by the next turn: the same incarnation went on. */
async function expectDelivered(f: Pair): Promise<string> {
  const [answer] = await f.agent.batch();
  expect(intent(f)).toMatchObject({ state: "Delivered", softRedeliveryCount: 0 });
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.rig.attention(f.child)).toEqual([]);
  expect((await f.agent.call()).text).toBeNull();
  expect(intent(f).state).toBe("Acknowledged");
  expect(await f.rig.repo.commit("divergent()")).toBe("");
  return answer!.text!;
}

describe.each([{ colocated: false }, { colocated: true }])(
  "unrecorded edits on stale files, colocated $colocated",
  (kind) => {
    // The default suite has each of them once: what git has to do with it is shown by the second.
    const alone = kind.colocated ? thorough : test;
    const besideGit = kind.colocated ? test : thorough;

    alone(
      "scenario 2: rewrite after an unsnapshotted edit → parent's change and edits visible, same incarnation, bundle and commit named",
      async () => {
        const f = await family(kind);
        f.rig.repo.write("tests.txt", "recorded\n", f.child.path);
        await f.rig.repo.jj(["status"], f.child.path);
        f.rig.repo.write("tests.txt", "recorded\nand not\n", f.child.path);
        f.rig.repo.write("dir/new.sh", "#!/bin/sh\n", f.child.path);
        f.rig.repo.chmod("dir/new.sh", 0o755, f.child.path);
        f.rig.repo.symlink("tests.txt", "link", f.child.path);
        await f.amend("two\n1\n2\n3\n4\n5\n");
        const payload = await expectDelivered(f);
        expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n4\n5\n");
        expect(f.rig.file(f.child, "tests.txt")).toBe("recorded\nand not\n");
        expect(f.rig.file(f.child, "dir/new.sh")).toBe("#!/bin/sh\n");
        expect(f.rig.file(f.child, "link")).toBe("recorded\nand not\n");
        const bundle = intent(f).recoveryBundle!;
        expect(readFileSync(`${bundle}/files/tests.txt`, "utf8")).toBe("recorded\nand not\n");
        expect(existsSync(`${bundle}/links`)).toBe(false);
        expect(payload).toContain(bundle);
        const [choice] = intent(f).recoveryChoice as {
          adopted: string;
          edits: string;
          by: string;
        }[];
        expect(choice).toMatchObject({ by: "kiki", adopted: await f.rig.head(f.child) });
        expect(payload).toContain(choice!.edits.slice(0, 12));
        expect(await f.rig.repo.jj(["file", "show", "-r", choice!.edits, "tests.txt"])).toBe(
          "recorded\nand not\n",
        );
        if (kind.colocated) {
          const at = await f.rig.repo.git(["rev-parse", "HEAD"], f.child.path);
          expect(at.trim()).toBe(await f.rig.repo.commit(`${await f.rig.head(f.child)}-`));
        }
        const bookmarks = await f.rig.repo.jj([
          "bookmark",
          "list",
          "kk/tests",
          "--ignore-working-copy",
        ]);
        expect(bookmarks).not.toContain("conflicted");
        expect(await f.rig.repo.commit("kk/tests")).toBe(await f.rig.head(f.child));
      },
    );

    besideGit(
      "parent adds a revision under a stale, edited child → recovered, then rebased",
      async () => {
        const f = await family(kind);
        f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
        await f.amend("two\n1\n2\n3\n4\n5\n");
        await f.advance("lexer.txt");
        for (let n = 0; n < 3; n += 1) await f.agent.batch();
        expect(f.rig.intents(f.child).map((i) => i.state)).not.toContain("RecoveryRequired");
        expect(f.rig.file(f.child, "tests.txt")).toBe("not recorded\n");
        expect(f.rig.file(f.child, "parser.txt")).toStartWith("two\n");
        expect(f.rig.file(f.child, "lexer.txt")).toBe("lexer.txt\n");
        expect(f.rig.attention(f.child)).toEqual([]);
      },
    );

    alone(
      "scenario 8: both changed the same lines → conflict framing, both sides in the file, the edit's bytes in the bundle",
      async () => {
        const f = await family(kind);
        f.rig.repo.write("parser.txt", "the child's\n1\n2\n3\n4\n5\n", f.child.path);
        await f.amend("two\n1\n2\n3\n4\n5\n");
        const payload = await expectDelivered(f);
        expect(payload).toContain("Conflicts, marked in the files");
        expect(payload).toContain("  parser.txt");
        const text = f.rig.file(f.child, "parser.txt")!;
        expect(text).toContain("the child's");
        expect(text).toContain("two");
        expect(text).toContain("<<<<<<<");
        expect(readFileSync(`${intent(f).recoveryBundle}/files/parser.txt`, "utf8")).toStartWith(
          "the child's",
        );
      },
    );

    thorough("both changed one file in different places → merged, nothing lost", async () => {
      const f = await family(kind);
      f.rig.repo.write("parser.txt", "one\n1\n2\n3\n4\nfive\n", f.child.path);
      await f.amend("two\n1\n2\n3\n4\n5\n");
      await expectDelivered(f);
      expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n4\nfive\n");
    });

    thorough("deleted and renamed here, changed there → the deletion stays an edit", async () => {
      const f = await family(kind);
      f.rig.repo.remove("base.txt", f.child.path);
      f.rig.repo.write("moved.txt", "line 1\nline 2\nline 3\n", f.child.path);
      await f.amend("two\n1\n2\n3\n4\n5\n");
      await expectDelivered(f);
      expect(f.rig.file(f.child, "base.txt")).toBeNull();
      expect(f.rig.file(f.child, "moved.txt")).toBe("line 1\nline 2\nline 3\n");
    });

    thorough("a thread follows the child → its revisions come along, and it is told", async () => {
      const f = await family(kind);
      const docs = await f.rig.thread("docs", f.child);
      f.rig.repo.write("docs.txt", "docs\n", docs.path);
      await f.rig.repo.jj(["status"], docs.path);
      await f.rig.repo.jj(["status"], f.child.path);
      await f.rig.cascade.refreshToFrontier();
      f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
      await f.amend("two\n1\n2\n3\n4\n5\n");
      await expectDelivered(f);
      const on = await f.rig.repo.commit(`${await f.rig.head(docs)}-`);
      expect(on).toBe(await f.rig.head(f.child));
      for (let n = 0; n < 3; n += 1) await f.rig.agent(docs).batch();
      expect(f.rig.file(docs, "tests.txt")).toBe("not recorded\n");
      expect(f.rig.file(docs, "parser.txt")).toStartWith("two\n");
      expect(f.rig.file(docs, "docs.txt")).toBe("docs\n");
      expect(f.rig.intents(docs).every((i) => i.state === "Acknowledged")).toBe(true);
      expect(f.rig.attention(docs)).toEqual([]);
    });
  },
);

describe("an agent that only knows git", () => {
  thorough(
    "scenario 11: commits on fresh files, parent adds a revision → its commit is imported, kept in the chain and rebased",
    async () => {
      const f = await family({ colocated: true });
      f.rig.repo.write("tests.txt", "with git\n", f.child.path);
      await f.rig.repo.git(["add", "-A"], f.child.path);
      await f.rig.repo.git(["commit", "-q", "-m", "the agent's commit"], f.child.path);
      await f.advance("lexer.txt");
      await expectDelivered(f);
      expect(f.rig.file(f.child, "tests.txt")).toBe("with git\n");
      expect(f.rig.file(f.child, "lexer.txt")).toBe("lexer.txt\n");
      const log = await f.rig.repo.git(["log", "--format=%s", "-2"], f.child.path);
      expect(log).toContain("the agent's commit");
    },
  );

  test("scenario 11: commits on stale files → HEAD pinned and put back, edits recovered, the commit named, parent's change not reverted", async () => {
    const f = await family({ colocated: true });
    f.rig.repo.write("tests.txt", "with git\n", f.child.path);
    await f.rig.repo.git(["add", "-A"], f.child.path);
    await f.rig.repo.git(["commit", "-q", "-m", "the agent's commit"], f.child.path);
    const own = (await f.rig.repo.git(["rev-parse", "HEAD"], f.child.path)).trim();
    f.rig.repo.write("later.txt", "not committed\n", f.child.path);
    await f.amend("two\n1\n2\n3\n4\n5\n");
    const payload = await expectDelivered(f);
    expect(f.rig.file(f.child, "parser.txt")).toStartWith("two\n");
    expect(f.rig.file(f.child, "tests.txt")).toBe("with git\n");
    expect(f.rig.file(f.child, "later.txt")).toBe("not committed\n");
    const ref = `refs/kiki/${intent(f).intentId}`;
    expect((await f.rig.repo.git(["rev-parse", ref])).trim()).toBe(own);
    expect(payload).toContain(own.slice(0, 12));
    expect(payload).toContain(ref);
    const head = (await f.rig.repo.git(["rev-parse", "HEAD"], f.child.path)).trim();
    expect(head).toBe(await f.rig.head(f.parent));
    // The parent's old revision did not come back, and nothing of the agent's went.
    expect(await f.rig.repo.jj(["status"], f.child.path)).toContain("A tests.txt");
    expect(f.rig.file(f.child, "parser.txt")).toStartWith("two\n");
  });
});

test("scenario 9: daemon outage, the agent edits stale files meanwhile → never taken for clean: recovered at the next boundary", async () => {
  const f = await family();
  await f.agent.batch();
  await f.rig.cascade.stop();
  // Nobody watches: the parent moves, and the agent's call passes unseen and writes.
  f.rig.repo.write("parser.txt", "two\n1\n2\n3\n4\n5\n", f.parent.path);
  await f.rig.repo.jj(["status"], f.parent.path);
  f.agent.passUnseen("toolu_outage");
  f.rig.repo.write("parser.txt", "one\n1\n2\n3\n4\nfive\n", f.child.path);
  f.agent.spool({
    type: "BatchClosed",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    calls: [{ toolUseId: "toolu_outage", toolName: "Tool", response: "ran" }],
  });
  await f.rig.reboot();
  await f.rig.cascade.refreshToFrontier();
  await expectDelivered(f);
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n4\nfive\n");
});

// ---- the instant between kiki's last look and jj's ---------------------------------------------------------------

test("an edit lands between the last look and jj's update → found in jj's divergent copy, adopted, visible", async () => {
  let race: ((path: string) => void) | null = null;
  const f = await family(
    withJj((jj) => ({
      updateStale(path, token) {
        race?.(path);
        race = null;
        return jj.updateStale(path, token);
      },
    })),
  );
  await f.amend("two\n1\n2\n3\n4\n5\n");
  race = (path) => f.rig.repo.write("late.txt", "written at the last moment\n", path);
  const payload = await expectDelivered(f);
  expect(f.rig.file(f.child, "late.txt")).toBe("written at the last moment\n");
  expect(f.rig.file(f.child, "parser.txt")).toStartWith("two\n");
  expect(payload).toContain("You had edits");
});

test("files drift between the look and jj's stale recovery → bundled again, both states kept, the newest visible", async () => {
  let probes = 0;
  let write: (() => void) | null = null;
  const f = await family(
    withJj((jj) => ({
      async probe(root, name, op) {
        const seen = await jj.probe(root, name, op);
        if (seen.state === "StaleDirty") probes += 1;
        if (probes === 2) write?.();
        return seen;
      },
    })),
  );
  f.rig.repo.write("tests.txt", "first\n", f.child.path);
  await f.amend("two\n1\n2\n3\n4\n5\n");
  write = () => {
    write = null;
    f.rig.repo.write("tests.txt", "second\n", f.child.path);
  };
  await expectDelivered(f);
  const bundle = intent(f).recoveryBundle!;
  expect(readFileSync(`${bundle}/files/tests.txt`, "utf8")).toBe("first\n");
  expect(readFileSync(`${bundle}/files-2/tests.txt`, "utf8")).toBe("second\n");
  expect(f.rig.file(f.child, "tests.txt")).toBe("second\n");
});

test("somebody writes into a file in the instant jj replaces it → the bytes are kept, and it is loud", async () => {
  let race: ((path: string) => void) | null = null;
  const f = await family(
    withJj((jj) => ({
      async updateStale(path, token) {
        // An editor that has the file open: jj unlinks the name, the editor goes on writing into the old file.
        const fd = openSync(join(path, "parser.txt"), "a");
        await jj.updateStale(path, token);
        if (race !== null) writeSync(fd, "into the old file\n");
        race = null;
        closeSync(fd);
      },
    })),
  );
  f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
  await f.amend("two\n1\n2\n3\n4\n5\n");
  race = () => undefined;
  const [answer] = await f.agent.batch();
  expect(answer!.text).toContain("waits for a person");
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(readFileSync(`${intent(f).recoveryBundle}/files-late/parser.txt`, "utf8")).toEndWith(
    "into the old file\n",
  );
  expect(f.rig.attention(f.child)).toHaveLength(1);
  expect(f.rig.attention(f.child)[0]).toContain("parser.txt was written into");
});

test.each(isThorough ? (["edit", "abandon"] as const) : (["edit"] as const))(
  "parent amends once more right before recovery's %s → still one choice, the newest base, nothing divergent",
  async (step) => {
    let meanwhile: (() => Promise<void>) | null = null;
    const first = async (): Promise<void> => {
      const act = meanwhile;
      meanwhile = null;
      await act?.();
    };
    const f: Pair = await family(
      withJj((jj) => ({
        [step]: async (...args: unknown[]) => {
          await first();
          return (jj[step] as (...a: unknown[]) => Promise<void>).apply(jj, args);
        },
      })),
    );
    f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
    await f.amend("two\n1\n2\n3\n4\n5\n");
    meanwhile = async () => {
      f.rig.repo.write("parser.txt", "three\n1\n2\n3\n4\n5\n", f.parent.path);
      await f.rig.repo.jj(["status"], f.parent.path);
    };
    for (let n = 0; n < 4; n += 1) await f.agent.batch();
    expect(f.rig.file(f.child, "tests.txt")).toBe("not recorded\n");
    expect(f.rig.file(f.child, "parser.txt")).toStartWith("three\n");
    const states = new Set(f.rig.intents(f.child).map((i) => i.state));
    expect([...states].filter((s) => s !== "Acknowledged" && s !== "Superseded")).toEqual([]);
    expect(f.rig.attention(f.child)).toEqual([]);
    expect(await f.rig.repo.commit("divergent()")).toBe("");
  },
);

// ---- loud ------------------------------------------------------------------------------------------------------

/** Stays for a person: nothing moved, every byte where it was, said once. */
async function expectLoud(f: Pair, why: string): Promise<void> {
  const head = await f.rig.repo.head();
  const [answer] = await f.agent.batch();
  expect(answer!.text).toContain("waits for a person");
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(f.rig.attention(f.child)).toHaveLength(1);
  expect(f.rig.attention(f.child)[0]).toContain(why);
  expect(await f.rig.repo.head()).toBe(head);
  expect((await f.agent.batch())[0]!.text).toContain("waits for a person");
  await f.rig.reboot();
  expect((await f.agent.batch())[0]!.text).toContain("waits for a person");
  expect(f.rig.attention(f.child)).toHaveLength(1);
  expect(f.rig.barrier(f.child)).toBe(true);
}

test("an ignored file lies where the parent brings one → loud, bundled, not touched", async () => {
  const f = await family();
  f.rig.repo.write("out.log", "the agent's log\n", f.child.path);
  await f.rig.repo.jj(["file", "track", "--include-ignored", "x"], f.parent.path).catch(() => "");
  f.rig.repo.write(".gitignore", "build/\n", f.parent.path);
  f.rig.repo.write("out.log", "the parent's\n", f.parent.path);
  await f.amend("two\n1\n2\n3\n4\n5\n");
  await expectLoud(f, "out.log is in the way");
  expect(f.rig.file(f.child, "out.log")).toBe("the agent's log\n");
  expect(readFileSync(`${intent(f).recoveryBundle}/files/out.log`, "utf8")).toBe(
    "the agent's log\n",
  );
});

test("the child's revision was changed elsewhere as well → loud, nothing touched", async () => {
  const f = await family();
  f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
  await f.amend("two\n1\n2\n3\n4\n5\n");
  f.rig.repo.write("other.txt", "somebody's\n");
  await f.rig.repo.jj(["squash", "--into", await f.rig.head(f.child), "-m", "mixed"]);
  await f.rig.cascade.refreshToFrontier();
  await expectLoud(f, "changed elsewhere");
  expect(f.rig.file(f.child, "tests.txt")).toBe("not recorded\n");
});

test("somebody's revision stands on the child, edits on stale files → loud, nothing touched", async () => {
  const f = await family();
  await f.rig.repo.jj(["new", "--no-edit", "-m", "somebody's", await f.rig.head(f.child)]);
  f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
  await f.amend("two\n1\n2\n3\n4\n5\n");
  await expectLoud(f, "which is no thread's");
});

test("the operation the files are from is gone → loud, every file that is not ignored bundled", async () => {
  const f = await family();
  f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
  writeFileSync(
    Buffer.concat([Buffer.from(`${f.child.path}/`), Buffer.from([0xff, 0xfe])]),
    "raw\n",
  );
  await f.amend("two\n1\n2\n3\n4\n5\n");
  // `jj op abandon` and a garbage collection later.
  const checkout = readFileSync(join(f.child.path, ".jj/working_copy/checkout"));
  const op = checkout.subarray(2, 66).toString("hex");
  rmSync(join(f.rig.jj.headsFolder, "../../op_store/operations", op));
  const [answer] = await f.agent.batch();
  expect(answer!.text).toContain("waits for a person");
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  const bundle = intent(f).recoveryBundle!;
  for (const path of ["tests.txt", "base.txt", "parser.txt", ".gitignore"])
    expect(readFileSync(`${bundle}/files/${path}`)).toEqual(readFileSync(join(f.child.path, path)));
  expect(readFileSync(`${bundle}/files-raw/fffe`, "utf8")).toBe("raw\n");
  expect(f.rig.file(f.child, "parser.txt")).toStartWith("one\n");
});
