/** Making a thread: what is there afterwards, what is refused, and what is left when it fails. */
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { fail, KikiError } from "../../src/core/errors.ts";
import { ROOT_COMMIT } from "../../src/core/revset.ts";
import { threadCredential, threadOfCredential } from "../../src/store/credentials.ts";
import { edges } from "../../src/store/edges.ts";
import { eventsSince } from "../../src/store/events.ts";
import { openAttention } from "../../src/store/attention.ts";
import { gateOf, liveSession, sessionById } from "../../src/store/sessions.ts";
import { allThreads } from "../../src/store/threads.ts";
import { removeTempDirs, tempDir } from "../support/temp.ts";
import { AGREED, inputFor, pathsFor, Rig } from "./rig.ts";

const folder = tempDir("creation");
let rig: Rig;
beforeEach(() => {
  rig = new Rig(folder);
});
afterEach(() => rig.close());
afterAll(removeTempDirs);

const attention = (threadId: string): string[] =>
  openAttention(rig.db, threadId).map((a) => `${a.kind}: ${a.message}`);

async function codeOf(work: Promise<unknown> | (() => void)): Promise<string> {
  try {
    await (typeof work === "function" ? work() : work);
  } catch (error) {
    return error instanceof KikiError ? error.code : String(error);
  }
  return "no error";
}

/** Creates with an agent that never reports, and waits until the saga waits for it. */
async function waiting(name = "parser"): Promise<{ threadId: string; incarnation: string }> {
  rig.agent = "silent";
  const { threadId } = await rig.create(inputFor(name));
  await rig.until(() => liveSession(rig.db, threadId)?.pid != null, "process reported");
  await rig.until(() => rig.steps(threadId).at(-1)!.state === "Started", "waits for ready");
  return { threadId, incarnation: liveSession(rig.db, threadId)!.incarnation };
}

