/** Unlucky moments around a boundary: what arrives, lands or fails exactly when it should not. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { fail as failure } from "../../src/core/errors.ts";
import type { JjRepo } from "../../src/ports/jj.ts";
import { incarnation } from "../../src/store/edges.ts";
import { keptCapabilities } from "../../src/store/sessions.ts";
import { triggersOf, unresolvedIntents } from "../../src/store/intents.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { makePair, type Pair } from "./pair.ts";
import type { Rig, RigOptions } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

async function family(options: RigOptions = {}): Promise<Pair> {
  const pair = await makePair(options);
  rigs.push(pair.rig);
  return pair;
}

const intent = (f: Pair, n = 0) => f.rig.intents(f.child)[n]!;

/** jj with some of its methods replaced; each replacement gets the original repository. */
function withJj(over: (jj: JjRepo) => Partial<JjRepo>): { wrapJj(jj: JjRepo): JjRepo } {
  return { wrapJj: (jj) => ({ ...jj, ...over(jj) }) };
}

function once(body: () => void | Promise<void>): () => Promise<void> {
  let done = false;
  return async () => {
    if (done) return;
    done = true;
    await body();
  };
}

// ---- what the parent does while the child is being brought up to date ----------------------------------------

test("parent adds another revision while the child is being rebased onto the first → followed, nothing diverges", async () => {
  let meanwhile = async (): Promise<void> => undefined;
  const f: Pair = await family(
    withJj((jj) => ({
      async stageRebase(input) {
        await meanwhile();
        return jj.stageRebase(input);
      },
    })),
  );
  await f.advance("lexer.txt");
  meanwhile = once(() => f.advance("printer.txt"));
  await f.agent.batch();
  await f.agent.batch();
  await f.agent.batch();
  expect(f.rig.intents(f.child).map((i) => i.reason)).not.toContain("AnchorNotInChild");
  expect(f.rig.attention(f.child)).toEqual([]);
  expect(f.rig.file(f.child, "printer.txt")).toBe("printer.txt\n");
});

test("parent amends between kiki's last look and its update → the newest state, no recovery", async () => {
  let meanwhile = async (): Promise<void> => undefined;
  let probes = 0;
  const f: Pair = await family(
    withJj((jj) => ({
      async probe(root, name, op) {
        const seen = await jj.probe(root, name, op);
        probes += 1;
        if (probes === 1) await meanwhile();
        return seen;
      },
    })),
  );
  await f.amend("two\n");
  meanwhile = once(() => f.amend("three\n"));
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBe(intent(f).payload);
  expect(f.rig.file(f.child, "parser.txt")).toBe("three\n");
  expect(f.rig.attention(f.child)).toEqual([]);
});

thorough(
  "parent amends the very revision the child is being rebased onto → the old one does not come back",
  async () => {
    let meanwhile = async (): Promise<void> => undefined;
    const f: Pair = await family(
      withJj((jj) => ({
        async stageRebase(input) {
          await meanwhile();
          return jj.stageRebase(input);
        },
      })),
    );
    await f.advance("lexer.txt");
    meanwhile = once(async () => {
      f.rig.repo.write("lexer.txt", "better\n", f.parent.path);
      await f.rig.repo.jj(["status"], f.parent.path);
    });
    const [answer] = await f.agent.batch();
    expect(answer!.text).toBe(intent(f).payload);
    expect(f.rig.file(f.child, "lexer.txt")).toBe("better\n");
    expect(await f.rig.repo.commit("divergent()")).toBe("");
  },
);

