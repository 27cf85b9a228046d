/** The cascade with a whole agent in front of it: raw payloads, real hooks' rules, any order of arrival. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import * as durable from "../../src/backends/files.ts";
import { threadPaths } from "../../src/core/paths.ts";
import { FakeAgent } from "../fakes/agent.ts";
import { daemonOn, diskOn, type AgentFiles, type DaemonLife } from "../fakes/agent-protocol.ts";
import { bash, read, subAgent } from "../fakes/agent-tools.ts";
import { FakeFiles } from "../fakes/files.ts";
import { FakeHarness } from "../fakes/harness.ts";
import { FakeIds } from "../fakes/ids.ts";
import { randomOf, testSeed } from "../support/random.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makePair } from "./pair.ts";
import { REPO_ID, type Rig, type TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
const rigs: Rig[] = [];
afterAll(async () => {
  for (const rig of rigs) await rig.close();
  removeTempDirs();
});

const disk: AgentFiles = {
  get: (path) => (existsSync(path) ? readFileSync(path, "utf8") : null),
  put(path, text) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  },
  remove: (path) => rmSync(path, { force: true }),
};

interface Pair {
  rig: Rig;
  child: TestThread;
  agent: FakeAgent;
  /** Path in the child's workspace. */
  at(name: string): string;
  amend(text: string): Promise<void>;
  killDaemon(): void;
  bootDaemon(): Promise<void>;
}

/** A parent, a child that follows it, and the child's agent in its first turn. */
async function pair(): Promise<Pair> {
  const { rig, parent, child } = await makePair({ harness: new FakeHarness(new FakeFiles()) });
  rigs.push(rig);
  let dead = new AbortController();
  let life: DaemonLife | null = { cascade: rig.cascade, dead: dead.signal };
  const paths = threadPaths(rig.stateDir, REPO_ID, child.id);
  const hookDisk = diskOn(durable, paths, child.incarnation, Date.now);
  const agent = new FakeAgent({
    hooks: { daemon: daemonOn(() => life, { ...child, threadId: child.id }), disk: hookDisk },
    files: disk,
    ids: new FakeIds(),
    cwd: child.path,
    forbidden: () => {
      const moving = rig.intents(child).find((i) => i.state === "Reconciling");
      return moving === undefined ? null : `intent ${moving.intentId} is changing the files`;
    },
  });
  agent.start("startup", "go");
  await agent.run();
  return {
    rig,
    child,
    agent,
    at: (name) => `${child.path}/${name}`,
    async amend(text) {
      rig.repo.write("parser.txt", text, parent.path);
      await rig.repo.jj(["status"], parent.path);
      if (life !== null) await rig.cascade.refreshToFrontier();
    },
    killDaemon() {
      life = null;
      dead.abort();
    },
    async bootDaemon() {
      await rig.reboot();
      dead = new AbortController();
      life = { cascade: rig.cascade, dead: dead.signal };
    },
  };
}

/** A command that runs alone, and leaves no edit that would have to be recovered. */
const alone = bash("make", () => "");
const steps = (p: Pair): string[] => p.agent.steps().map((s) => s.name);
/** A call of the agent waits for the daemon. */
const held = (p: Pair): boolean => p.agent.waiting().length > 0;
const payloadOf = (p: Pair, n = 0) => p.rig.intents(p.child)[n]!.payload!;

/** The agent calls something harmless, to the end of its batch. */
async function callOnce(p: Pair): Promise<void> {
  p.agent.main.respond([bash("ls")]);
  await p.agent.run();
}

describe("the cascade and a whole agent", () => {
  test("parallel batch, hooks in any order → none runs, same bytes, next turn acknowledges; hook dies after stdout → redelivered", async () => {
    const p = await pair();
    const seed = testSeed();
    await p.amend("two\n");
    const calls = p.agent.main.respond([read(p.at("parser.txt")), bash("ls"), read(p.at("x"))]);
    await p.agent.run({
      random: randomOf(seed),
      until: () => calls.every((c) => c.state === "done"),
    });
    expect({ seed, ran: p.agent.ran }).toEqual({ seed, ran: [] });
    expect(new Set(p.agent.denied.map((d) => d.reason))).toEqual(new Set([payloadOf(p)]));
    expect(p.rig.file(p.child, "parser.txt")).toBe("two\n");
    await p.agent.run();
    expect(p.agent.saw(payloadOf(p))).toBe(true);
    expect(p.rig.intents(p.child)[0]!.receipt).toBe("matching");
    await callOnce(p);
    expect(p.rig.intents(p.child)[0]!.state).toBe("Acknowledged");

    await p.amend("three\n");
    p.agent.main.respond([bash("ls")]);
    await p.agent.run({ hold: /marks delivered/ });
    p.agent.hook("toolu_5").killSidecar();
    await p.agent.run();
    expect(p.rig.intents(p.child)[1]).toMatchObject({ state: "Materialized", receipt: "contrary" });
    await callOnce(p);
    expect(p.agent.denied.at(-1)!.reason).toBe(payloadOf(p, 1));
    expect(p.rig.intents(p.child)[1]).toMatchObject({ receipt: "matching" });
    expect(p.agent.violations).toEqual([]);
  });

  test("streamed batch whose first tool has run → its sibling passes; sub-agent at work → nothing changes until it is done, it gets a copy", async () => {
    const p = await pair();
    p.agent.main.respond([read(p.at("parser.txt")), alone, subAgent("helper")], { streamed: true });
    p.agent.step(/toolu_1: arrives/);
    await p.agent.run({ hold: /toolu_[23]/ });
    await p.amend("two\n");
    await p.agent.run();
    expect(p.agent.ran.map((c) => c.id)).toEqual(["toolu_1", "toolu_2", "toolu_3"]);
    expect(p.rig.file(p.child, "parser.txt")).toBe("one\n");

    const sub = [...p.agent.subs.values()][0]!;
    sub.respond([alone]);
    await p.agent.run({ hold: /finishes/ });
    p.agent.main.respond([bash("ls")]);
    await p.agent.run({ hold: /finishes/, until: () => held(p) });
    expect(p.rig.file(p.child, "parser.txt")).toBe("one\n");
    await p.agent.run();
    expect(p.rig.file(p.child, "parser.txt")).toBe("two\n");
    sub.respond([bash("pwd")]);
    await p.agent.run();
    expect(p.agent.denied.map((d) => d.reason)).toEqual([payloadOf(p), payloadOf(p)]);
    expect(p.agent.violations).toEqual([]);
  });

  test("daemon killed while a call is held → hook denies at end of file; after boot the payload comes", async () => {
    const p = await pair();
    await p.amend("two\n");
    p.agent.main.respond([bash("ls")]);
    p.agent.step(/asks/);
    await p.agent.run({ hold: /confirms/, until: () => steps(p).some((s) => /confirms/.test(s)) });
    p.killDaemon();
    await p.agent.run({ hold: /PostToolBatch/ });
    expect(p.agent.ran).toEqual([]);
    await p.bootDaemon();
    await p.agent.run();
    for (let n = 0; n < 3 && payloadOf(p) === null; n += 1) await callOnce(p);
    expect(p.agent.saw(payloadOf(p))).toBe(true);
    expect(p.agent.violations).toEqual([]);
  });
});