describe("creation: done", () => {
  test("creation: no trouble → Active with workspace, head, checkpoint, bookmark, session, ready agent", async () => {
    const thread = await rig.made(inputFor("parser"));
    const id = thread.threadId;
    expect(thread).toMatchObject({
      lifecycle: "Active",
      workspacePath: "/src/calc-kiki-parser",
      bookmark: "kk/parser",
      base: rig.jj.at("default"),
      head: rig.jj.at("kk-parser"),
      checkpoint: rig.jj.bookmark("kk/parser"),
      tmuxSessionId: rig.tmux.sessions[0]!.id,
    });
    expect(thread.head).toBe(thread.checkpoint);
    expect(rig.active).toEqual([id]);
    expect(rig.steps(id).map((s) => s.state)).toEqual(Array(11).fill("Completed"));
    expect(rig.steps(id).find((s) => s.name === "setup")!.result).toMatchObject({ outcome: null });
    const kinds = eventsSince(rig.db, 0, 99).map((e) => `${e.kind} ${JSON.stringify(e.data)}`);
    expect(kinds[0]).toBe('lifecycle {"to":"Creating"}');
    expect(kinds.at(-1)).toBe('lifecycle {"to":"Active"}');
  });

  test.each(["first-operation", "bookmark"])(
    "creation: heads are merged by kiki's own command, and agents' commands stand on that merge at %s → Active",
    async (moment) => {
      const { jj } = rig;
      let forked = 0;
      let at = jj.head;
      jj.during = (now) => {
        if (now !== moment || forked > 0) return;
        const merge = [...jj.engine.store.operations.values()].findLast(
          (o) => o.parents.length > 1,
        )!;
        for (; forked < 8; forked += 1)
          jj.personAt(merge.id, "default").bookmark(`agent-${forked}`, ROOT_COMMIT);
      };
      // Right before the command, after all that was read for it.
      jj.faults.delay = (method) => {
        const own = moment === "bookmark" ? "createBookmark" : "addWorkspace";
        if (method === own)
          for (const text of ["one", "other"])
            jj.personAt(at, "default").bookmark(text, ROOT_COMMIT);
        else at = jj.head;
        return undefined;
      };
      const thread = await rig.made(inputFor("parser"));
      expect([thread.lifecycle, forked]).toEqual(["Active", 8]);
    },
  );

  test("creation: done → credential, environment and launch file are 0600, secrets nowhere in the database", async () => {
    const { threadId } = await rig.made(
      inputFor("parser", { env: { HOME: "/h", ANTHROPIC_API_KEY: "sk-1" } }),
    );
    const paths = pathsFor(threadId);
    for (const file of [
      paths.credential,
      `${paths.harness}/env.json`,
      `${paths.harness}/launch.json`,
    ]) {
      expect([file, rig.files.modeOf(file)]).toEqual([file, 0o600]);
    }
    const credential = rig.files.get(paths.credential)!;
    expect(credential).toMatch(/^[0-9a-f]{64}\n$/);
    const sha256 = createHash("sha256").update(credential.trim()).digest("hex");
    expect(threadOfCredential(rig.db, sha256)?.threadId).toBe(threadId);
    const { incarnationSecret } = rig.harness.requests[0]!;
    const dump = rig.db.serialize().toString("latin1");
    for (const secret of [credential.trim(), incarnationSecret, "sk-1"])
      expect(dump).not.toContain(secret);
  });

  test("creation: environment of the caller → only listed names reach the agent", async () => {
    await rig.made(
      inputFor("parser", { env: { PATH: "/bin", KIKI_THREAD_ID: "other", CLAUDECODE: "1" } }),
    );
    expect(rig.harness.requests[0]!.env).toEqual({ PATH: "/bin" });
  });

  test("creation: session → wrappers as pane roots, tagged, agent above shell, nothing held in the workspace", async () => {
    const { threadId } = await rig.made(inputFor("parser"));
    const [agent, shell] = rig.tmux.panes;
    expect(rig.tmux.sessions[0]!.tags["@kiki_thread"]).toBe(threadId);
    expect([agent!.tags["@kiki_role"], shell!.tags["@kiki_role"]]).toEqual(["agent", "shell"]);
    expect(agent!.command.join(" ")).toBe(
      `/opt/kiki/kk __pane agent --repo ${rig.deps(rig.db).repoId} --thread ${threadId} --state-dir /state`,
    );
    expect(shell!.command.join(" ")).toContain(
      "__pane shell --cwd /src/calc-kiki-parser --shell /bin/bash",
    );
  });

  test("creation: terminal lower than 24 rows → one pane", async () => {
    await rig.made(inputFor("parser", { rows: 23 }));
    expect(rig.tmux.panes).toHaveLength(1);
  });

  test("creation: the session report overtakes the report of the process → Active once both are there", async () => {
    rig.agent = "ready-first";
    expect((await rig.made(inputFor("parser"))).lifecycle).toBe("Active");
    expect(rig.active).toHaveLength(1);
  });

  test("creation: 20 at once, three of them failing → 17 Active, three CreateFailed", async () => {
    const names = Array.from({ length: 20 }, (_, i) => `thread ${i}`);
    const add = rig.jj.addWorkspace.bind(rig.jj);
    rig.jj.addWorkspace = (input) =>
      /-(3|7|11)$/.test(input.name) ? Promise.reject(new Error("no space")) : add(input);
    const made = await Promise.all(names.map((name) => rig.made(inputFor(name))));
    const states = made.map((t) => t.lifecycle);
    expect(states.filter((s) => s === "Active")).toHaveLength(17);
    expect([states[3], states[7], states[11]]).toEqual(Array(3).fill("CreateFailed"));
    expect(rig.liveTokens()).toBe(0);
  });
});

