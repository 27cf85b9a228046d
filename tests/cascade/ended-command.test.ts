/**
 * kiki's own jj commands while an agent stands still for them: a command that does not end is ended, and what it left
 * in the files decides what comes next. On real jj, with a `jj` on PATH that hangs where the test says.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { fail } from "../../src/core/errors.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair } from "./pair.ts";
import type { Agent, Rig, TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const LIMIT_MS = 1_500;
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
  /** `hold` and `release` of the agent's processes, in order. */
  still: string[];
  /** A jj command whose words match hangs: `script` is what happens first, `$@` the command. null: none any more. */
  hang(words: string | null, script?: string): void;
  /** Processes that the hanging command started. */
  left(): string[];
  amend(text: string): Promise<void>;
}

async function family(over: (jj: JjRepo) => Partial<JjRepo> = () => ({})): Promise<Family> {
  const still: string[] = [];
  let bin = "";
  const standStill: CascadeDeps["standStill"] = {
    hold: () => {
      still.push("hold");
      return Promise.resolve({ still: true, open: [] });
    },
    pause: () => {
      still.push("pause");
      return Promise.resolve(null);
    },
    release: () => {
      still.push("release");
      return Promise.resolve();
    },
  };
  const { rig, parent, child, agent } = await makePair({
    before: { "parser.txt": "one\n1\n2\n3\n" },
    stoppedCommandMs: LIMIT_MS,
    standStill: () => standStill,
    wrapJj: (jj) => ({ ...jj, ...over(jj) }),
    jjEnv(repo) {
      bin = join(repo.dir, "slow-bin");
      mkdirSync(bin);
      const real = Bun.which("jj", { PATH: repo.env["PATH"] ?? "" })!;
      writeFileSync(
        join(bin, "jj"),
        `#!/bin/sh\njj='${real}'\nhere='${bin}'\nif [ -f "$here/hang" ]; then . "$here/hang"; fi\nexec "$jj" "$@"\n`,
      );
      chmodSync(join(bin, "jj"), 0o755);
      return { ...repo.env, PATH: `${bin}:${repo.env["PATH"] ?? ""}` };
    },
  });
  rigs.push(rig);
  return {
    rig,
    parent,
    child,
    agent,
    still,
    hang(words, script = "") {
      if (words === null) rmSync(join(bin, "hang"));
      else
        writeFileSync(
          join(bin, "hang"),
          // A child that is deaf to SIGTERM: whoever ends the command ends that one, too.
          `case "$*" in *"${words}"*)\n${script}\nsh -c 'trap "" TERM; echo $$ >>"$0"; while :; do sleep 1; done' "$here/pids" &\nwait; sleep 1000;; esac\n`,
        );
    },
    left: () =>
      readFileSync(join(bin, "pids"), "utf8")
        .trim()
        .split("\n")
        .filter((pid) => isRunning(pid)),
    async amend(text) {
      rig.repo.write("parser.txt", text, parent.path);
      await rig.repo.jj(["status"], parent.path);
      await rig.cascade.refreshToFrontier();
    },
  };
}

