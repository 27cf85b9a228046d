/**
 * jj is ended by the system while it writes a child's files, on real jj: what it leaves half-written is put back and never
 * taken for an edit. A limit on the size of files ends the real jj with a signal right in the middle of one file.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough, thorough } from "../support/thorough.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(120_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const LIMIT_KIB = 64;
/** Few lines: a payload shows them. */
const LARGE = Array.from(
  { length: 100 },
  (_, n) => `${n} ${"larger ".repeat(400)}
`,
).join("");
const OTHER = LARGE.replaceAll("larger", "other!");

/** `jj`: it is ended alone. `both`: the daemon dies with it. `full`: jj sees the error itself, as of a full disk. */
type Death = "jj" | "both" | "full";

interface Family {
  rig: Rig;
  parent: TestThread;
  child: TestThread;
  agent: Agent;
  /** The next commands whose words match are ended when a file grows over the limit. */
  limit(words: string, death: Death, kib?: number): void;
  unlimited(): void;
  /** What the next command of jj's finds when it begins. */
  meanwhile: { act: (() => void) | null };
  write(files: Record<string, string>): void;
  /** The parent's revision gets them, or a new one of its. */
  move(how: "rewrite" | "advance", change: () => void): Promise<void>;
}

async function family(
  options: { colocated?: boolean; before?: Record<string, string> } = {},
): Promise<Family> {
  let bin = "";
  let death: Death = "jj";
  const meanwhile: Family["meanwhile"] = { act: null };
  const dying =
    <A extends unknown[]>(run: (...args: A) => Promise<void>) =>
    async (...args: A): Promise<void> => {
      try {
        await run(...args);
      } catch (error) {
        meanwhile.act?.();
        // No error of jj's: nothing of this daemon's goes on.
        throw death === "both" ? new Error("crash") : error;
      }
    };
  const { rig, parent, child, agent } = await makePair({
    colocated: options.colocated ?? false,
    before: options.before ?? { "a.txt": "old\n", "m.txt": OTHER, "z.txt": "old\n" },
    own: { "own.txt": "own\n" },
    wrapJj: (jj: JjRepo) => ({
      ...jj,
      updateStale: dying((path: string, token: string) => jj.updateStale(path, token)),
      edit: dying((path: string, to: string, token: string) => jj.edit(path, to, token)),
    }),
    jjEnv(repo) {
      bin = join(repo.dir, "limited-bin");
      mkdirSync(bin);
      const real = Bun.which("jj", { PATH: repo.env["PATH"] ?? "" })!;
      writeFileSync(
        join(bin, "jj"),
        `#!/bin/bash\nif [ -f '${bin}/limit' ]; then . '${bin}/limit'; fi\nexec '${real}' "$@"\n`,
      );
      chmodSync(join(bin, "jj"), 0o755);
      return { ...repo.env, PATH: `${bin}:${repo.env["PATH"] ?? ""}` };
    },
  });
  rigs.push(rig);
  const put = (thread: TestThread, files: Record<string, string>): void => {
    for (const [path, text] of Object.entries(files)) rig.repo.write(path, text, thread.path);
  };
  return {
    rig,
    parent,
    child,
    meanwhile,
    agent,
    limit(words, how, kib = LIMIT_KIB) {
      death = how;
      const trap = how === "full" ? "trap '' XFSZ; " : "";
      writeFileSync(
        join(bin, "limit"),
        `case "$*" in *"${words}"*) ${trap}ulimit -c 0; ulimit -f ${kib};; esac\n`,
      );
    },
    unlimited: () => rmSync(join(bin, "limit"), { force: true }),
    write: (files) => put(child, files),
    async move(how, change) {
      if (how === "advance") await rig.repo.jj(["new", "-m", "step"], parent.path);
      change();
      await rig.repo.jj(["status"], parent.path);
      await rig.cascade.refreshToFrontier();
    },
  };
}

const intent = (f: Family) => f.rig.intents(f.child)[0]!;

function parentChange(f: Family): () => void {
  return () => {
    const at = f.parent.path;
    for (const path of ["a.txt", "n/w.txt", "z.txt"]) f.rig.repo.write(path, "new\n", at);
    f.rig.repo.write("m.txt", LARGE, at);
  };
}

/** What the agent's call comes to, after the death and, where the daemon died, with the next one. */
async function callOver(f: Family, death: Death): Promise<string> {
  f.meanwhile.act = f.meanwhile.act ?? (() => f.unlimited());
  const [first] = await f.agent.batch();
  if (death !== "both") return first!.text!;
  await f.rig.reboot();
  return (await f.agent.batch())[0]!.text!;
}