describe("creation: follows", () => {
  test("creation: parent followed → base, anchor and the parent's cached head are its exact @ of one operation", async () => {
    const parent = await rig.made(inputFor("parser"));
    const moved = rig.jj.amend("kk-parser", { "lexer.ts": "1" });
    const child = await rig.made(inputFor("tests", { follows: "parser" }));
    expect(child.base).toBe(moved);
    expect(edges(rig.db)).toEqual([
      { child: child.threadId, parent: parent.threadId, lastSynchronized: moved },
    ]);
    const cached = rig.thread(parent.threadId);
    const { op } = rig.steps(child.threadId)[0]!.result as { op: string };
    expect([cached.head, cached.headOp]).toEqual([moved, op]);
    expect((await rig.jj.existing(rig.jj.head, [child.head!]))[0]!.parents).toEqual([moved]);
  });

  test("creation: parent rewritten between allocation and workspace → allocated anew, no hidden commit revived", async () => {
    const parent = await rig.made(inputFor("parser"));
    rig.crashAt = "Create.workspace.before";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    const old = rig.jj.at("kk-parser")!;
    const moved = rig.jj.amend("kk-parser", { "lexer.ts": "1" });
    rig.boot();
    await rig.ended(threadId);
    const child = rig.thread(threadId);
    expect(child.base).toBe(moved);
    expect(edges(rig.db)[0]!.lastSynchronized).toBe(moved);
    expect(rig.thread(parent.threadId).head).toBe(moved);
    expect(rig.jj.isVisible(old)).toBe(false);
  });

  test("creation: parent rewritten after the workspace → bookmark on the evolved @, edge classified before the gate", async () => {
    await rig.made(inputFor("parser"));
    rig.crashAt = "Create.bookmark.before";
    const { threadId } = await rig.create(inputFor("tests", { follows: "parser" }));
    await rig.until(() => !rig.alive, "daemon died");
    rig.jj.amend("kk-parser", { "lexer.ts": "1" });
    rig.boot();
    await rig.ended(threadId);
    const child = rig.thread(threadId);
    expect(child.checkpoint).toBe(rig.jj.at("kk-tests"));
    expect(child.head).toBe(rig.jj.at("kk-tests"));
    expect(rig.classified).toEqual([threadId]);
  });

  test("creation: parent rewritten again and again while the bookmark is made → on the evolved @, no hidden commit revived", async () => {
    await rig.made(inputFor("parser"));
    const create = rig.jj.createBookmark.bind(rig.jj);
    const old: string[] = [];
    rig.jj.createBookmark = async (name, commit, token, of) => {
      if (old.length < 3) {
        old.push(commit);
        rig.jj.amend("kk-parser", { "lexer.ts": `${old.length}` });
      }
      return create(name, commit, token, of);
    };
    const child = await rig.made(inputFor("tests", { follows: "parser" }));
    expect(old).toHaveLength(3);
    expect(old.filter((commit) => rig.jj.isVisible(commit))).toEqual([]);
    expect(rig.jj.bookmark("kk/tests")).toBe(rig.jj.at("kk-tests"));
    expect([child.head, child.checkpoint]).toEqual([rig.jj.at("kk-tests"), rig.jj.at("kk-tests")]);
  });

  test("creation: parent no longer Active when allocated → CreateFailed, nothing made, no edge", async () => {
    const parent = await rig.made(inputFor("parser"));
    const input = inputFor("tests", { follows: "parser" });
    const { digest } = await rig.creation.plan(input);
    rig.crashAt = "Create.allocate.before";
    const { threadId } = await rig.creation.create({ ...input, digest }, AGREED);
    await rig.until(() => !rig.alive, "daemon died");
    rig.boot();
    rig.db.run("UPDATE threads SET lifecycle = 'ClosePreflight' WHERE thread_id = ?", [
      parent.threadId,
    ]);
    await rig.ended(threadId);
    expect(rig.error(threadId)).toContain('thread "parser" is ClosePreflight by now');
    expect(edges(rig.db)).toEqual([]);
    expect(rig.jj.at("kk-tests")).toBeNull();
  });
});