test("operation lands while the result is being written down → the newest head is what stays recorded", async () => {
  let meanwhile = async (): Promise<void> => undefined;
  const f: Pair = await family(
    withJj((jj) => ({
      async diff(...args) {
        await meanwhile();
        return jj.diff(...args);
      },
    })),
  );
  await f.amend("two\n");
  meanwhile = once(async () => {
    await f.rig.repo.jj(["describe", "-m", "renamed", "-r", await f.rig.head(f.child)]);
    await f.rig.cascade.refreshToFrontier();
  });
  await f.agent.batch();
  await f.rig.cascade.refreshToFrontier();
  expect(
    f.rig.db
      .query("SELECT thread_head_commit_id AS head FROM threads WHERE thread_id = ?")
      .get(f.child.id),
  ).toEqual({ head: await f.rig.head(f.child) });
});

test("parent amends and advances, somebody else's revision stands on the child → diverged, no file touched", async () => {
  const f = await family();
  const foreign = await f.rig.head(f.child);
  await f.rig.repo.jj(["new", "--no-edit", "-m", "somebody's", foreign]);
  await f.amend("two\n");
  await f.advance("lexer.txt");
  await f.agent.batch();
  expect(intent(f)).toMatchObject({ state: "TopologyDiverged", reason: "ForeignDescendant" });
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
});

test("parent was rebased onto the child, whose edits are recorded at its boundary → the diverged edge knows where that put the parent", async () => {
  const f = await family();
  const { repo, db } = f.rig;
  await f.advance("lexer.txt");
  await repo.jj(["rebase", "-s", await f.rig.head(f.parent), "-d", await f.rig.head(f.child)]);
  await f.rig.cascade.refreshToFrontier();
  const before = await f.rig.head(f.parent);
  repo.write("tests.txt", "an edit nobody recorded\n", f.child.path);
  await f.agent.batch();
  const now = await f.rig.head(f.parent);
  expect(now).not.toBe(before);
  const [only, ...others] = unresolvedIntents(db, f.child.id);
  expect(only).toMatchObject({ state: "TopologyDiverged" });
  expect(others).toEqual([]);
  const ends = triggersOf(db, only!.intentId).map((t) => t.to);
  expect([only!.toBase, ...ends]).toContain(now);
});

// ---- batches, sessions, other agents -------------------------------------------------------------------------

test("/clear after the batch closed → the new conversation never got the payload: told again, then acknowledged", async () => {
  const f = await family();
  await f.amend("two\n");
  const [first] = await f.agent.batch();
  expect(intent(f).receipt).toBe("matching");
  await f.agent.event({
    type: "SessionStarted",
    sessionId: "after-clear",
    source: "clear",
    transcriptPath: null,
  });
  f.agent.session = "after-clear";
  f.agent.prompt = "prompt-2";
  const [second] = await f.agent.batch();
  expect(second!.text).toBe(first!.text);
  expect((await f.agent.call()).text).toBeNull();
  expect(intent(f)).toMatchObject({ state: "Acknowledged", softRedeliveryCount: 1 });
});

test("conversation compacted while another agent's call is in flight → that call still counts", async () => {
  const f = await family({ settings: { drainMs: 300 } });
  expect((await f.agent.call("sub-1", "agent-7")).text).toBeNull();
  await f.agent.event({
    type: "SessionStarted",
    sessionId: incarnation(f.rig.db, f.child.incarnation)!.harnessSessionId!,
    source: "compact",
    transcriptPath: null,
  });
  await f.amend("two\n");
  expect((await f.agent.call()).text).toBeNull();
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
});

thorough(
  "hold confirmed only after the settlement ended → the same answer as its siblings",
  async () => {
    let meanwhile = async (): Promise<void> => undefined;
    const f: Pair = await family(
      withJj((jj) => ({
        async updateStale(...args) {
          await meanwhile();
          await jj.updateStale(...args);
        },
      })),
    );
    await f.amend("two\n");
    let token = "";
    meanwhile = once(async () => {
      const late = await f.agent.ask("t2");
      if (late.decision === "hold") token = late.token;
    });
    const { text } = await f.agent.call("t1");
    expect(text).toBe(intent(f).payload);
    expect(await f.agent.confirm(token)).toMatchObject({ decision: "deny", output: text });
  },
);