/** The child is its parent and its own work, and nothing else: no copy, no edit, no left-over. */
async function expectUpdated(f: Family): Promise<void> {
  expect(f.rig.attention(f.child).filter((text) => !/failed: crash/.test(text))).toEqual([]);
  const { repo } = f.rig;
  expect(await repo.jj(["status"], f.child.path)).toContain("Working copy");
  expect(await repo.jj(["diff", "--summary", "-r", "@"], f.child.path)).toBe("A own.txt\n");
  expect(await f.rig.repo.commit("divergent()")).toBe("");
  expect(f.rig.file(f.child, "own.txt")).toBe("own\n");
  expect(readdirSync(join(f.child.path, ".jj")).filter((name) => /kiki/.test(name))).toEqual([]);
}

function expectQuiet(f: Family, answer: string): void {
  expect(answer).toBe(intent(f).payload!);
  // Nothing of it was the agent's.
  expect(answer).not.toContain("edits");
}

function expectLoud(f: Family): void {
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(f.rig.attention(f.child).join("\n")).toContain("kk repair");
}

const bundled = (f: Family, path: string): string | null => {
  const file = join(intent(f).recoveryBundle!, "files", path);
  return existsSync(file) ? readFileSync(file, "utf8") : null;
};

const HOW = ["rewrite", "advance"] as const;
describe.each(isThorough ? HOW : HOW.slice(0, 1))("jj ended in the middle of a file, %s", (how) => {
  const all = [
    { death: "jj", colocated: false },
    { death: "both", colocated: true },
    { death: "both", colocated: false },
    { death: "full", colocated: false },
  ] as const;
  test.each(isThorough ? all : all.slice(0, 2))(
    "$death, colocated $colocated → put back, updated, told",
    async ({ death, colocated }) => {
      const f = await family({ colocated });
      await f.move(how, parentChange(f));
      f.limit("workspace update-stale", death);
      let seen = "";
      f.meanwhile.act = () => {
        f.unlimited();
        seen = ["a.txt", "m.txt", "n/w.txt", "z.txt"]
          .map((path) => f.rig.file(f.child, path)?.length ?? "absent")
          .join();
      };
      const answer = await callOver(f, death);
      expect(seen).toBe(`4,${LIMIT_KIB * 1024},absent,4`);
      expectQuiet(f, answer);
      expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
      expect(bundled(f, "m.txt")).toBe(LARGE.slice(0, LIMIT_KIB * 1024));
      await expectUpdated(f);
    },
  );
});