describe("creation: confirmed plan", () => {
  test("creation: something changed since the plan → plan-changed, nothing made", async () => {
    const input = inputFor("parser");
    const { digest } = await rig.creation.plan(input);
    rig.jj.amend("default", { "a.txt": "1" });
    expect(await codeOf(rig.creation.create({ ...input, digest }, AGREED))).toBe("plan-changed");
    expect(allThreads(rig.db)).toEqual([]);
    expect(rig.files.below("/state")).toEqual([]);
  });

  test("creation: repository is closed while the plan is recomputed → refused, approval not spent, nothing left", async () => {
    const input = inputFor("parser");
    const { digest } = await rig.creation.plan(input);
    let claims = 0;
    const created = rig.creation.create({ ...input, digest }, () => (claims += 1));
    const stopped = rig.creation.stop();
    expect(await codeOf(created)).toBe("daemon-stopping");
    await stopped;
    expect(claims).toBe(0);
    expect(allThreads(rig.db)).toEqual([]);
    expect(rig.files.below("/state")).toEqual([]);
  });

  test("creation: two of one name confirmed at once → one is made, the other plan-changed, no leftovers", async () => {
    const input = inputFor("parser");
    const { digest } = await rig.creation.plan(input);
    const both = await Promise.all(
      [1, 2].map(() => codeOf(rig.creation.create({ ...input, digest }, AGREED))),
    );
    expect(both.sort()).toEqual(["no error", "plan-changed"]);
    await rig.ended(allThreads(rig.db)[0]!.threadId);
    expect(
      new Set(rig.files.below("/state").map((f) => f.split("/harness/")[1]?.split("/")[0])).size,
    ).toBe(2);
  });
});

describe("creation: waiting for the agent", () => {
  test("creation: no handshake within 60 s → CreateFailed with what the pane showed last", async () => {
    const { threadId } = await waiting();
    rig.tmux.panes[0]!.text = "Welcome\nloading plugins…\n";
    rig.clock.advance(1_000);
    await rig.until(() => rig.clock.waiting, "polls");
    rig.clock.advance(60_000);
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.error(threadId)).toContain(
      "claude-code did not report its start within 60 s: loading plugins…",
    );
  });

  test("creation: dialog in the pane → one loud event, waits past 60 s, Active once accepted, event settled", async () => {
    const { threadId, incarnation } = await waiting();
    rig.tmux.panes[0]!.text = "Do you trust this folder?\n";
    rig.clock.advance(1_000);
    await rig.until(() => attention(threadId).length > 0, "attention raised");
    expect(attention(threadId)).toEqual([
      'startup-dialog: "parser" waits: accept the dialog in the agent pane (folder trust) — kk switch parser',
    ]);
    rig.clock.advance(300_000);
    await rig.until(() => rig.clock.waiting, "polls");
    expect(rig.thread(threadId).lifecycle).toBe("Creating");
    await rig.creation.sessionStarted(incarnation, "s");
    expect(rig.thread(threadId).lifecycle).toBe("Active");
    expect(attention(threadId)).toEqual([]);
  });

  test("creation: dialog not accepted within 10 min → CreateFailed, and says so", async () => {
    const { threadId } = await waiting();
    rig.tmux.panes[0]!.text = "Do you trust this folder?\n";
    rig.clock.advance(1_000);
    await rig.until(() => attention(threadId).length > 0, "attention raised");
    rig.clock.advance(600_000);
    await rig.ended(threadId);
    expect(rig.error(threadId)).toContain(
      "waited 10 min for its dialog to be accepted (folder trust)",
    );
    expect(attention(threadId).map((a) => a.split(":")[0])).toEqual(["create-failed"]);
  });

  test("creation: agent ends before it is ready → CreateFailed at once, with exit code and last words", async () => {
    rig.agent = "exit-1";
    const thread = await rig.made(inputFor("parser"));
    expect(thread.lifecycle).toBe("CreateFailed");
    expect(rig.error(thread.threadId)).toContain(
      "claude-code ended before it was ready (exit code 1): Error: no network",
    );
    const journal = rig.steps(thread.threadId);
    expect(journal.at(-1)).toMatchObject({ name: "ready", state: "Failed" });
    expect(journal.slice(0, -1).every((s) => s.state === "Compensated")).toBe(true);
  });

  test("creation: person closes the pane meanwhile → CreateFailed, workspace gone", async () => {
    const { threadId } = await waiting();
    await rig.tmux.killSession(rig.tmux.sessions[0]!.id);
    rig.clock.advance(1_000);
    await rig.ended(threadId);
    expect(rig.error(threadId)).toContain("the agent's pane is gone");
    expect(rig.files.kindNow("/src/calc-kiki-parser")).toBe("absent");
  });

  test("creation: daemon stops while it waits → nothing failed; the next one goes on", async () => {
    const { threadId, incarnation } = await waiting();
    await rig.creation.stop();
    expect(rig.steps(threadId).at(-1)!.state).toBe("Started");
    rig.kill();
    rig.boot();
    await rig.creation.sessionStarted(incarnation, "s");
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("Active");
  });
});

