/** What a reconciliation that stops records, while operations go on landing. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import type { CascadeDeps } from "../../src/cascade/deps.ts";
import { newToken, pinHead, probeNow } from "../../src/cascade/looks.ts";
import { sceneOf } from "../../src/cascade/reconcile.ts";
import { recordOthers } from "../../src/cascade/record.ts";
import type { Scene } from "../../src/cascade/scene.ts";
import { Views } from "../../src/cascade/views.ts";
import { realClock } from "../../src/backends/clock.ts";
import { realIds } from "../../src/backends/ids.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { cascadeThread } from "../../src/store/edges.ts";
import { bindSoftBatch } from "../../src/store/soft-batch.ts";
import { liveAttributions, replaceFrontier } from "../../src/store/ops.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makeRig, REPO_ID, type Rig, type TestThread } from "./rig.ts";

setDefaultTimeout(60_000);
afterAll(removeTempDirs);

test.each([
  ["were read", false],
  ["were interpreted by a reading that then failed", true],
] as const)(
  "stop is recorded after newer operations %s → the cached head stays the newest",
  async (_, failed) => {
    const rig = await makeRig();
    const thread = await rig.thread("parser");
    const [older] = await rig.jj.heads();
    rig.repo.write("parser.txt", "two\n", thread.path);
    await rig.repo.jj(["status"], thread.path);
    await rig.cascade.refreshToFrontier();
    const newest = await rig.head(thread);
    expect(cascadeThread(rig.db, thread.id)!.head).toBe(newest);
    if (failed) replaceFrontier(rig.db, [older!]);

    const deps = {
      db: rig.db,
      jj: rig.jj,
      repoId: REPO_ID,
      queues: new SerialQueues(),
      crash: NO_CRASH,
    };
    const child = cascadeThread(rig.db, thread.id)!;
    const plan = { startOp: older!, tokens: [] };
    const scene = { deps, views: new Views(rig.jj), jj: rig.jj, child, plan } as unknown as Scene;
    await recordOthers(scene, older!, () => undefined);
    expect(cascadeThread(rig.db, thread.id)!.head).toBe(newest);
    await rig.close();
  },
);

test("recovery before any plan moves a thread that is followed itself → its follower has work", async () => {
  const rig = await makeRig();
  const lexer = await rig.thread("lexer");
  const parser = await rig.thread("parser", lexer);
  const tests = await rig.thread("tests", parser);
  await rig.repo.jj(["new", "-m", "more"], lexer.path);
  await rig.cascade.refreshToFrontier();
  const scene = sceneFor(rig, parser);
  await moveBranch(rig, scene, parser);

  expect(rig.intents(tests)).toMatchObject([{ state: "Detected", toBase: await rig.head(parser) }]);
  expect(liveAttributions(rig.db)).toEqual([]);
  await rig.close();
});

test("recovery after a recorded plan brings a thread back to where the plan began → its follower has work", async () => {
  const rig = await makeRig();
  const lexer = await rig.thread("lexer");
  const parser = await rig.thread("parser", lexer);
  const before = await rig.head(parser);
  await rig.repo.jj(["new", "-m", "more"], lexer.path);
  await rig.cascade.refreshToFrontier();
  const scene = sceneFor(rig, parser);
  await moveBranch(rig, scene, parser);
  const tests = await rig.thread("tests", parser);

  await probeNow(scene, await pinHead(scene));
  await rig.jj.edit(parser.path, before, newToken(scene, "fingerprint"));
  await rig.cascade.refreshToFrontier();
  expect(await rig.head(parser)).toBe(before);
  await recordOthers(scene, (await rig.jj.heads())[0]!, () => undefined);
  expect(rig.intents(tests)).toHaveLength(1);
  await rig.close();
});

test("stop while there is no one view → its operations stay owed", async () => {
  const rig = await makeRig();
  const lexer = await rig.thread("lexer");
  const parser = await rig.thread("parser", lexer);
  await rig.repo.jj(["new", "-m", "more"], lexer.path);
  await rig.cascade.refreshToFrontier();
  const scene = sceneFor(rig, parser);
  await probeNow(scene, await pinHead(scene));
  const token = newToken(scene, "fingerprint");
  await recordOthers(scene, null, () => undefined);
  expect(liveAttributions(rig.db).map((a) => a.token)).toEqual([token]);
  await rig.close();
});

/** A scene of the intent, under way, as a recovery has it that comes before any plan. */
function sceneFor(rig: Rig, child: TestThread): Scene {
  const { intentId } = rig.intents(child)[0]!;
  bindSoftBatch(rig.db, intentId, { incarnation: child.incarnation, turn: 1, batch: 1 }, 1);
  const deps = {
    db: rig.db,
    jj: rig.jj,
    repoId: REPO_ID,
    queues: new SerialQueues(),
    crash: NO_CRASH,
    clock: realClock,
    ids: realIds,
    log: console,
    raiseAttention: () => undefined,
  } as unknown as CascadeDeps;
  return sceneOf(deps, new Views(rig.jj), rig.jj, intentId)!;
}

/** A command of kiki's puts the thread's `@` on a new revision; only its record tells what that means. */
async function moveBranch(rig: Rig, scene: Scene, thread: TestThread): Promise<void> {
  await probeNow(scene, await pinHead(scene));
  rig.repo.write(`${thread.name}.txt`, "edited\n", thread.path);
  await rig.jj.snapshot(thread.path, newToken(scene, "fingerprint"));
  await rig.cascade.refreshToFrontier();
  await recordOthers(scene, (await rig.jj.heads())[0]!, () => undefined);
}