test("calls arriving at every moment of a settlement → none is left without an answer", async () => {
  const f = await family();
  await f.amend("two\n");
  let over = false;
  const first = f.agent.call().finally(() => (over = true));
  const calls: Promise<{ text: string | null }>[] = [];
  while (!over) {
    calls.push(f.agent.call());
    await new Promise((resolve) => setImmediate(resolve));
    if (calls.length > 400) break;
  }
  const { text } = await first;
  for (const call of calls) expect((await call).text).toBe(text);
});

test("batch blocked, then the edge diverged → later siblings of that batch stay blocked, the next batch passes", async () => {
  const f = await family();
  await f.rig.repo.jj(["new", "--no-edit", "-m", "somebody's", await f.rig.head(f.child)]);
  await f.advance("lexer.txt");
  const first = await f.agent.call();
  expect(intent(f).state).toBe("TopologyDiverged");
  const sibling = await f.agent.call();
  expect(first.text).toContain("did not run");
  expect(f.rig.file(f.child, "lexer.txt")).toBeNull();
  expect(sibling.text).toContain("did not run");
  await f.agent.close([first, sibling]);
  expect((await f.agent.call()).text).toBeNull();
});

test("boot resumes a bound intent, another agent's unseen call is open → its siblings are held, not passed", async () => {
  let gate: Promise<void> | null = null;
  const f = await family(
    withJj((jj) => ({
      async updateStale(...args) {
        await gate;
        await jj.updateStale(...args);
      },
    })),
  );
  await f.amend("two\n");
  const crash = {
    at: (name: string) => void (name === "intent.Detected-Reconciling.completed" && fail()),
  };
  await f.rig.reboot(crash);
  await f.agent.call();
  f.agent.passUnseen("sub-1", "agent-7");
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  await f.rig.reboot();
  const answer = await f.agent.ask("sub-2", "agent-7");
  resolve();
  expect(answer.decision).not.toBe("pass");
});

function fail(): never {
  throw new Error("crash");
}

// ---- failures ------------------------------------------------------------------------------------------------

test("jj fails before anything is bound → the batch goes through, no barrier stays behind, loud", async () => {
  let broken = 0;
  const f = await family(
    withJj((jj) => ({
      heads() {
        broken -= 1;
        return broken === 0 ? Promise.reject(new Error("disk on fire")) : jj.heads();
      },
    })),
  );
  await f.amend("two\n");
  broken = 1;
  const [answer] = await f.agent.batch();
  expect(answer!.text).toBeNull();
  expect(f.rig.barrier(f.child)).toBe(false);
  expect(intent(f).state).toBe("Detected");
  expect(f.rig.attention(f.child)).toHaveLength(1);
  expect((await f.agent.batch())[0]!.text).toBe(intent(f).payload);
});

thorough(
  "bound, and several operation heads cannot be merged → blocked, and a person hears of it",
  async () => {
    const f = await family(
      withJj(() => ({
        mergeHeads: () => Promise.reject(failure("failed", "jj-locked", "somebody holds the lock")),
      })),
    );
    await f.amend("two\n");
    let armed = true;
    await f.rig.reboot({
      at(name) {
        if (!armed || name !== "intent.update-stale.before") return;
        armed = false;
        throw new Error("crash");
      },
    });
    await f.agent.batch();
    const before = f.rig.attention(f.child).length;
    const at = await f.rig.repo.head();
    for (const name of ["x", "y"])
      await f.rig.repo.jj([`--at-op=${at}`, "bookmark", "create", name, "-r", "root()+"]);
    for (let n = 0; n < 4; n += 1)
      expect((await f.agent.batch())[0]!.text).toContain("did not run");
    expect(f.rig.attention(f.child).length).toBeGreaterThan(before);
  },
);