describe("creation: proofs", () => {
  test("creation: foreign hook found → CreateFailed with the file named, no prompt ever given", async () => {
    rig.harness.refuses = fail(
      "failed",
      "hooks-not-exclusive",
      "/etc/claude/hooks.json has a hook",
    );
    const { threadId } = await rig.made(inputFor("parser"));
    expect(rig.error(threadId)).toContain("/etc/claude/hooks.json has a hook");
    expect([rig.spawned, rig.tmux.made]).toEqual([[], []]);
  });

  for (const [when, point] of [
    ["before the gate", "Create.gate.before"],
    ["between gate and launcher", "Create.gate.completed"],
  ] as const) {
    test(`creation: generated settings edited ${when} → CreateFailed naming the file, agent never started`, async () => {
      rig.crashAt = point;
      const { threadId } = await rig.create(inputFor("parser"));
      await rig.until(() => !rig.alive, "daemon died");
      rig.files.put(`${pathsFor(threadId).harness}/settings.json`, "{}");
      rig.boot();
      await rig.ended(threadId);
      expect(rig.error(threadId)).toContain("settings.json was changed after kiki had proved it");
      expect(rig.spawned).toEqual([]);
      expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    });
  }

  test("creation: generated settings edited before the handshake → CreateFailed, never Active", async () => {
    const { threadId, incarnation } = await waiting();
    rig.files.put(`${pathsFor(threadId).harness}/hook`, "exit 0");
    await rig.creation.sessionStarted(incarnation, "s");
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.active).toEqual([]);
  });
});

describe("creation: unwinding keeps what is not kiki's", () => {
  async function failAfter(change: () => void): Promise<string> {
    const { threadId, incarnation } = await waiting();
    change();
    rig.creation.harnessExited(incarnation, 1, null);
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    return threadId;
  }

  for (const file of ["notes.txt", "secret.ignored"]) {
    test(`creation: fails with ${file} in the workspace → folder and file stay, said in an event`, async () => {
      const threadId = await failAfter(() =>
        rig.files.put(`/src/calc-kiki-parser/${file}`, "mine"),
      );
      expect(rig.files.get(`/src/calc-kiki-parser/${file}`)).toBe("mine");
      expect(attention(threadId).join("\n")).toContain(`kept /src/calc-kiki-parser: it has`);
      expect(attention(threadId).join("\n")).toContain(file);
      expect(rig.jj.at("kk-parser")).toBeNull();
    });
  }

  test("creation: fails after the change got content → its commit stays visible", async () => {
    let commit = "";
    await failAfter(() => {
      commit = rig.jj.amend("kk-parser", { "work.ts": "1" });
      rig.files.put("/src/calc-kiki-parser/work.ts", "1");
    });
    expect(rig.jj.isVisible(commit)).toBe(true);
    expect(rig.jj.at("kk-parser")).toBeNull();
  });

  test("creation: fails after a person put the bookmark elsewhere → the bookmark stays there", async () => {
    const elsewhere = rig.jj.personCommit("0".repeat(40), "elsewhere");
    await failAfter(() => rig.jj.personBookmark("kk/parser", elsewhere));
    expect(rig.jj.bookmark("kk/parser")).toBe(elsewhere);
  });

  test("creation: fails after another folder took the workspace's place → it stays", async () => {
    await failAfter(() => {
      void rig.files.removeTree("/src/calc-kiki-parser");
      rig.files.put("/src/calc-kiki-parser/other", "x");
    });
    expect(rig.files.get("/src/calc-kiki-parser/other")).toBe("x");
  });

  test("creation: tmux silent while unwinding → stops there loudly, row and everything below kept", async () => {
    const { threadId, incarnation } = await waiting();
    rig.tmux.mute = true;
    rig.creation.harnessExited(incarnation, 1, null);
    await rig.ended(threadId);
    expect(rig.error(threadId)).toMatch(
      /ended before it was ready.*; then session could not be undone: tmux/,
    );
    const states = Object.fromEntries(rig.steps(threadId).map((s) => [s.name, s.state]));
    expect(states).toMatchObject({
      gate: "Compensated",
      session: "Compensating",
      workspace: "Completed",
    });
    expect(rig.jj.at("kk-parser")).not.toBeNull();
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
  });

  test("creation: agent outlives its session → nothing below is undone while it runs", async () => {
    const { threadId } = await waiting();
    rig.tmux.onKill = () => undefined;
    rig.clock.advance(60_000);
    await rig.until(
      () => rig.tmux.sessions.length === 0 && rig.clock.waiting,
      "waits for the process",
    );
    rig.clock.advance(5_000);
    await rig.ended(threadId);
    expect(rig.error(threadId)).toContain("did not end with its session");
    expect(rig.files.kindNow("/src/calc-kiki-parser")).toBe("folder");
    expect(threadCredential(rig.db, threadId)).not.toBeNull();
  });
});

