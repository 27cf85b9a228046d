/**
 * Delivery by restart, on real jj: where a boundary cannot be proved another incarnation is started with the payload as
 * its first input, and only what that one shows acknowledges.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { startupMark } from "../../src/core/delivery.ts";
import { fail } from "../../src/core/errors.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { HOLD_TEXT } from "../../src/cascade/texts.ts";
import { NO_CRASH, type CrashPoints } from "../../src/ports/crash.ts";
import { discardDelivery, startEpoch } from "../../src/store/deliveries.ts";
import { isKnownCall } from "../../src/store/admissions.ts";
import { liveSession, sessionById, sessionsOf } from "../../src/store/sessions.ts";
import { removeTempDirs } from "../support/temp.ts";
import { thorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";
import { REPO_ID, type Rig, type RigOptions } from "./rig.ts";
import type { Started } from "./rig-agents.ts";

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

/** A payload was given and the batch never closed: the person pressed Esc and typed something else. */
async function unproved(f: Pair, typed = "never mind, do this"): Promise<void> {
  await f.amend("two\n");
  await f.agent.call();
  f.agent.prompt = "prompt-2";
  await prompt(f, typed);
  expect((await f.agent.call()).text).toContain("restarted");
}

function prompt(f: Pair, text: string): Promise<void> {
  const { session: sessionId, prompt: promptId } = f.agent;
  return f.agent.event({ type: "UserPrompt", sessionId, promptId, prompt: text });
}

/** The end of a tool that was never asked about. */
function ranUnseen(f: Pair, toolUseId: string): Promise<void> {
  return f.agent.event({
    type: "PostTool",
    sessionId: "s",
    agentId: null,
    promptId: "prompt-1",
    toolUseId,
    toolName: "Tool",
    failed: false,
  });
}

function turnEnds(f: Pair, promptId: string): Promise<void> {
  const { session: sessionId } = f.agent;
  return f.agent.event({ type: "TurnStopped", sessionId, agentId: null, promptId });
}

/** The replacement is ready, and submits what it was started with. */
async function takesUp(f: Pair, started: Started, promptId = "prompt-s"): Promise<void> {
  f.rig.agents.ready(started);
  f.agent.prompt = promptId;
  await prompt(f, started.prompt!);
}

async function attempts(f: Pair, nth = 1): Promise<Started> {
  return f.rig.replaced(f.child, nth);
}

/** The process of the incarnation that is there now ends. */
function ends(f: Pair, how: "Crashed" | "Quiescent"): void {
  f.rig.agents.ended({ threadId: f.child.id, incarnation: f.child.incarnation }, how);
}

/** The nth attempt starts and its process ends before it is ready. */
async function failed(f: Pair, nth: number): Promise<Started> {
  const started = await attempts(f, nth);
  f.rig.agents.ended(started, "Crashed");
  return started;
}

async function exhausted(f: Pair): Promise<void> {
  await unproved(f);
  for (const nth of [1, 2, 3]) await failed(f, nth);
  expect(intent(f).exhausted).toBe(true);
}

/** Whatever was asked for in the background has been looked at. */
async function idle(f: Pair): Promise<void> {
  await f.rig.reboot();
}

function dieAt(point: string, nth = 1): CrashPoints {
  let left = nth;
  return {
    at(name) {
      if (name !== point || (left -= 1) !== 0) return;
      throw new Error(`crash at ${name}`);
    },
  };
}