test("call id comes again after its batch closed → a call like any other: blocked, or in flight", async () => {
  const f = await family({ settings: { drainMs: 200 } });
  const again = await f.agent.call("same");
  await f.agent.close([again]);
  expect((await f.agent.call("same")).text).toBeNull(); // in flight again
  await f.amend("two\n");
  expect((await f.agent.call("sub-1", "agent-7")).text).toBeNull();
  f.agent.prompt = "prompt-1";
  await f.agent.close([{ toolUseId: "sub-1", text: null }], "agent-7");
  await f.agent.close([{ toolUseId: "same", text: null }]);
  const blocked = await f.agent.call("same");
  expect(blocked.text).toBe(intent(f).payload);
  await f.agent.close([blocked]);
  expect(intent(f).receipt).toBe("matching");
});

thorough(
  "blocked tool ran although recovery is already required → still loud, the batch still closes",
  async () => {
    const f = await family();
    // Not provable: somebody's revision stands on the child.
    await f.rig.repo.jj(["new", "--no-edit", "-m", "somebody's", await f.rig.head(f.child)]);
    f.rig.repo.write("parser.txt", "the child's own edit\n", f.child.path);
    await f.amend("two\n");
    const first = await f.agent.call();
    expect(intent(f).state).toBe("RecoveryRequired");
    await f.agent.close([{ ...first, got: "total 0\n" }]);
    expect(f.rig.attention(f.child).some((text) => text.includes("ran a tool"))).toBe(true);
  },
);

test("blocked tool ran while a recovery was open → closed, for a person; its version is told by restart from then on", async () => {
  let hung = true;
  const f = await family({
    wrapJj: (jj) => ({
      ...jj,
      updateStale: (...args) =>
        hung
          ? Promise.reject(failure("failed", "jj-timeout", "it did not finish in time"))
          : jj.updateStale(...args),
    }),
  });
  f.rig.repo.write("tests.txt", "the child's own edit\n", f.child.path);
  await f.amend("two\n");
  const first = await f.agent.call();
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: true });
  await f.agent.close([{ ...first, got: "total 0\n" }]);
  expect(intent(f)).toMatchObject({ state: "RecoveryRequired", recovering: false });
  expect(f.rig.attention(f.child).some((text) => text.includes("ran a tool"))).toBe(true);
  hung = false;
  expect((await f.agent.call()).text).toContain("waits for a person");
  expect(f.rig.file(f.child, "tests.txt")).toBe("the child's own edit\n");
  await f.rig.cascade.troubles.settle(intent(f).intentId, { do: "retry" }, "op");
  expect((await f.agent.call()).text).not.toBeNull();
  const started = await f.rig.replaced(f.child);
  expect(started.prompt).toStartWith(intent(f).payload!);
  const { db } = f.rig;
  const proven = { parallel_batch_boundary: true, mcp_client: true };
  expect(keptCapabilities(db, "claude-code", "2.1.332", proven)).toEqual({
    parallel_batch_boundary: false,
    mcp_client: true,
  });
  expect(keptCapabilities(db, "claude-code", "2.1.333", proven)).toEqual(proven);
});

test("late duplicate of a closing event, an unknown call in flight → the call's batch stays open", async () => {
  const f = await family();
  const old = await f.agent.batch();
  f.agent.passUnseen(null);
  await f.agent.close(old);
  await f.amend("two\n");
  expect((await f.agent.call()).text).toBeNull();
  expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
});

test("spooled receipt, database cannot be written → kept for later, not lost", async () => {
  const f = await family();
  await f.amend("two\n");
  const answer = await f.agent.call();
  f.agent.spool({
    type: "BatchClosed",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    calls: [
      {
        toolUseId: answer.toolUseId,
        toolName: "Tool",
        response: `PreToolUse:Tool hook error: ${answer.text}`,
      },
    ],
  });
  f.rig.db.run("PRAGMA query_only = ON");
  await f.agent.ask("t-next").catch(() => undefined);
  f.rig.db.run("PRAGMA query_only = OFF");
  expect((await f.agent.call("t-after")).text).toBeNull();
  expect(intent(f).state).toBe("Acknowledged");
});