/** A zombie that nobody reaps in a container without an init is no running process. */
function isRunning(pid: string): boolean {
  try {
    return !/^\S+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

const intent = (f: Family) => f.rig.intents(f.child)[0]!;

test("update that never begins → ended with all it started, everybody goes on, generic deny, told at the next batch", async () => {
  const f = await family();
  await f.amend("two\n1\n2\n3\n");
  f.hang("workspace update-stale");
  const [first] = await f.agent.batch();
  expect(first!.text).toContain("did not run");
  expect(intent(f)).toMatchObject({ state: "Reconciling", payload: null, receipt: "contrary" });
  expect(f.left()).toEqual([]);
  expect(f.still).toEqual(["hold", "release"]);
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n1\n2\n3\n");
  expect(f.rig.barrier(f.child)).toBe(true);
  expect(f.rig.attention(f.child)).toEqual([]);
  f.hang(null);
  const [second] = await f.agent.batch();
  expect(second!.text).toBe(intent(f).payload);
  expect(intent(f)).toMatchObject({ state: "Delivered", softRedeliveryCount: 1 });
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n");
  expect((await f.agent.call()).text).toBeNull();
});

test("update that has done everything and does not end → its result is proved and told in the same call", async () => {
  const f = await family();
  await f.amend("two\n1\n2\n3\n");
  f.hang("workspace update-stale", `"$jj" "$@"`);
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(intent(f)).toMatchObject({ state: "Delivered", softRedeliveryCount: 0 });
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n");
  expect(f.left()).toEqual([]);
});

thorough(
  "update ended in the middle of a file → RecoveryRequired at once, the agent stays stopped, a person is told",
  async () => {
    const f = await family();
    await f.amend("two\n1\n2\n3\n");
    f.hang("workspace update-stale", `printf 'tw' >'${f.child.path}/parser.txt'`);
    const [answer] = await f.agent.batch();
    expect(answer!.text).toContain("waits for a person");
    expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
    expect(f.still).toEqual(["hold", "pause"]);
    expect(f.rig.file(f.child, "parser.txt")).toBe("tw");
    expect(f.rig.attention(f.child)[0]).toContain("ended in the middle");
    const bundle = intent(f).recoveryBundle!;
    expect(readFileSync(`${bundle}/files/parser.txt`, "utf8")).toBe("tw");
    // Asked again, nothing moves by itself.
    f.hang(null);
    expect((await f.agent.batch())[0]!.text).toContain("waits for a person");
    expect(await f.rig.cascade.troubles.look(f.child.id)).toMatchObject({
      kind: "recovery",
      files: "StaleDirty",
      mayLand: true,
    });
  },
);

thorough(
  "parent advance, published and not ended → nothing half done: rebased, files follow, told",
  async () => {
    const f = await family();
    await f.rig.repo.jj(["new", "-m", "lexer"], f.parent.path);
    f.rig.repo.write("lexer.txt", "lexer\n", f.parent.path);
    await f.rig.repo.jj(["status"], f.parent.path);
    await f.rig.cascade.refreshToFrontier();
    f.hang("op integrate", `"$jj" "$@"`);
    const [answer] = await f.agent.batch();
    expect(answer!.text).toBe(intent(f).payload);
    expect(intent(f)).toMatchObject({ state: "Delivered" });
    expect(f.rig.file(f.child, "lexer.txt")).toBe("lexer\n");
    expect(f.rig.attention(f.child)).toEqual([]);
  },
);

thorough(
  "read that hangs before anything was changed → everybody goes on, generic deny",
  async () => {
    const f = await family();
    await f.amend("two\n1\n2\n3\n");
    // Only the reconciliation asks for that.
    f.hang("diff --stat");
    expect((await f.agent.batch())[0]!.text).toContain("did not run");
    expect(f.left()).toEqual([]);
  },
);

test("recovery whose own update hangs and changes nothing → still under way, the next batch brings it to its end", async () => {
  const f = await family();
  f.rig.repo.write("tests.txt", "not recorded\n", f.child.path);
  await f.amend("two\n1\n2\n3\n");
  f.hang("workspace update-stale");
  await f.agent.batch();
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: true });
  f.hang(null);
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.rig.file(f.child, "tests.txt")).toBe("not recorded\n");
  expect(f.rig.file(f.child, "parser.txt")).toBe("two\n1\n2\n3\n");
});

test("files cannot even be looked at afterwards → nobody goes on, loud; the next batch settles it", async () => {
  let broken = false;
  const f = await family((jj) => ({
    probe: (...args) =>
      broken ? Promise.reject(fail("failed", "git-timeout", "git ls-tree")) : jj.probe(...args),
    async updateStale(...args) {
      await jj.updateStale(...args);
      if (broken) return;
      broken = true;
      throw fail("failed", "jj-timeout", "it did not finish in time");
    },
  }));
  await f.amend("two\n1\n2\n3\n");
  await f.agent.batch();
  expect(intent(f).state).toBe("Reconciling");
  expect(f.still).toEqual(["hold"]);
  expect(f.rig.attention(f.child)[0]).toContain("cannot be looked at");
  broken = false;
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.still.at(-1)).toBe("release");
});
