import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { removeTempDirs } from "../support/temp.ts";
import { storm } from "./storm.ts";

setDefaultTimeout(240_000);
afterAll(removeTempDirs);

test("storm: three writers, six threads, thirty operations at once → nothing lost, nothing twice, right trees, no operation by reading", async () => {
  const report = await storm({
    seed: 2,
    operations: 30,
    threads: 6,
    writers: 3,
    children: 2,
    settleMs: 60_000,
  });
  expect(report.operations).toBeGreaterThanOrEqual(30);
  expect(report.intents).toBeGreaterThan(0);
  expect(report).toMatchObject({
    lost: [],
    duplicates: [],
    wrongTrees: [],
    madeByReading: [],
    acknowledged: report.intents - report.superseded,
  });
});