describe("a boundary that cannot be proved", () => {
  test("ambiguous completion → agent ended, replacement row and saved payload durable before it is started, no tool replayed", async () => {
    const f = await family();
    const old = f.child.incarnation;
    await unproved(f);
    const { payload } = intent(f);
    const started = await attempts(f);
    expect(started.prompt!.startsWith(payload!)).toBe(true);
    expect(started.prompt).toContain(startupMark(started.deliveryId));
    expect(f.rig.agents.asked.slice(0, 4)).toEqual([
      "stop",
      `end ${old}`,
      "stop",
      `replace ${started.incarnation}`,
    ]);
    expect(intent(f)).toMatchObject({
      state: "Delivered", // from the soft delivery that could not be proved
      barrier: null,
      batchCompletedAt: null,
      receipt: null,
      restart: { incarnation: started.incarnation, deliveryId: started.deliveryId },
      payload,
    });
    expect(sessionsOf(f.rig.db, f.child.id).map((s) => s.retiredAt !== null)).toEqual([
      true,
      false,
    ]);
    const claim = f.rig.db
      .query(
        "SELECT startup_intent_id AS i, startup_intent_epoch AS e, startup_payload_sha256 AS h FROM agent_sessions WHERE agent_session_id = ?",
      )
      .get(started.incarnation);
    expect(claim).toEqual({ i: intent(f).intentId, e: 1, h: intent(f).payloadSha256 });
    expect(f.rig.barrier(f.child)).toBe(true);
  });

  test("replacement ready → Delivered; calls before its echo blocked; the first call of the echoed prompt acknowledges and passes", async () => {
    const f = await family();
    await unproved(f);
    const started = await attempts(f);
    f.rig.agents.ready(started);
    f.agent.prompt = "prompt-typed";
    expect((await f.agent.call()).text).toContain("restarted");
    await f.agent.close([]);
    await prompt(f, "typed before kiki's own input");
    expect((await f.agent.call()).text).toContain("restarted");
    expect(intent(f).state).toBe("Delivered");
    f.agent.prompt = "prompt-s";
    await prompt(f, started.prompt!);
    expect((await f.agent.call("toolu_first")).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
    expect(f.rig.barrier(f.child)).toBe(false);
    expect(f.rig.attention(f.child)).toEqual([]);
  });

  test("a call of a prompt before the echoed one, arriving after the echo → acknowledges nothing", async () => {
    const f = await family();
    await unproved(f);
    const started = await attempts(f);
    f.rig.agents.ready(started);
    f.agent.prompt = "prompt-early";
    await prompt(f, "typed first");
    f.agent.prompt = "prompt-s";
    await prompt(f, started.prompt!);
    f.agent.prompt = "prompt-early";
    expect((await f.agent.call()).text).toContain("restarted");
    expect(intent(f).state).toBe("Delivered");
    f.agent.prompt = "prompt-s";
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  test("the echoed turn ends without a call → the first call of a later prompt acknowledges, a daemon's restart between them", async () => {
    const f = await family();
    await unproved(f);
    await takesUp(f, await attempts(f));
    await turnEnds(f, "prompt-s");
    await f.rig.reboot();
    expect(f.rig.agents.started).toHaveLength(1);
    f.agent.prompt = "prompt-later";
    await prompt(f, "and this");
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  for (const over of ["a call of it", "its end"] as const)
    test(`echoed prompt broken off with Esc, something else typed: ${over} → acknowledges nothing; started anew, text and words in the first input`, async () => {
      const f = await family();
      await unproved(f);
      const first = await attempts(f);
      await takesUp(f, first);
      // Nothing is reported of Esc; the text is in the composer, and not in the conversation.
      f.agent.prompt = "prompt-other";
      await prompt(f, "something else first");
      if (over === "its end") await turnEnds(f, "prompt-other");
      else expect((await f.agent.call()).text).toContain("restarted");
      expect(intent(f).state).toBe("Delivered");
      const second = await attempts(f, 2);
      expect(f.rig.agents.asked).toContain(`end ${first.incarnation}`);
      expect(second.prompt!.startsWith(intent(f).payload!)).toBe(true);
      expect(second.prompt!.endsWith("something else first")).toBe(true);
      await takesUp(f, second);
      expect((await f.agent.call()).text).toBeNull();
      expect(intent(f).state).toBe("Acknowledged");
    });

  test("echoed prompt broken off, then sent once more with more words → its call acknowledges, nobody is started anew", async () => {
    const f = await family();
    await unproved(f);
    const started = await attempts(f);
    await takesUp(f, started);
    f.agent.prompt = "prompt-again";
    await prompt(f, `${started.prompt!} and be quick`);
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
    expect(f.rig.agents.started).toHaveLength(1);
  });

  thorough("another prompt with another attempt's id → no echo", async () => {
    const f = await family();
    await unproved(f);
    const first = await failed(f, 1);
    const second = await attempts(f, 2);
    f.rig.agents.ready(second);
    f.agent.prompt = "prompt-x";
    await prompt(f, first.prompt!);
    expect((await f.agent.call()).text).toContain("restarted");
    expect(intent(f).state).toBe("Delivered");
    expect(second.deliveryId).not.toBe(first.deliveryId);
  });

  test("acknowledged by the echo, another intent waits → the next intent decides about this very call", async () => {
    const f = await family();
    await unproved(f);
    await f.amend("three\n");
    expect(f.rig.intents(f.child)).toHaveLength(2);
    await takesUp(f, await attempts(f));
    const told = await f.agent.call();
    expect(told.text).toBe(intent(f, 1).payload);
    expect(intent(f).state).toBe("Acknowledged");
    expect(f.rig.file(f.child, "parser.txt")).toBe("three\n");
    await f.agent.close([told]);
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f, 1).state).toBe("Acknowledged");
  });

  thorough("second contrary receipt → restart, not a third delivery at a boundary", async () => {
    const f = await family();
    await f.amend("two\n");
    for (let n = 0; n < 2; n += 1) {
      const told = await f.agent.call();
      await f.agent.close([{ ...told, got: "PreToolUse:Tool hook error: lost" }]);
    }
    expect((await f.agent.call()).text).toContain("restarted");
    await takesUp(f, await attempts(f));
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  test("typed words longer than a program can be started with → the newest that fit follow the payload, all are in the file it names", async () => {
    const f = await family();
    // Three bytes each: what counts is what the kernel counts.
    const long = `first ${"語".repeat(60_000)} last`;
    await unproved(f, long);
    await prompt(f, "and then\u0000 this\ud800");
    const { prompt: input } = await attempts(f);
    expect(Buffer.byteLength(input!)).toBeLessThan(120_000);
    expect(input).not.toContain("\0");
    expect(input!.isWellFormed()).toBe(true);
    expect(input!.startsWith(intent(f).payload!)).toBe(true);
    const [, path] = /in the file (\/.+)\)$/.exec(input!)!;
    const all = readFileSync(path!, "utf8");
    expect(all).toContain(long);
    // It is started: nobody is refused for what is too long or no argument at all.
    expect(Bun.spawnSync(["/bin/true", input!]).exitCode).toBe(0);
  });

  test("typed for work that came to nothing, or for a turn that is over → not repeated to a later replacement", async () => {
    const f = await family();
    await f.amend("two\n");
    await prompt(f, "done in that turn");
    await f.agent.event({ type: "TurnStopped", sessionId: "s", agentId: null, promptId: "p" });
    f.agent.prompt = "prompt-1";
    await prompt(f, "and this");
    await f.agent.call();
    ends(f, "Crashed");
    const { prompt: input } = await attempts(f);
    expect(input).not.toContain("done in that turn");
    expect(input).toEndWith("and this");
  });

  test("last word of the one before, handled late → what the hooks of its successor have left lies there still", async () => {
    const f = await family();
    const before = f.child.incarnation;
    await unproved(f);
    const { incarnation } = await attempts(f);
    const { spool } = threadPaths(f.rig.stateDir, REPO_ID, f.child.id);
    const event = { type: "UserPrompt", sessionId: "s", promptId: "p", prompt: "typed" };
    mkdirSync(spool, { recursive: true });
    writeFileSync(`${spool}/1-1-0.json`, JSON.stringify({ incarnation, event }));
    f.agent.passUnseen("toolu_passed");
    const { prompts } = sessionById(f.rig.db, incarnation)!;
    const late = { type: "TurnStopped", sessionId: "s", agentId: null, promptId: "prompt-2" };
    await f.rig.cascade.event({ threadId: f.child.id, incarnation: before }, late);
    await f.agent.event({ type: "Other", name: "anything" });
    expect(sessionById(f.rig.db, incarnation)!.prompts).toBe(prompts + 1);
    expect(isKnownCall(f.rig.db, incarnation, "toolu_passed")).toBe(true);
  });

  thorough("a prompt that is reported twice → repeated once", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call();
    f.agent.prompt = "prompt-2";
    await prompt(f, "do this");
    await prompt(f, "do this");
    await f.agent.call();
    expect((await attempts(f)).prompt!.split("do this")).toHaveLength(2);
  });

  test("typed, taken back with Esc and typed anew → all of it in the first input, and what was broken off is said to be", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call();
    for (const [promptId, words] of [
      ["prompt-1b", "sent twice"],
      ["prompt-1c", "sent twice"],
      ["prompt-2", "delete the tests"],
      ["prompt-3", "do not delete the tests"],
      ["prompt-4", "answered without a call"],
      ["prompt-5", "and the last"],
    ] as const) {
      f.agent.prompt = promptId;
      await prompt(f, words);
      if (promptId === "prompt-4" || promptId === "prompt-1c") await turnEnds(f, promptId);
    }
    await f.agent.call();
    const { prompt: input } = await attempts(f);
    const broken = "(The person sent something else before kiki had seen an answer to this;";
    const said = input!.slice(input!.indexOf("Typed meanwhile")).split("\n\n").slice(1);
    expect(said.map((one) => (one.startsWith(broken) ? "broken off" : one))).toEqual([
      "sent twice",
      "delete the tests",
      "broken off",
      "do not delete the tests",
      "broken off",
      "answered without a call",
      "and the last",
    ]);
  });

  test("typed to an agent that dies, then something else to its replacement → neither is said to be broken off", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call();
    f.agent.prompt = "prompt-2";
    await prompt(f, "first of all");
    ends(f, "Crashed");
    await takesUp(f, await attempts(f));
    f.agent.prompt = "prompt-7";
    await prompt(f, "then this");
    ends(f, "Crashed");
    const { prompt: input } = await attempts(f, 2);
    expect(input).toEndWith("first of all\n\nthen this");
  });

  test("typed, a call of it refused, then typed something else → both in the first input, neither as broken off", async () => {
    const f = await family();
    await unproved(f, "first of all");
    const first = await attempts(f);
    await takesUp(f, first);
    f.agent.prompt = "prompt-7";
    await prompt(f, "then this");
    expect((await f.agent.call()).text).toContain("restarted");
    const { prompt: input } = await attempts(f, 2);
    expect(input).toEndWith("first of all\n\nthen this");
  });

  test("what the person typed meanwhile → follows the payload in the first input, until the agent shows that it knows", async () => {
    const f = await family();
    await unproved(f, "no, rename it to lexer");
    const first = await failed(f, 1);
    const second = await attempts(f, 2);
    for (const { prompt: input, deliveryId } of [first, second]) {
      const at = input!.indexOf("no, rename it to lexer");
      expect(at).toBeGreaterThan(input!.indexOf(startupMark(deliveryId)));
    }
    await takesUp(f, second);
    await f.agent.call();
    f.agent.prompt = "prompt-9";
    await f.agent.batch();
    await f.amend("three\n");
    await f.agent.call();
    ends(f, "Crashed");
    expect((await attempts(f, 3)).prompt).not.toContain("rename it to lexer");
  });

  test("first turn ends without the startup prompt → that attempt is over, another is made", async () => {
    const f = await family();
    await unproved(f);
    const first = await attempts(f);
    f.rig.agents.ready(first);
    await turnEnds(f, "p");
    const second = await attempts(f, 2);
    expect(f.rig.agents.asked).toContain(`end ${first.incarnation}`);
    await takesUp(f, second);
    expect((await f.agent.call()).text).toBeNull();
  });

  test("a person ends the agent themselves → nobody starts it for them, and nothing is forgotten", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.agent.call();
    ends(f, "Quiescent");
    await idle(f);
    expect(f.rig.agents.started).toEqual([]);
    expect(intent(f).state).toBe("Delivered");
    expect(f.rig.barrier(f.child)).toBe(true);
  });

  test("agent does not stand still, or cannot be started → loud, nothing counted, files as they are; later it goes on", async () => {
    const f = await family();
    f.rig.agents.moving = "vim (77) does not end";
    await unproved(f);
    await waitFor(() => f.rig.attention(f.child).length > 0, 5_000, "said");
    expect(f.rig.attention(f.child)[0]).toContain("vim (77) does not end");
    f.rig.agents.moving = null;
    f.rig.agents.refuses = fail("failed", "hooks-not-exclusive", "somebody else hooks");
    await f.rig.reboot();
    await waitFor(() => f.rig.attention(f.child).length > 1, 5_000, "said as well");
    expect(sessionsOf(f.rig.db, f.child.id)).toHaveLength(1);
    f.rig.agents.refuses = null;
    await f.rig.reboot();
    await takesUp(f, await attempts(f));
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });
});