const DEATHS = ["both", "jj"] as const;
/** Of what a file can become, the default suite has these. */
const ALWAYS = ["the first byte", "an executable file", "a file that takes a folder's place"];
describe.each(isThorough ? DEATHS : DEATHS.slice(0, 1))("jj ended in the middle, %s", (death) => {
  const cases: Record<
    string,
    { before: Record<string, string>; change(f: Family): void; torn: string; kib?: number }
  > = {
    "a file that was not there, in a new folder": {
      before: { "a.txt": "old\n" },
      change: (f) => f.rig.repo.write("deep/er/m.txt", LARGE, f.parent.path),
      torn: "deep/er/m.txt",
    },
    "the first byte": {
      before: { "a.txt": "old\n" },
      change: (f) => f.rig.repo.write("a.txt", "new\n", f.parent.path),
      torn: "a.txt",
      kib: 0,
    },
    "an executable file": {
      before: { "run.sh": "old\n" },
      change(f) {
        f.rig.repo.write("run.sh", LARGE, f.parent.path);
        f.rig.repo.chmod("run.sh", 0o755, f.parent.path);
      },
      torn: "run.sh",
    },
    "an executable file that becomes an ordinary one": {
      before: { "run.sh": "old\n" },
      change: (f) => f.rig.repo.write("run.sh", LARGE, f.parent.path),
      torn: "run.sh",
    },
    "a file that takes a folder's place": {
      before: { "d/x.txt": "x\n", "d/y.txt": "y\n" },
      change(f) {
        f.rig.repo.remove("d", f.parent.path);
        f.rig.repo.write("d", LARGE, f.parent.path);
      },
      torn: "d",
    },
    "a folder that takes a file's place": {
      before: { d: "d\n" },
      change(f) {
        f.rig.repo.remove("d", f.parent.path);
        f.rig.repo.write("d/e/x.txt", LARGE, f.parent.path);
      },
      torn: "d/e/x.txt",
    },
    "after symlinks came and went": {
      before: { "a.txt": "a\n", "b.txt": "b\n", "m.txt": "m\n" },
      change(f) {
        f.rig.repo.remove("a.txt", f.parent.path);
        f.rig.repo.symlink("elsewhere", "a.txt", f.parent.path);
        f.rig.repo.symlink("m.txt", "link", f.parent.path);
        f.rig.repo.remove("b.txt", f.parent.path);
        f.rig.repo.write("m.txt", LARGE, f.parent.path);
      },
      torn: "m.txt",
    },
    "a symlink's place": {
      before: { "a.txt": "a\n" },
      change(f) {
        f.rig.repo.remove("link", f.parent.path);
        f.rig.repo.write("link", LARGE, f.parent.path);
      },
      torn: "link",
    },
    "ignore rules that change": {
      before: { ".gitignore": "made/\n*.log\n", "m.txt": "m\n" },
      change(f) {
        f.rig.repo.write(".gitignore", "*.log\n", f.parent.path);
        f.rig.repo.write("m.txt", LARGE, f.parent.path);
      },
      torn: "m.txt",
    },
    "a tracked file that is ignored": {
      before: { ".gitignore": "*.log\n" },
      change: (f) => f.rig.repo.write("m.txt.log", LARGE, f.parent.path),
      torn: "m.txt.log",
    },
    "names that are hard to write": {
      before: { "a\nb.txt": "a\n", "z ü \u{1f600}/m.txt": "m\n" },
      change(f) {
        f.rig.repo.write("a\nb.txt", "b\n", f.parent.path);
        f.rig.repo.write("z ü \u{1f600}/m.txt", LARGE, f.parent.path);
      },
      torn: "z ü \u{1f600}/m.txt",
    },
  };

  const played = Object.entries(cases).filter(([name]) => isThorough || ALWAYS.includes(name));
  test.each(played)("%s → put back, updated, told", async (name, c) => {
    const f = await family({ before: c.before });
    if (name.includes("symlink's place") || name.startsWith("an executable file that")) {
      await f.move("rewrite", () => {
        if (name.startsWith("a symlink")) f.rig.repo.symlink("a.txt", "link", f.parent.path);
        else f.rig.repo.chmod("run.sh", 0o755, f.parent.path);
      });
      await f.agent.batch();
      await f.agent.batch();
    }
    if (name.startsWith("ignore")) f.write({ "made/out.txt": "ignored so far\n" });
    await f.move("rewrite", () => {
      c.change(f);
    });
    if (name === "a tracked file that is ignored") {
      await f.rig.repo.jj(["file", "track", "--include-ignored", c.torn], f.parent.path);
      await f.rig.repo.jj(["status"], f.parent.path);
      await f.rig.cascade.refreshToFrontier();
    }
    f.limit("workspace update-stale", death, c.kib);
    let torn = -1;
    f.meanwhile.act = () => {
      f.unlimited();
      torn = f.rig.file(f.child, c.torn)?.length ?? -1;
    };
    const answer = await callOver(f, death);
    expect(torn).toBe((c.kib ?? LIMIT_KIB) * 1024);
    const last = f.rig.intents(f.child).at(-1)!;
    expect(answer).toBe(last.payload!);
    const want = await f.rig.repo.jj(["diff", "--summary", "-r", "@"], f.parent.path);
    expect(await f.rig.repo.jj(["file", "list", "-r", "@-"], f.child.path)).toBe(
      await f.rig.repo.jj(["file", "list", "-r", "@"], f.parent.path),
    );
    expect(want).not.toBe("");
    const listed = await f.rig.repo.jj(["diff", "--summary", "-r", "@"], f.child.path);
    expect(listed).toBe(name.startsWith("ignore") ? "A made/out.txt\nA own.txt\n" : "A own.txt\n");
    expect(await f.rig.repo.commit("divergent()")).toBe("");
  });
});