describe("creation: workspace folder × jj record after a crash", () => {
  async function resumedWith(
    arrange: (path: string) => void,
    point = "Create.workspace.effected",
  ): Promise<string> {
    rig.crashAt = point;
    const { threadId } = await rig.create(inputFor("parser"));
    await rig.until(() => !rig.alive, "daemon died");
    arrange("/src/calc-kiki-parser");
    rig.boot();
    await rig.ended(threadId);
    return threadId;
  }

  test("workspace: record and folder present → adopted", async () => {
    const threadId = await resumedWith(() => undefined);
    expect(rig.thread(threadId).lifecycle).toBe("Active");
    expect(rig.jj.made[0]).toBe("workspace kk-parser");
    expect(rig.jj.made).toHaveLength(2);
  });

  test("workspace: neither present → made", async () => {
    const threadId = await resumedWith(() => undefined, "Create.workspace.started");
    expect(rig.thread(threadId).lifecycle).toBe("Active");
  });

  test("workspace: empty folder, no record → made in it", async () => {
    const threadId = await resumedWith(
      (path) => rig.files.makeFolders(path),
      "Create.workspace.started",
    );
    expect(rig.thread(threadId).lifecycle).toBe("Active");
  });

  test("workspace: folder with files, no record → CreateFailed, folder kept, nothing made", async () => {
    const threadId = await resumedWith(
      (path) => rig.files.put(`${path}/a`, "x"),
      "Create.workspace.started",
    );
    expect(rig.error(threadId)).toContain("holds something, but jj records no workspace");
    expect(rig.files.get("/src/calc-kiki-parser/a")).toBe("x");
    expect(rig.jj.made).toEqual([]);
  });

  test("workspace: record, folder gone → CreateFailed, record forgotten", async () => {
    const threadId = await resumedWith((path) => void rig.files.removeTree(path));
    expect(rig.error(threadId)).toContain("its folder /src/calc-kiki-parser is gone");
    expect(rig.jj.at("kk-parser")).toBeNull();
  });

  test("workspace: record of somebody else under that name → CreateFailed, record and folder left alone", async () => {
    const threadId = await resumedWith((path) => {
      rig.files.put(`${path}/a`, "x");
      rig.jj.personRecord("kk-parser", "/elsewhere", rig.jj.at("default")!);
    }, "Create.workspace.started");
    expect(rig.error(threadId)).toContain("is not this thread's");
    expect(rig.jj.at("kk-parser")).not.toBeNull();
    expect(rig.files.get("/src/calc-kiki-parser/a")).toBe("x");
  });
});