describe("a lost agent", () => {
  test("agent crashes after delivery, before acknowledgement → replaced at once, told by its first input, then acknowledged", async () => {
    const f = await family();
    await f.amend("two\n");
    const told = await f.agent.call();
    await f.agent.close([told]);
    expect(intent(f)).toMatchObject({ state: "Delivered", receipt: "matching" });
    ends(f, "Crashed");
    const started = await attempts(f);
    expect(started.prompt!.startsWith(told.text!)).toBe(true);
    // A matching receipt of the process that is gone proves nothing about the one that is there.
    expect(intent(f)).toMatchObject({ state: "Delivered", receipt: null });
    await takesUp(f, started);
    await f.agent.batch();
    expect(intent(f).state).toBe("Acknowledged");
  });

  thorough(
    "agent crashes between materialisation and delivery → the same payload, byte for byte",
    async () => {
      const f = await family();
      await f.amend("two\n");
      const told = await f.agent.call(undefined, null, false);
      expect(intent(f).state).toBe("Materialized");
      ends(f, "Crashed");
      const started = await attempts(f);
      expect(started.prompt!.startsWith(told.text!)).toBe(true);
      f.rig.agents.ready(started);
      expect(intent(f).state).toBe("Delivered");
    },
  );

  test("resume with a delivered, unacknowledged intent; conversation id reused → old incarnation retired without acknowledgement, told before any tool; a crash before its first boundary → told by another", async () => {
    const f = await family();
    await f.amend("two\n");
    const told = await f.agent.call();
    const conversation = liveSession(f.rig.db, f.child.id)!.harnessSessionId;
    ends(f, "Crashed");
    const first = await attempts(f);
    expect(first.resumes).toBe(conversation);
    expect(liveSession(f.rig.db, f.child.id)!.harnessSessionId).toBe(conversation);
    f.rig.agents.ready(first);
    expect((await f.agent.call()).text).not.toBeNull();
    f.rig.agents.ended(first, "Crashed");
    const second = await attempts(f, 2);
    expect(second.resumes).toBe(conversation);
    expect(second.prompt!.startsWith(told.text!)).toBe(true);
    expect(intent(f).state).toBe("Delivered");
    await takesUp(f, second);
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  test("agent dies while kiki reconciles → files brought up to date by the restart, behind a stopped agent", async () => {
    const f = await family();
    await f.amend("two\n");
    await f.rig.reboot(dieAt("intent.update-stale.before"));
    await f.agent.call();
    expect(intent(f).state).toBe("Reconciling");
    expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
    ends(f, "Crashed");
    await f.rig.reboot();
    const started = await attempts(f);
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
    expect(started.prompt!.startsWith(intent(f).payload!)).toBe(true);
  });

  test.each([
    [
      "the daemon dies before it can start it plainly",
      "intent.Reconciling-TopologyDiverged.completed",
    ],
    ["it cannot be started at first", null],
  ])(
    "agent ended to be told of what cannot be followed; %s → started plainly by the next daemon",
    async (_, point) => {
      const f = await family();
      await f.rig.repo.jj(["new", "--no-edit", await f.rig.head(f.child)]);
      await f.rig.repo.jj(["new", "-m", "lexer"], f.parent.path);
      f.rig.repo.write("lexer.txt", "lexer\n", f.parent.path);
      await f.rig.repo.jj(["status"], f.parent.path);
      await f.rig.cascade.refreshToFrontier();
      if (point === null) f.rig.agents.refuses = fail("failed", "agent-pane-gone", "no pane");
      else await f.rig.reboot(dieAt(point));
      await ranUnseen(f, "toolu_unseen");
      // Typed while the agent is ended: the harness never gets to write it down.
      await prompt(f, "and mind the tests");
      expect((await f.agent.call()).text).toContain("restarted");
      await waitFor(() => f.rig.attention(f.child).length > 1, 20_000, "the trouble is said");
      expect(intent(f).state).toBe("TopologyDiverged");
      expect(f.rig.agents.started).toEqual([]);
      ends(f, "Crashed");
      f.rig.agents.refuses = null;
      await f.rig.reboot();
      const started = await attempts(f);
      expect(started.prompt).toEndWith("and mind the tests");
      f.rig.agents.ready(started);
      // Once, and not again when that one ends by itself.
      ends(f, "Crashed");
      await idle(f);
      expect(f.rig.agents.started).toHaveLength(1);
    },
  );

  test("a call of a passed batch was refused for what diverged since, the agent cannot be replaced → its later siblings are refused with it", async () => {
    const f = await family();
    await f.rig.repo.jj(["new", "--no-edit", await f.rig.head(f.child)]);
    await f.rig.repo.jj(["new", "-m", "lexer"], f.parent.path);
    f.rig.repo.write("lexer.txt", "lexer\n", f.parent.path);
    await f.rig.repo.jj(["status"], f.parent.path);
    await f.rig.cascade.refreshToFrontier();
    f.rig.agents.refuses = fail("failed", "agent-pane-gone", "no pane");
    await ranUnseen(f, "toolu_unseen");
    expect((await f.agent.call("toolu_a")).text).toContain("restarted");
    await waitFor(() => intent(f).state === "TopologyDiverged", 20_000, "it cannot be followed");
    expect((await f.agent.call("toolu_b")).text).toBe(HOLD_TEXT);
  });

  thorough("the same trouble again after it was over → said again, once", async () => {
    const f = await family();
    const said = () => f.rig.attention(f.child).filter((text) => text.includes("no pane"));
    const all = () =>
      f.rig.db
        .query<{ n: number }, []>(
          "SELECT count(*) AS n FROM attention WHERE message LIKE '%no pane%'",
        )
        .get()!.n;
    f.rig.agents.refuses = fail("failed", "agent-pane-gone", "no pane");
    await unproved(f);
    await waitFor(() => said().length === 1, 20_000, "the trouble is said");
    const stops = () => f.rig.agents.asked.filter((a) => a === "stop").length;
    const before = stops();
    await idle(f);
    await waitFor(() => stops() > before, 20_000, "tried again");
    expect(all()).toBe(1);
    f.rig.agents.refuses = null;
    await idle(f);
    const first = await attempts(f);
    expect(said()).toEqual([]);
    f.rig.agents.refuses = fail("failed", "agent-pane-gone", "no pane");
    f.rig.agents.ended(first, "Crashed");
    await waitFor(() => said().length === 1, 20_000, "it is said again");
    expect(all()).toBe(2);
  });

  test("crash with work merely detected → nothing owed: nobody is restarted for it", async () => {
    const f = await family();
    await f.amend("two\n");
    ends(f, "Crashed");
    await idle(f);
    expect(f.rig.agents.started).toEqual([]);
    expect(intent(f).state).toBe("Detected");
  });

  test("a tool of a batch nobody admitted has run, work is ready → files untouched, blocked, restarted for a clean boundary; with nothing ready it passes", async () => {
    const f = await family();
    const ran = (toolUseId: string) => ranUnseen(f, toolUseId);
    await ran("toolu_unseen");
    expect((await f.agent.call("toolu_a")).text).toBeNull();
    await f.amend("two\n");
    f.rig.agents.after = (what) => {
      if (what === "stop") expect(f.rig.file(f.child, "parser.txt")).toBe("one\n");
      f.rig.agents.after = () => undefined;
    };
    expect((await f.agent.call("toolu_b")).text).toContain("restarted");
    const started = await attempts(f);
    expect(f.rig.agents.asked[0]).toBe("stop");
    expect(f.rig.file(f.child, "parser.txt")).toBe("two\n");
    await takesUp(f, started);
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  test("a tool nobody admitted has run, its batch closed since → an ordinary boundary again", async () => {
    const f = await family();
    await ranUnseen(f, "toolu_unseen");
    await f.agent.close([{ toolUseId: "toolu_unseen", text: null }]);
    await f.amend("two\n");
    expect((await f.agent.call()).text).toBe(intent(f).payload);
    expect(f.rig.agents.asked).toEqual([]);
  });
});

describe("bounds", () => {
  test("three attempts fail → exhausted in the transaction of the last failure: paused, payload kept, loud once", async () => {
    const f = await family();
    await unproved(f);
    const { payload } = intent(f);
    await failed(f, 1);
    await failed(f, 2);
    expect(intent(f).exhausted).toBe(false);
    const last = await attempts(f, 3);
    let seen: unknown = null;
    const { cascade } = f.rig;
    const ended = cascade.agentEnded.bind(cascade);
    cascade.agentEnded = (...args) => {
      const after = ended(...args);
      seen = [intent(f).exhausted, f.rig.db.inTransaction];
      return after;
    };
    f.rig.agents.ended(last, "Crashed");
    expect(seen).toEqual([true, true]);
    await idle(f);
    expect(f.rig.agents.started).toHaveLength(3);
    expect(intent(f)).toMatchObject({ state: "Delivered", exhausted: true, payload, epoch: 1 });
    const said = f.rig.attention(f.child).filter((m) => m.includes("after 3 restarts"));
    expect(said).toHaveLength(1);
    expect(f.rig.barrier(f.child)).toBe(true);
  });

  test("daemon restarts between and after the attempts → the count goes on, nothing more is minted, said once", async () => {
    const f = await family();
    await unproved(f);
    await failed(f, 1);
    await attempts(f, 2);
    await f.rig.reboot();
    await failed(f, 2);
    await failed(f, 3);
    for (let n = 0; n < 3; n += 1) await f.rig.reboot();
    expect(f.rig.agents.started).toHaveLength(3);
    expect(f.rig.attention(f.child).filter((m) => m.includes("restarts"))).toHaveLength(1);
    // Whoever asks for a start, the rows refuse it.
    const startup = {
      intentId: intent(f).intentId,
      epoch: 1,
      payloadSha256: intent(f).payloadSha256!,
    };
    const start = () =>
      f.rig.agents.replace(f.child.id, { ...startup, prompt: () => "" }, () => () => undefined);
    expect(start).toThrow("unless that is exhausted");
  });

  test("clock set back between attempts → ids and epochs count, no time does", async () => {
    const f = await family();
    await unproved(f);
    await failed(f, 1);
    await attempts(f, 2);
    f.rig.db.query("UPDATE agent_sessions SET last_event_at = -1").run();
    await failed(f, 2);
    await failed(f, 3);
    expect(intent(f).exhausted).toBe(true);
  });

  thorough(
    "third attempt is ready and ends before it is acknowledged → exhausted as well",
    async () => {
      const f = await family();
      await unproved(f);
      await failed(f, 1);
      await failed(f, 2);
      const last = await attempts(f, 3);
      f.rig.agents.ready(last);
      f.rig.agents.ended(last, "Crashed");
      expect(intent(f).exhausted).toBe(true);
    },
  );

  test("retry-delivery → one fresh bounded cycle in the next epoch; earlier attempts do not count in it", async () => {
    const f = await family();
    await exhausted(f);
    startEpoch(f.rig.db, intent(f).intentId, 1);
    f.rig.cascade.considerRestart(f.child.id);
    expect(intent(f)).toMatchObject({ epoch: 2, exhausted: false, softRedeliveryCount: 0 });
    for (const nth of [4, 5]) await failed(f, nth);
    expect(intent(f).exhausted).toBe(false);
    await failed(f, 6);
    expect(intent(f)).toMatchObject({ exhausted: true, epoch: 2 });
    await idle(f);
    expect(f.rig.agents.started).toHaveLength(6);
    expect(f.rig.attention(f.child).filter((m) => m.includes("restarts"))).toHaveLength(2);
  });

  thorough("retry-delivery, then the agent takes it up → acknowledged by proof", async () => {
    const f = await family();
    await exhausted(f);
    startEpoch(f.rig.db, intent(f).intentId, 1);
    f.rig.cascade.considerRestart(f.child.id);
    await takesUp(f, await attempts(f, 4));
    expect((await f.agent.call()).text).toBeNull();
    expect(intent(f).state).toBe("Acknowledged");
  });

  test("exhausted → no other write is accepted, and a discard needs an approval that is there", async () => {
    const f = await family();
    await exhausted(f);
    const { intentId } = intent(f);
    const touch = () =>
      f.rig.db.query("UPDATE sync_intents SET reason = 'x' WHERE intent_id = ?").run(intentId);
    expect(touch).toThrow("only retried or discarded");
    const discard = () => discardDelivery(f.rig.db, intentId, { approvalId: "none", now: 1 });
    expect(discard).toThrow("FOREIGN KEY");
    expect(intent(f).exhausted).toBe(true);
  });
});

describe("the daemon dies", () => {
  // Each of them is also told on the model (tests/crash/intents); here it is the real jj.
  for (const [point, play] of [
    ["intent.agent-stopped.before", thorough],
    ["intent.agent-stopped.effected", thorough],
    ["intent.harness-ended.before", thorough],
    ["intent.harness-ended.effected", test],
    ["intent.restarting.before", thorough],
    ["intent.restarting.completed", thorough],
  ] as const) {
    play(
      `at ${point} → after its restart the agent is told, acknowledged once, the files changed once`,
      async () => {
        const f = await family();
        await f.rig.reboot(dieAt(point));
        await unproved(f);
        await waitFor(
          () => f.rig.attention(f.child).some((m) => m.includes("crash at")),
          10_000,
          "dead",
        );
        // Where the harness was ended, its wrapper says so to whichever daemon is there.
        const ended = f.rig.agents.asked.includes(`end ${f.child.incarnation}`);
        const before = { threadId: f.child.id, incarnation: f.child.incarnation };
        await f.rig.reboot(NO_CRASH);
        if (ended) f.rig.agents.ended(before, "Crashed");
        await takesUp(f, await attempts(f));
        expect((await f.agent.call()).text).toBeNull();
        expect(intent(f).state).toBe("Acknowledged");
        expect(f.rig.intents(f.child)).toHaveLength(1);
      },
    );
  }

  test("with a replacement on its way → waited for by the next daemon, not started twice", async () => {
    const f = await family();
    await unproved(f);
    const started = await attempts(f);
    await f.rig.reboot();
    await takesUp(f, started);
    await f.rig.reboot();
    expect((await f.agent.call()).text).toBeNull();
    expect(f.rig.agents.started).toHaveLength(1);
    expect(intent(f).state).toBe("Acknowledged");
  });
});
