/**
 * Clean files that are updated, on real jj, and somebody else who writes into one in the instant in which jj replaces it:
 * jj does not look again (facts: jj §4), so the bytes are in the file's second name or nowhere.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fail as failure } from "../../src/core/errors.ts";
import { repoPaths } from "../../src/core/paths.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import { REPO_ID, type Agent, type Rig, type TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const LATE = "into the old file\n";

interface Family {
  rig: Rig;
  child: TestThread;
  agent: Agent;
  /** What the stranger does, who has the file open, once jj has replaced it. */
  stranger: { write: ((fd: number) => void) | null; after: (() => void) | null };
  move: Record<"rewrite" | "advance", () => Promise<void>>;
}

async function family(): Promise<Family> {
  const stranger: Family["stranger"] = { write: null, after: null };
  const { rig, parent, child, agent } = await makePair({
    before: { "src/parser.txt": "one\n", "gone.txt": "one\n" },
    wrapJj: (jj) => ({
      ...jj,
      async updateStale(path, token) {
        // An editor that has the file open: jj unlinks the name, the editor goes on writing into the old file.
        const fd = openSync(join(path, "src/parser.txt"), "a");
        await jj.updateStale(path, token);
        stranger.write?.(fd);
        closeSync(fd);
        stranger.after?.();
      },
    }),
  });
  rigs.push(rig);
  const amend = async (): Promise<void> => {
    rig.repo.write("src/parser.txt", "two\n", parent.path);
    rig.repo.write("new/file.txt", "new\n", parent.path);
    await rig.repo.jj(["status"], parent.path);
    await rig.cascade.refreshToFrontier();
  };
  return {
    rig,
    child,
    agent,
    stranger,
    move: {
      rewrite: amend,
      async advance() {
        await rig.repo.jj(["new", "-m", "step"], parent.path);
        await amend();
      },
    },
  };
}

const intent = (f: Family) => f.rig.intents(f.child)[0]!;

/** Second names that are still there, wherever kiki may put them. */
function links(f: Family): string[] {
  const { recovery } = repoPaths(f.rig.stateDir, REPO_ID);
  const beside = existsSync(recovery) ? readdirSync(recovery) : [];
  return [...beside, ...readdirSync(join(f.child.path, ".jj"))].filter((name) =>
    /\.links$|kiki-kept/.test(name),
  );
}

async function expectTold(f: Family): Promise<void> {
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.rig.file(f.child, "src/parser.txt")).toBe("two\n");
  expect(f.rig.attention(f.child)).toEqual([]);
  expect(links(f)).toEqual([]);
}

function expectLoud(f: Family): void {
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(
    readFileSync(join(intent(f).recoveryBundle!, "files-late/src/parser.txt"), "utf8"),
  ).toEndWith(LATE);
  const said = f.rig.attention(f.child).filter((text) => text.includes("written into while jj"));
  expect(said).toEqual([expect.stringContaining("src/parser.txt was written into")]);
}

describe.each(["rewrite", "advance"] as const)("clean stale files, %s", (kind) => {
  test("nobody writes → told, no second name and no bundle left", async () => {
    const f = await family();
    await f.move[kind]();
    await expectTold(f);
    const { recovery } = repoPaths(f.rig.stateDir, REPO_ID);
    expect(existsSync(recovery) ? readdirSync(recovery) : []).toEqual([]);
  });

  test("somebody writes into a file in the instant jj replaces it → bytes kept, for a person, loud", async () => {
    const f = await family();
    await f.move[kind]();
    f.stranger.write = (fd) => writeSync(fd, LATE);
    const [answer] = await f.agent.batch();
    expect(answer!.text).toContain("waits for a person");
    expectLoud(f);
    f.stranger.write = null;
    // A person who has seen to it: the agent is told as ever.
    const trouble = await f.rig.cascade.troubles.look(f.child.id);
    const { commit } = (trouble as { copies: { commit: string }[] }).copies[0]!;
    await f.rig.cascade.troubles.settle(intent(f).intentId, { do: "adopt", commit }, "op");
    expect((await f.agent.batch())[0]!.text).toBe(intent(f).payload);
    expect(f.rig.file(f.child, "src/parser.txt")).toBe("two\n");
  });
});

describe("clean stale files", () => {
  test("in that instant it is opened for writing, and nothing is written → told", async () => {
    const f = await family();
    await f.move.rewrite();
    f.stranger.write = () => undefined;
    await expectTold(f);
  });

  test("written into, and the daemon dies before it can look → the next one finds the bytes, loud", async () => {
    const f = await family();
    await f.move.rewrite();
    f.stranger.write = (fd) => writeSync(fd, LATE);
    let armed = true;
    await f.rig.reboot({
      at(name) {
        if (!armed || name !== "intent.update-stale.effected") return;
        armed = false;
        throw new Error("crash");
      },
    });
    await f.agent.batch();
    expect([armed, links(f).length]).toEqual([false, 1]);
    f.stranger.write = null;
    await f.rig.reboot();
    await f.agent.batch();
    expectLoud(f);
  });

  test.each([
    "intent.links.before",
    "intent.links.effected",
    "intent.update-stale.before",
    "intent.update-stale.effected",
  ] as const)(
    "daemon dies at %s, nobody wrote → the next one tells, no second name left",
    async (point) => {
      const f = await family();
      await f.move.rewrite();
      let armed = true;
      await f.rig.reboot({
        at(name) {
          if (!armed || name !== point) return;
          armed = false;
          throw new Error("crash");
        },
      });
      await f.agent.batch();
      expect(armed).toBe(false);
      await f.rig.reboot();
      const [answer] = await f.agent.batch();
      expect(answer!.text).toBe(intent(f).payload);
      expect(f.rig.file(f.child, "src/parser.txt")).toBe("two\n");
      expect(links(f)).toEqual([]);
    },
  );

  test("written into, and jj's command is said to have failed → loud all the same", async () => {
    const f = await family();
    await f.move.rewrite();
    f.stranger.write = (fd) => writeSync(fd, LATE);
    f.stranger.after = () => {
      f.stranger.after = null;
      throw failure("failed", "jj-failed", "its answer was lost");
    };
    await f.agent.batch();
    expectLoud(f);
  });
});