describe("gate and reports", () => {
  test("gate: another pane asks → nothing, until its time is over", async () => {
    const { threadId } = await waiting();
    expect(await rig.creation.awaitGate(threadId, "%77", 0)).toBeNull();
    expect(await codeOf(rig.creation.awaitGate("nobody", "%1", 0))).toBe("unknown-thread");
  });

  test("reports: process of a gate nobody passed, or of an ended incarnation → refused", async () => {
    const { threadId, incarnation } = await waiting();
    const { pid, startTime } = sessionById(rig.db, incarnation)!;
    rig.creation.harnessStarted(incarnation, pid!, startTime!);
    expect(await codeOf(() => rig.creation.harnessStarted(incarnation, 1, "1"))).toBe(
      "gate-not-claimed",
    );
    rig.creation.harnessExited(incarnation, 0, null);
    expect(await codeOf(() => rig.creation.harnessStarted(incarnation, 2, "2"))).toBe(
      "incarnation-retired",
    );
    await rig.ended(threadId);
    expect(gateOf(rig.db, incarnation)!.state).toBe("Exec");
    expect(await codeOf(() => rig.creation.harnessExited("nobody", 0, null))).toBe(
      "unknown-incarnation",
    );
  });

  test("reports: handshake after the creation has failed → refused without effect", async () => {
    const { threadId, incarnation } = await waiting();
    rig.creation.harnessExited(incarnation, 1, null);
    await rig.creation.sessionStarted(incarnation, "late");
    await rig.ended(threadId);
    expect(rig.thread(threadId).lifecycle).toBe("CreateFailed");
    expect(rig.creation.isReady(incarnation)).toBe(false);
    expect(await rig.creation.waitReady(incarnation, 1_000)).toBe(false);
  });

  for (const [exitCode, signal, status, event] of [
    [0, null, "Quiescent", null],
    [2, null, "Crashed", 'agent-crashed: the agent of "parser" ended: exit code 2'],
    [null, 9, "Crashed", 'agent-crashed: the agent of "parser" ended: signal 9'],
    [
      127,
      null,
      "Crashed",
      'agent-crashed: the agent of "parser" ended: exit code 127: it could not be started',
    ],
  ] as const) {
    test(`reports: agent of an Active thread ends (${exitCode ?? `signal ${signal}`}) → ${status}, thread stays Active`, async () => {
      const { threadId } = await rig.made(inputFor("parser"));
      const { incarnation } = liveSession(rig.db, threadId)!;
      rig.creation.harnessExited(incarnation, exitCode, signal);
      rig.creation.harnessExited(incarnation, exitCode, signal);
      expect(sessionById(rig.db, incarnation)).toMatchObject({ status });
      expect(liveSession(rig.db, threadId)).toBeNull();
      expect(rig.thread(threadId).lifecycle).toBe("Active");
      expect(attention(threadId)).toEqual(event === null ? [] : [event]);
      expect(rig.creation.isReady(incarnation)).toBe(false);
    });
  }

  test("reports: session reported again under another id (/clear) → id recorded, ready only once", async () => {
    const { threadId } = await rig.made(inputFor("parser"));
    const { incarnation, readyAt } = liveSession(rig.db, threadId)!;
    await rig.creation.sessionStarted(incarnation, "after-clear");
    expect(sessionById(rig.db, incarnation)).toMatchObject({
      harnessSessionId: "after-clear",
      readyAt,
    });
    expect(rig.active).toHaveLength(1);
    expect(await rig.creation.waitReady(incarnation, 0)).toBe(true);
  });

  test("reports: waiting for ready → woken by the handshake", async () => {
    const { incarnation } = await waiting();
    const ready = rig.creation.waitReady(incarnation, 5_000);
    await rig.creation.sessionStarted(incarnation, "s");
    expect(await ready).toBe(true);
  });
});
