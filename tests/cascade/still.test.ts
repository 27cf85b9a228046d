/**
 * A background process of the agent that never stops writing, on real jj, a real process tree and real signals: what it
 * writes is in the visible files, however often its parent moves. `KIKI_TEST_ROUNDS=200` moves it that often.
 */
import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import type { Box } from "../backends/processes/rig.ts";
import { removeTempDirs } from "../support/temp.ts";
import { isThorough } from "../support/thorough.ts";
import { waitFor } from "../support/wait.ts";
import { busyAgent, type BusyAgent } from "./busy.ts";
import type { Rig, TestThread } from "./rig.ts";

const ROUNDS = Number(process.env["KIKI_TEST_ROUNDS"] ?? (isThorough ? 3 : 1));
const ROUND_MS = 60_000;
setDefaultTimeout(ROUND_MS);
let box: Box | null = null;
afterEach(async () => {
  await box?.end();
  box = null;
});

async function busy(script: string): Promise<BusyAgent> {
  const agent = await busyAgent(script);
  box = agent.box;
  return agent;
}

afterAll(removeTempDirs);

/** Every line it has said it wrote is in the files. */
function expectKept(rig: Rig, child: TestThread): void {
  const written = journal();
  for (const path of ["shared.txt", "own.txt"]) {
    const there = new Set(rig.file(child, path)!.split("\n"));
    expect({ path, lost: written.filter((line) => !there.has(line)) }).toEqual({ path, lost: [] });
  }
}

/** Lines the writer says it has written, each said after it was. */
function journal(): string[] {
  return readFileSync(`${box!.dir}/journal`, "utf8").split("\n").slice(0, -1);
}

describe.skipIf(process.platform !== "linux")(
  "an agent whose background process goes on writing",
  () => {
    test(
      `materialised ${ROUNDS} times → every line it wrote is in the files, and the parent's newest as well`,
      async () => {
        const { rig, parent, child } = await busy(
          `(i=0; while :; do i=$((i+1)); echo "line $i" >>$W/shared.txt; echo "line $i" >>$W/own.txt
          echo "line $i" >>$D/journal; sleep 0.003; done) &`,
        );
        const agent = rig.agent(child);
        await waitFor(() => box!.size("journal") > 20, ROUND_MS, "lines");
        for (let round = 1; round <= ROUNDS; round += 1) {
          const now = `parent ${round}\n1\n2\n3\n4\n5\n6\n7\n`;
          rig.repo.write("shared.txt", now, parent.path);
          await rig.repo.jj(["status"], parent.path);
          await rig.cascade.refreshToFrontier();
          // At most a few boundaries: one at which nothing may be changed is followed by another.
          for (
            let n = 0;
            n < 6 && !rig.file(child, "shared.txt")!.startsWith(`parent ${round}\n`);
            n += 1
          )
            await agent.batch();
          expect(rig.file(child, "shared.txt")!.split("\n")[0]).toBe(`parent ${round}`);
          await agent.batch();
          expectKept(rig, child);
          // It goes on afterwards.
          const before = journal().length;
          await waitFor(() => journal().length > before, ROUND_MS, "more lines");
        }
        expectKept(rig, child);
        expect(rig.attention(child)).toEqual([]);
        console.info(`${ROUNDS} rounds, ${journal().length} lines written, none lost`);
        await rig.close();
      },
      ROUND_MS * ROUNDS,
    );
  },
);
