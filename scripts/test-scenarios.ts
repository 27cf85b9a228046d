/**
 * The worked scenarios of the cascade, all of them and at full size, through the whole binary; the last line is
 * `scenarios: N passed, N failed (S s)`. The default suite has a part of them.
 *
 *   bun scripts/test-scenarios.ts [--turns 50] [--rounds 10]
 *
 * `turns`: of the busy child. `rounds`: moves of the parent under a process that writes on.
 */
import { parseArgs } from "node:util";
import { testFiles } from "./junit.ts";
import { ROOT } from "./packages.ts";
import { exitWith, runSuite } from "./suite.ts";

/** Scenario 5 lives with the other restarts. */
const FILES = /^tests\/e2e\/(scenarios\/|restart\.test)/;

function sizes(): { turns: string; rounds: string } {
  const { values } = parseArgs({
    options: {
      turns: { type: "string", default: "50" },
      rounds: { type: "string", default: "10" },
    },
  });
  for (const [name, value] of Object.entries(values))
    if (!/^[1-9]\d*$/.test(value)) throw new Error(`--${name} ${value}: a number from 1`);
  return values;
}

await exitWith(async () => {
  const { turns, rounds } = sizes();
  const began = performance.now();
  const { passed, failures } = await runSuite({
    files: testFiles(ROOT).filter((name) => FILES.test(name)),
    options: [],
    env: { KIKI_TEST_THOROUGH: "1", KIKI_TEST_TURNS: turns, KIKI_TEST_ROUNDS: rounds },
  });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(`scenarios: ${passed} passed, ${failures.length} failed (${seconds} s)`);
  return failures.length > 0 || passed === 0 ? 1 : 0;
});