describe("jj ended in the middle, and edits", () => {
  const torn = (f: Family): string => f.rig.file(f.child, "m.txt") ?? "";

  async function cutOff(f: Family, act: () => void = () => undefined): Promise<void> {
    await f.move("rewrite", parentChange(f));
    f.limit("workspace update-stale", "both");
    f.meanwhile.act = () => {
      f.unlimited();
      act();
    };
    await f.agent.batch();
    await f.rig.reboot();
  }

  test("an edit elsewhere, made after it → half a file put back, the edit brought along", async () => {
    const f = await family();
    await cutOff(f, () => f.write({ "own.txt": "own\nand more\n", "n/own.txt": "mine\n" }));
    const [answer] = await f.agent.batch();
    expect(answer!.text).toBe(intent(f).payload);
    expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
    expect(f.rig.file(f.child, "own.txt")).toBe("own\nand more\n");
    expect(await f.rig.repo.jj(["diff", "--summary", "-r", "@"], f.child.path)).toBe(
      "A n/own.txt\nA own.txt\n",
    );
    expect(await f.rig.repo.commit("divergent()")).toBe("");
  });

  thorough("an edit in a file that jj had not come to → brought along", async () => {
    const f = await family({
      before: { "a.txt": "old\n", "m.txt": OTHER, "z.txt": "1\n2\n3\n4\n5\n" },
    });
    await f.move("rewrite", () => {
      f.rig.repo.write("m.txt", LARGE, f.parent.path);
      f.rig.repo.write("z.txt", "one\n2\n3\n4\n5\n", f.parent.path);
    });
    f.limit("workspace update-stale", "both");
    f.meanwhile.act = () => {
      f.unlimited();
      appendFileSync(join(f.child.path, "z.txt"), "6\n");
    };
    await f.agent.batch();
    await f.rig.reboot();
    const [answer] = await f.agent.batch();
    expect(answer!.text).toBe(intent(f).payload);
    expect(f.rig.file(f.child, "z.txt")).toBe("one\n2\n3\n4\n5\n6\n");
    expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
  });

  test("somebody goes on in the half file → loud, nothing is changed; a person's choice keeps a copy", async () => {
    const f = await family();
    await cutOff(f, () => appendFileSync(join(f.child.path, "m.txt"), "mine\n"));
    const [answer] = await f.agent.batch();
    expect(answer!.text).toContain("waits for a person");
    expectLoud(f);
    expect(torn(f)).toBe(`${LARGE.slice(0, LIMIT_KIB * 1024)}mine\n`);
    expect(bundled(f, "m.txt")).toBe(torn(f));
  });

  thorough(
    "somebody removes a file that jj had not come to → loud; a person chooses, and it is all put back and updated",
    async () => {
      const f = await family();
      await cutOff(f, () => rmSync(join(f.child.path, "z.txt")));
      expect((await f.agent.batch())[0]!.text).toContain("waits for a person");
      expectLoud(f);
      expect(f.rig.file(f.child, "z.txt")).toBeNull();
      const trouble = await f.rig.cascade.troubles.look(f.child.id);
      const { commit } = (trouble as { copies: { commit: string }[] }).copies[0]!;
      await f.rig.cascade.troubles.settle(intent(f).intentId, { do: "adopt", commit }, "op");
      expect((await f.agent.batch())[0]!.text).toBe(intent(f).payload);
      expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
      expect(f.rig.file(f.child, "z.txt")).toBe("new\n");
    },
  );

  thorough(
    "the parent moves again before the next daemon → put back, updated to the newer",
    async () => {
      const g = await family();
      await g.move("rewrite", parentChange(g));
      g.limit("workspace update-stale", "both");
      g.meanwhile.act = () => g.unlimited();
      await g.agent.batch();
      g.rig.repo.write("m.txt", "short\n", g.parent.path);
      await g.rig.repo.jj(["status"], g.parent.path);
      await g.rig.reboot();
      for (let n = 0; n < 3; n += 1) await g.agent.batch();
      expect(g.rig.file(g.child, "m.txt")).toBe("short\n");
      await expectUpdated(g);
    },
  );

  thorough(
    "it fails whenever it is tried → a person is told why; once there is room again, their choice updates",
    async () => {
      const f = await family();
      await f.move("rewrite", parentChange(f));
      f.limit("workspace update-stale", "full");
      f.meanwhile.act = () => undefined;
      expect((await f.agent.batch())[0]!.text).toContain("waits for a person");
      expectLoud(f);
      expect(f.rig.attention(f.child).join()).toContain("Failed to write");
      f.unlimited();
      const trouble = await f.rig.cascade.troubles.look(f.child.id);
      const { commit } = (trouble as { copies: { commit: string }[] }).copies[0]!;
      await f.rig.cascade.troubles.settle(intent(f).intentId, { do: "adopt", commit }, "op");
      expectQuiet(f, (await f.agent.batch())[0]!.text!);
      expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
    },
  );

  describe.each(isThorough ? DEATHS : DEATHS.slice(0, 1))("a recovery of edits, %s", (death) => {
    thorough(
      "ended while the files become clean → edits are there in the end, no half file",
      async () => {
        const f = await family();
        f.write({ "own.txt": "own\nand not recorded\n", "new.txt": "mine\n" });
        await f.move("rewrite", parentChange(f));
        f.limit("workspace update-stale", death);
        const answer = await callOver(f, death);
        expect(answer).toBe(intent(f).payload!);
        expect(answer).toContain("They are in your files");
        expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
        expect(f.rig.file(f.child, "own.txt")).toBe("own\nand not recorded\n");
        expect(f.rig.file(f.child, "new.txt")).toBe("mine\n");
        expect(await f.rig.repo.jj(["diff", "--summary", "-r", "@"], f.child.path)).toBe(
          "A new.txt\nA own.txt\n",
        );
        expect(await f.rig.repo.commit("divergent()")).toBe("");
      },
    );

    test("ended while the edits come back → edits are there in the end, no half file", async () => {
      const f = await family();
      f.write({ "large.txt": OTHER, "zz.txt": "mine\n" });
      await f.move("rewrite", () => f.rig.repo.write("a.txt", "new\n", f.parent.path));
      f.limit(" edit ", death);
      const answer = await callOver(f, death);
      expect(answer).toBe(intent(f).payload!);
      expect(f.rig.file(f.child, "large.txt")).toBe(OTHER);
      expect(f.rig.file(f.child, "zz.txt")).toBe("mine\n");
      expect(await f.rig.repo.commit("divergent()")).toBe("");
    });

    thorough("the agent had cut the file off itself → that is its edit", async () => {
      const f = await family({ before: { "a.txt": "old\n", "m.txt": LARGE, "z.txt": "old\n" } });
      const begun = `${LARGE.split("\n").slice(0, 20).join("\n")}\n`;
      f.write({ "m.txt": begun });
      await f.move("rewrite", () => {
        f.rig.repo.write("a.txt", "new\n", f.parent.path);
        f.rig.repo.write("l.txt", OTHER, f.parent.path);
        f.rig.repo.write("m.txt", `${LARGE}one more\n`, f.parent.path);
      });
      f.limit("workspace update-stale", death);
      const answer = await callOver(f, death);
      expect(answer).toBe(intent(f).payload!);
      expect(await f.rig.repo.jj(["file", "show", "-r", "@", "l.txt"], f.child.path)).toBe(OTHER);
      const landing = /in jj revision ([0-9a-f]+)/.exec(answer)![1]!;
      expect(await f.rig.repo.jj(["file", "show", "-r", landing, "m.txt"], f.child.path)).toBe(
        begun,
      );
    });
  });

  thorough(
    "a conflict that the parent's change brings → half of its markers put back, told",
    async () => {
      const f = await family({ before: { "a.txt": "old\n", "m.txt": OTHER } });
      f.write({ "m.txt": OTHER.replaceAll("other!", "nothing") });
      await f.rig.repo.jj(["status"], f.child.path);
      await f.rig.cascade.refreshToFrontier();
      await f.move("rewrite", () => f.rig.repo.write("m.txt", LARGE, f.parent.path));
      f.limit("workspace update-stale", "both");
      const answer = await callOver(f, "both");
      expect(answer).toBe(intent(f).payload!);
      expect(answer).toContain("Conflicts, marked in the files");
      expect(answer).not.toContain("You had edits");
      expect(f.rig.file(f.child, "m.txt")).toContain("<<<<<<<");
      expect(await f.rig.repo.commit("divergent()")).toBe("");
    },
  );

  const points = ["intent.mend.effected", "intent.mend.before", "intent.bundle.effected"] as const;
  test.each(isThorough ? points : points.slice(0, 1))(
    "the next daemon dies at %s → the one after it puts back, updates, tells",
    async (point) => {
      const f = await family();
      await f.move("rewrite", parentChange(f));
      f.limit("workspace update-stale", "both");
      f.meanwhile.act = () => f.unlimited();
      await f.agent.batch();
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
      expectQuiet(f, (await f.agent.batch())[0]!.text!);
      expect(f.rig.file(f.child, "m.txt")).toBe(LARGE);
      await expectUpdated(f);
    },
  );
});
