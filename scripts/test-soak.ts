/**
 * A soak on the real jj (tests/e2e/soak/soak.ts), with its figures; the last line is
 * `soak: N actions, N lines, 0 faults (S s)`. Fails when there is a fault.
 *
 *   bun scripts/test-soak.ts [--actions N] [--seed S] [--keep]
 */
import { parseArgs } from "node:util";
import { soak } from "../tests/e2e/soak/soak.ts";
import { removeTempDirs } from "../tests/support/temp.ts";
import { testSeed } from "../tests/support/random.ts";
import { exitWith } from "./suite.ts";

const ACTIONS = 200;
const SETTLE_MS = 60_000;

await exitWith(async () => {
  const { values } = parseArgs({
    options: {
      actions: { type: "string" },
      seed: { type: "string" },
      keep: { type: "boolean", default: false },
    },
  });
  const actions = Number(values.actions ?? ACTIONS);
  const seed = Number(values.seed ?? testSeed());
  if (!Number.isInteger(actions) || actions < 1 || !Number.isInteger(seed))
    throw new Error("--actions takes a whole number from 1 on, --seed a whole number");
  const began = performance.now();
  console.log(`seed ${seed}`);
  const { faults, ...figures } = await soak({
    actions,
    seed,
    settleMs: SETTLE_MS,
    keep: values.keep,
    say: (line) => console.log(line),
  });
  if (!values.keep) removeTempDirs();
  console.log(JSON.stringify(figures));
  for (const fault of faults) console.log(`  ${fault}`);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    `soak: ${actions} actions, ${figures.lines} lines, ${faults.length} faults (${seconds} s)`,
  );
  return faults.length === 0 ? 0 : 1;
});
