/** Runs jj scenarios on the fake and, where there is one, on the real jj; both must be seen to do the same. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { hermeticEnv, removeTempDirs, tempDir } from "../support/temp.ts";
import { Observer, PLAIN, type Scenario, type World } from "./jj-driver.ts";
import { fakeWorld, realWorld } from "./jj-worlds.ts";

const TIMEOUT_MS = 60_000;

interface Row {
  scenario: string;
  fake: string;
  real: string;
}

/** With KIKI_TEST_TABLE set, the end prints `scenario | fake | real jj`. */
export function jjContract(groups: Record<string, readonly Scenario[]>): void {
  // The hook that removes some hundred repositories takes its time as well, on a busy machine.
  setDefaultTimeout(TIMEOUT_MS);
  const table: Row[] = [];
  const hasJj = Bun.which("jj", { PATH: hermeticEnv(tempDir("jj-contract"))["PATH"]! }) !== null;
  afterAll(() => {
    removeTempDirs();
    if (process.env["KIKI_TEST_TABLE"] !== undefined) print(table);
  });
  for (const [group, scenarios] of Object.entries(groups)) {
    describe(group, () => {
      for (const scenario of scenarios) {
        test(
          scenario.name,
          async () => {
            const row = { scenario: scenario.name, fake: "failed", real: "not run" };
            table.push(row);
            await compare(scenario, row, hasJj);
          },
          TIMEOUT_MS,
        );
      }
    });
  }
}

async function compare(scenario: Scenario, row: Row, hasJj: boolean): Promise<void> {
  const start = scenario.start ?? PLAIN;
  const onFake = await play(scenario, await fakeWorld(start));
  row.fake = "ok";
  if (scenario.stricter === true) row.real = "allows more";
  if (scenario.stricter === true || !hasJj) return;
  row.real = "differs";
  const onReal = await play(scenario, await realWorld(start));
  const first = onReal.findIndex((entry, at) => entry !== onFake[at]);
  // The first difference is the one that matters; what led to it stands before it.
  if (first >= 0) {
    expect([...headings(onFake, first), onFake[first]]).toEqual([
      ...headings(onReal, first),
      onReal[first],
    ]);
  }
  expect(onFake.length).toBe(onReal.length);
  row.real = "ok";
}

async function play(scenario: Scenario, world: World): Promise<string[]> {
  const see = new Observer(world);
  await scenario.run(world, see);
  return see.transcript;
}

/** First lines of what was noted before. */
function headings(transcript: readonly string[], end: number): string[] {
  return transcript.slice(0, end).map((entry) => entry.split("\n")[0]!);
}

function print(table: readonly Row[]): void {
  const rows = table.map(({ scenario, fake, real }) => `| ${scenario} | ${fake} | ${real} |`);
  const head = ["| scenario | fake | real jj |", "| --- | --- | --- |"];
  process.stdout.write(`${[...head, ...rows].join("\n")}\n`);
}
