/**
 * The operations storm on the real jj (tests/cascade/storm.ts) at full size, with its figures; the last line is
 * `storm: N operations, 0 lost, 0 duplicates, 0 wrong trees, 0 by reading (S s)`. Fails when one of them is not 0.
 *
 *   bun scripts/test-storm.ts [--operations N] [--threads N] [--writers N] [--children N] [--seed S]
 */
import { parseArgs } from "node:util";
import { storm, type StormReport } from "../tests/cascade/storm.ts";
import { removeTempDirs } from "../tests/support/temp.ts";
import { testSeed } from "../tests/support/random.ts";
import { exitWith } from "./suite.ts";

const DEFAULTS = { operations: 1_000, threads: 20, writers: 3, children: 5 };
const SETTLE_MS = 300_000;

function request(): typeof DEFAULTS & { seed: number } {
  const { values } = parseArgs({
    options: {
      operations: { type: "string" },
      threads: { type: "string" },
      writers: { type: "string" },
      children: { type: "string" },
      seed: { type: "string" },
    },
  });
  const number = (name: keyof typeof values, otherwise: number): number => {
    const value = Number(values[name] ?? otherwise);
    if (!Number.isInteger(value) || value < 1)
      throw new Error(`--${name} ${values[name]}: a number`);
    return value;
  };
  return {
    operations: number("operations", DEFAULTS.operations),
    threads: number("threads", DEFAULTS.threads),
    writers: number("writers", DEFAULTS.writers),
    children: number("children", DEFAULTS.children),
    seed: number("seed", testSeed()),
  };
}

function show(report: StormReport): void {
  const rows: [string, string | number][] = [
    [
      "operations",
      `${report.operations}, ${report.merges} of them merges of concurrent ones (${report.widerMerges} of more than two)`,
    ],
    ["writing", `${report.writingSeconds.toFixed(1)} s`],
    ["until everybody knew", `${report.settlingSeconds.toFixed(1)} s more`],
    [
      "intents",
      `${report.intents}: ${report.acknowledged} acknowledged, ${report.superseded} superseded`,
    ],
    ["payloads given", report.payloads],
    ["calls held in vain", report.heldInVain],
    [
      "jj processes of kiki's",
      `${report.jjProcesses}, ${(report.jjProcesses / report.operations).toFixed(2)} per operation`,
    ],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  for (const [name, value] of rows) console.log(`  ${name.padEnd(width)}  ${value}`);
  for (const what of [report.lost, report.duplicates, report.wrongTrees, report.madeByReading])
    for (const line of what) console.log(`  ! ${line}`);
  for (const line of report.graph) console.log(`  | ${line}`);
}

await exitWith(async () => {
  const asked = request();
  const began = performance.now();
  console.log(
    `storm of seed ${asked.seed}: ${asked.operations} operations by ${asked.writers} writers, ${asked.threads} threads, ${asked.children} of them followers`,
  );
  try {
    const report = await storm({
      ...asked,
      settleMs: SETTLE_MS,
      say: (line) => console.log(`  ${line}`),
    });
    show(report);
    const bad = [report.lost, report.duplicates, report.wrongTrees, report.madeByReading];
    const counts = bad.map((list) => list.length);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(
      `storm: ${report.operations} operations, ${counts[0]} lost, ${counts[1]} duplicates, ${counts[2]} wrong trees, ${counts[3]} by reading (${seconds} s)`,
    );
    return counts.every((count) => count === 0) && report.intents > 0 ? 0 : 1;
  } finally {
    removeTempDirs();
  }
});
