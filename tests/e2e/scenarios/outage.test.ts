/**
 * Worked scenario 9: the daemon is killed and stays away while the parent moves and the agent goes on editing what has become
 * stale. The whole binary, real jj and tmux, the scripted agent.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import {
  acknowledged,
  amend,
  expectTold,
  expectFiles,
  family,
  homeOf,
  inDb,
  intents,
  onDisk,
  reached,
  resultOf,
  stateOf,
  untilRun,
  type Home,
} from "../../support/family.ts";
import { holdLock } from "../../support/hold-lock.ts";
import { bash, edit, moments, read, touch, wait, write } from "../../support/scenario.ts";
import { initialised, type World } from "../../support/world.ts";

setDefaultTimeout(240_000);
let w: World;
let home: Home;
beforeAll(async () => {
  w = await initialised({ colocated: false });
  home = homeOf(w, w.repo);
});
afterAll(() => w.close());

test("scenario 9: daemon killed, parent moves, the agent edits stale files → never taken for clean, told at the first boundary, one notice", async () => {
  const text = (first: string, last: string) => `${first}\n1\n2\n3\n4\n5\n6\n${last}\n`;
  const f = await family(home, "nine", {
    files: { "api.ts": text("v1", "old") },
    before: [
      [write("c1", "own.ts", "mine\n"), bash("c2", "jj describe -m tests"), read("c3", "api.ts")],
    ],
    after: [
      // Every one of these runs while nobody can be asked.
      [edit("e1", "api.ts", "old", "new"), write("e2", "fresh.ts", "fresh\n")],
      [bash("e3", "rm own.ts; mkdir dir; echo deep >dir/deep.ts")],
      [
        touch(w.signal("edited")),
        wait(w.signal("back")),
        read("a1", "api.ts"),
        bash("a2", "touch ran-a2"),
      ],
      untilRun(read("again", "api.ts")),
    ],
  });
  const pid = w.daemonPid();
  process.kill(pid, "SIGKILL");
  await w.gone(pid);
  // Hooks start a new daemon as soon as they may; with its lock held it cannot serve.
  const lock = await holdLock(join(w.stateDir, "kkd.lock"));
  await amend(f, { "api.ts": text("v2", "old") });
  f.go();
  await reached(f, "edited");
  const passed = moments(f.child.log).filter((m) => m.kind === "tool_start");
  expect(passed.map((m) => m.tool_use_id)).toEqual(expect.arrayContaining(["e1", "e2", "e3"]));
  // kiki has touched nothing: the parent's change is not there, the agent's are.
  expect(onDisk(f.child, "api.ts")).toBe(text("v1", "new"));
  expect(intents(f, f.child)).toEqual([]);
  const log = join(f.state, "errors", `${f.child.id}.log`);
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  expect(lines.filter((line) => line.includes(" PreToolUse "))).toHaveLength(3);
  await lock.release();

  // A person looks: that brings the daemon back, and the parent's move is found in jj's operation log.
  const back = await w.kk(["ls"]);
  expect([back.code, back.stderr]).toEqual([0, ""]);
  w.raise("back");
  await reached(f, "nine-done");
  const [intent] = await acknowledged(f, f.child, 1);
  expect(intent).toMatchObject({ kind: "NativeRewrite" });
  // It went through recovery, with a copy of every edit, and was told within the held call.
  expect(intent!.bundle).not.toBeNull();
  const kept = (path: string) => readFileSync(join(intent!.bundle!, "files", path), "utf8");
  expect([kept("api.ts"), kept("fresh.ts"), kept("dir/deep.ts")]).toEqual([
    text("v1", "new"),
    "fresh\n",
    "deep\n",
  ]);
  expect(intent!.payload).toContain(intent!.bundle!);
  expectTold(f.child, intent!, { a1: "Read", a2: "Bash" });
  expect(resultOf(moments(f.child.log), "again")).toContain("v2");
  await expectFiles(f, f.child, {
    "api.ts": text("v2", "new"),
    "fresh.ts": "fresh\n",
    "dir/deep.ts": "deep\n",
    "own.ts": null,
    "ran-a2": null,
  });

  const { attention, summary } = await stateOf(f, f.child);
  expect(summary).toMatchObject({ lifecycle: "Active", cascade: "in sync", agent: "finished" });
  expect(attention.map((item) => item.kind)).toEqual(["hook-outage"]);
  expect(attention[0]!.message).toMatch(
    /^"nine": its hooks could not reach the daemon .*: 3 calls ran without being asked about.* — log: /,
  );
  expect(attention[0]!.message).toEndWith(log);
  const status = (await w.kk(["status", "nine"])).stdout;
  expect(status).toMatch(/^cascade +── in sync$/m);
  expect(status).toMatch(/^issue .*hook-outage: /m);
  expect((await stateOf(f, f.parent)).attention).toEqual([]);
  expect(existsSync(join(f.state, "harness", f.child.id, "barrier"))).toBe(false);

  // Another start says nothing twice.
  expect((await w.kk(["daemon", "stop"])).code).toBe(0);
  expect((await w.kk(["ls"])).code).toBe(0);
  expect((await stateOf(f, f.child)).attention).toEqual(attention);
  expect(inDb(f, (db) => db.query("SELECT kind FROM attention").all())).toHaveLength(1);
});
