/**
 * A daemon was killed, and a jj command of its goes on by itself: it has bound the child's intent, and may write into the
 * child's files at any time. On real jj.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { commandsCarrying, tokenArguments } from "../../src/core/attribution.ts";
import { linuxProcesses } from "../../src/backends/processes/linux.ts";
import { attribute, liveAttributions } from "../../src/store/ops.ts";
import { FakeProcesses } from "../fakes/processes.ts";
import { removeTempDirs } from "../support/temp.ts";
import { waitFor } from "../support/wait.ts";
import { makePair, type Pair } from "./pair.ts";

setDefaultTimeout(60_000);
const pairs: Pair[] = [];
afterAll(async () => {
  for (const p of pairs) await p.rig.close();
  removeTempDirs();
});

const TOKEN = "5fd2c0de-0000-4000-8000-00000000beef";
const CARRIES = tokenArguments(TOKEN);
const LIMIT_MS = 150;

/** The parent has moved; the daemon is dead. */
async function moved(processes: FakeProcesses | typeof linuxProcesses): Promise<Pair> {
  const p = await makePair({ processes, settings: { survivorMs: LIMIT_MS } });
  pairs.push(p);
  await p.amend("two\n");
  await p.rig.cascade.stop();
  attribute(p.rig.db, { token: TOKEN, handler: "reconcile", ownerId: intent(p).intentId, now: 1 });
  return p;
}

const intent = (p: Pair) => p.rig.intents(p.child)[0]!;

async function expectTold(p: Pair): Promise<void> {
  await waitFor(
    async () => (await p.agent.batch())[0]!.text === intent(p).payload,
    20_000,
    () => `told: ${JSON.stringify(intent(p))}`,
  );
  expect(p.rig.file(p.child, "parser.txt")).toBe("two\n");
}

test("it ends within its time → waited for, then told", async () => {
  const processes = new FakeProcesses();
  const p = await moved(processes);
  const { pid } = processes.spawn({ argv: ["jj", ...CARRIES] });
  const booted = p.rig.reboot();
  processes.end(pid);
  await booted;
  expect(processes.signals).toEqual([]);
  expect(liveAttributions(p.rig.db)).toEqual([]);
  await expectTold(p);
});

test("it does not end, a real process → ended before anything is resumed, its file is never written", async () => {
  const p = await moved(linuxProcesses);
  const late = `${p.child.path}/late.txt`;
  const survivor = Bun.spawn(["sh", "-c", `sleep 20; echo late >'${late}'`, "jj", ...CARRIES], {
    stdio: ["ignore", "ignore", "ignore"],
  });
  await waitFor(() => commandsCarrying(TOKEN, linuxProcesses).length > 0, 10_000, "its process");
  await p.rig.reboot();
  await survivor.exited;
  expect(survivor.signalCode).toBe("SIGKILL");
  expect(liveAttributions(p.rig.db)).toEqual([]);
  await expectTold(p);
  expect(p.rig.file(p.child, "late.txt")).toBeNull();
});

test("a person looks for its token → neither waited for nor ended", async () => {
  const processes = new FakeProcesses();
  const p = await moved(processes);
  processes.spawn({ argv: ["grep", "-r", `kiki.token=${TOKEN}`] });
  await p.rig.reboot();
  expect(processes.signals).toEqual([]);
  expect(liveAttributions(p.rig.db)).toEqual([]);
  await expectTold(p);
});

test("the system does not show its arguments one by one → never ended: it may be somebody's search", async () => {
  const processes = new FakeProcesses();
  const p = await moved(processes);
  const { pid } = processes.spawn({ argv: ["jj", ...CARRIES], closed: true });
  await p.rig.reboot();
  expect(processes.signals).toEqual([]);
  expect(processes.pids).toContain(pid);
  processes.end(pid);
  await expectTold(p);
});

test("it cannot be ended → nothing is changed beside it, a person is told of its process; it ends → the agent is told", async () => {
  const processes = new FakeProcesses();
  const p = await moved(processes);
  const { pid } = processes.spawn({ argv: ["jj", ...CARRIES], untouchable: true });
  await p.rig.reboot();
  const [answer] = await p.agent.batch();
  expect(answer!.text).not.toBeNull();
  expect(answer!.text).not.toBe(intent(p).payload);
  expect(p.rig.file(p.child, "parser.txt")).toBe("one\n");
  expect(p.rig.attention(p.child).join("\n")).toContain(`still running (process ${pid})`);
  expect(liveAttributions(p.rig.db).map((a) => a.token)).toContain(TOKEN);
  processes.end(pid);
  await expectTold(p);
});
