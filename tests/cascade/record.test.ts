/** What a reconciliation that stops records, while operations go on landing. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { recordOthers } from "../../src/cascade/record.ts";
import type { Scene } from "../../src/cascade/scene.ts";
import { Views } from "../../src/cascade/views.ts";
import { SerialQueues } from "../../src/core/serial-queue.ts";
import { NO_CRASH } from "../../src/ports/crash.ts";
import { cascadeThread } from "../../src/store/edges.ts";
import { removeTempDirs } from "../support/temp.ts";
import { makeRig, REPO_ID } from "./rig.ts";

setDefaultTimeout(60_000);
afterAll(removeTempDirs);

test("stop is recorded after newer operations were read → the cached head stays the newest", async () => {
  const rig = await makeRig();
  const thread = await rig.thread("parser");
  const [older] = await rig.jj.heads();
  rig.repo.write("parser.txt", "two\n", thread.path);
  await rig.repo.jj(["status"], thread.path);
  await rig.cascade.refreshToFrontier();
  const newest = await rig.head(thread);
  expect(cascadeThread(rig.db, thread.id)!.head).toBe(newest);

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
});
